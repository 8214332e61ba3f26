"""Watch: a look at the modules that run while a batch is out."""

import sys
import weakref
from collections.abc import Callable
from typing import Any

from torch.nn.modules.module import register_module_forward_pre_hook

CALLS = 1000  # of modules, after which nobody will look any more

Look = Callable[[Any, tuple[Any, ...]], bool]


class Watch:
    """Shows `look` every module that is called and its arguments, until it says True.

    It ends by itself, at the latest with `batch`, so that training pays for one batch.
    There is one at a time; the next one ends it.
    """

    _now: "Watch | None" = None

    def __init__(self, look: Look, batch: Any) -> None:
        Watch.end()
        if _compiles():
            return  # torch warns of hooks of this kind, and may compile anew
        self._look, self._left = look, CALLS
        self._handle = register_module_forward_pre_hook(self._see)
        Watch._now = self
        weakref.finalize(batch, self._over).atexit = False

    @classmethod
    def end(cls) -> None:
        """Ends the watch that is under way, if there is one."""
        if cls._now is not None:
            cls._now._handle.remove()
            cls._now = None

    def _over(self) -> None:
        if Watch._now is self:
            Watch.end()

    def _see(self, module: Any, args: Any) -> None:
        self._left -= 1
        if self._look(module, args) or self._left <= 0:
            self._over()


def _compiles() -> bool:
    """Whether anything was given to `torch.compile`."""
    compiler = sys.modules.get("torch._dynamo.eval_frame")
    backends = getattr(compiler, "cached_backends", {})
    return any(backend is not None for backend in backends.values())
