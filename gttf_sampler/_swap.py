"""Our objects in the place of a host's: by import, and in code that nobody edits."""

import runpy
import sys
from collections.abc import Callable, Iterator, Mapping
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
        pairs: returns (theirs, ours) for classes and functions, once it is needed.
        methods: returns {(class, name of a method): ours}.
        left: beginnings of the names of modules that go on meaning theirs.
    """

    def __init__(
        self,
        pairs: Callable[[], list[tuple[Any, Any]]],
        methods: Callable[[], Mapping[tuple[type, str], Any]] = dict,
        left: tuple[str, ...] = ("gttf_",),
    ) -> None:
        self._pairs, self._methods, self._left = pairs, methods, left
        self._before: list[Place] = []

    def install(self) -> None:
        """Puts ours in their places; a second call sees to what came since."""
        ours = {id(theirs): own for theirs, own in self._pairs()}
        for name, module in list(sys.modules.items()):
            if isinstance(module, ModuleType) and not name.startswith(self._left):
                for key, value in list(vars(module).items()):
                    own = ours.get(id(value))
                    if own is not None:
                        self._put(module, key, own)
        for (owner, key), own in self._methods().items():
            if getattr(owner, key) is not own:
                self._put(owner, key, own)

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
