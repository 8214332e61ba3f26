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

    Modules that are imported later find ours in the host, as long as it is there. What
    was made by then stays what it is.

    Args:
        names: {(module of the host, module of ours): names that both have}; modules are
            imported when `install` is first called.
        methods: {(class of the host, name of a method): module with a function of ours
            of that name}.
        left: beginnings of the names of modules that go on meaning theirs.
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

    def install(self) -> None:
        """Puts ours in their places; a second call sees to what came since."""
        ours = {}
        for (host, module), names in self._names.items():
            theirs, own = import_module(host), import_module(module)
            for name in names:
                first = self._theirs.setdefault((host, name), getattr(theirs, name))
                ours[id(first)] = getattr(own, name)
        for name, found in list(sys.modules.items()):
            if isinstance(found, ModuleType) and not name.startswith(self._left):
                for key, value in list(vars(found).items()):
                    if id(value) in ours:
                        self._put(found, key, ours[id(value)])
        for (owner, key), module in self._methods.items():
            method = getattr(import_module(module), key)
            if getattr(owner, key) is not method:
                self._put(owner, key, method)

    def uninstall(self) -> None:
        """Puts back what was there."""
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
