"""Our objects in the place of a host's: by import, and in code that nobody edits."""

import runpy
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

Place = tuple[ModuleType | type, str, object]  # where, under which name, what was there


class Swap:
    """Lets every module say our object where it said a host's, and undoes that.

    Modules that are imported later find ours in the host, as long as it is there; what
    they have of ours then goes back with the rest, unless their code imports a package
    of ours itself. What was made of a class stays what it is: objects, subclasses, and
    what is kept in attributes of classes or in registries.

    Args:
        names: {(module of the host, module of ours): names of ours}, of which those are
            swapped that this version of the host has, too; modules are imported when
            `install` is first called.
        methods: {(class of the host, name of a method): module with a function of ours
            of that name}.
        left: beginnings of the names of modules that go on meaning what they mean.
    """

    def __init__(
        self,
        names: Mapping[tuple[str, str], Iterable[str]],
        methods: Mapping[tuple[type, str], str] | None = None,
        left: tuple[str, ...] = ("gttf_",),
    ) -> None:
        self._names, self._methods, self._left = names, methods or {}, left
        self._theirs: dict[tuple[str, str], Any] = {}  # before anything was swapped
        self._before: list[Place] = []
        self._known: set[str] = set()  # modules that were there at `install`

    def install(self) -> None:
        """Puts ours in their places; a second call sees to what came since."""
        ours = {id(first): own for first, own in self._pairs()}
        if not self._before:
            self._known = set(sys.modules)
        for _, module, key, own in self._places(ours):
            self._put(module, key, own)
        for (owner, key), name in self._methods.items():
            method = getattr(import_module(name), key)
            if getattr(owner, key) is not method:
                self._put(owner, key, method)

    def uninstall(self) -> None:
        """Puts back what was there, and what would have been there."""
        if not self._before:
            return
        theirs = {id(own): first for first, own in self._pairs()}
        for name, module, key, first in self._places(theirs):
            if name not in self._known and not self._asked_for(module):
                setattr(module, key, first)
        while self._before:
            owner, key, value = self._before.pop()
            setattr(owner, key, value)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """`install` for the length of a `with` block."""
        already = len(self._before)
        self.install()
        try:
            yield
        finally:
            if not already:
                self.uninstall()

    def _pairs(self) -> Iterator[tuple[Any, Any]]:
        """Their object and ours, of every name that this version of the host has."""
        for (host, module), names in self._names.items():
            theirs, own = import_module(host), import_module(module)
            for name in names:
                if hasattr(theirs, name):
                    first = self._theirs.setdefault((host, name), getattr(theirs, name))
                    yield first, getattr(own, name)

    def _places(
        self, swaps: Mapping[int, Any]
    ) -> Iterator[tuple[str, ModuleType, str, Any]]:
        """Module and name of what is to be swapped, and for what; by its id."""
        for name, found in list(sys.modules.items()):
            if isinstance(found, ModuleType) and not name.startswith(self._left):
                for key, value in list(vars(found).items()):
                    if id(value) in swaps:
                        yield name, found, key, swaps[id(value)]

    def _asked_for(self, module: ModuleType) -> bool:
        """True if the code of a module imports a package of ours itself."""
        loader = getattr(getattr(module, "__spec__", None), "loader", None)
        try:
            code = loader.get_code(module.__name__)  # type: ignore[union-attr]
        except (AttributeError, ImportError):  # no loader, or none that has code
            return False
        names = () if code is None else code.co_names
        return any(name.startswith(self._left) for name in names)

    def _put(self, owner: ModuleType | type, key: str, value: object) -> None:
        self._before.append((owner, key, getattr(owner, key)))
        setattr(owner, key, value)


def host_names(host: ModuleType, module: str) -> tuple[list[str], Callable[..., Any]]:
    """`__all__` and `__getattr__` of a module that stands in for one of a host.

    A name that the module has not itself is ours where its package has one, else the
    host's own object, so that an import line changes by one word.
    """
    package = import_module(module.partition(".")[0])

    def look_up(name: str) -> Any:
        if name.startswith("_") or not hasattr(host, name):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return getattr(package if name in package.__all__ else host, name)

    return list(getattr(host, "__all__", _public(host))), look_up


def _public(host: ModuleType) -> list[str]:
    """The classes and functions of a module without `__all__` that are its own."""
    root = host.__name__.partition(".")[0]
    return [
        name
        for name, value in vars(host).items()
        if not name.startswith("_") and callable(value)
        if getattr(value, "__module__", "").partition(".")[0] == root
    ]


def run_as_main(argv: list[str], program: str) -> None:
    """Runs a script, or a module after `-m`, as Python itself would.

    Args:
        argv: the words behind `program`: a script and its arguments.
        program: what to name in the message if there are none.
    """
    module = argv[:1] == ["-m"]
    words = argv[1:] if module else argv
    if not words or words[0].startswith("-"):
        sys.exit(f"usage: {program} [-m module | script.py] [arguments]")
    sys.argv = words
    if module:
        sys.path.insert(0, "")
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
        return
    if not Path(words[0]).is_file():
        sys.exit(f"{program}: there is no file {words[0]!r}")
    sys.path.insert(0, str(Path(words[0]).resolve().parent))
    runpy.run_path(words[0], run_name="__main__")
