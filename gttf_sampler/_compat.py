"""What only some of the supported versions of torch have, in a form for all of them."""

from collections.abc import Callable

import torch

# torch 2.2 has it in another place; a compiler knows the function itself by either name
is_compiling: Callable[[], bool] = (
    torch.compiler.is_compiling
    if hasattr(torch.compiler, "is_compiling")
    else torch._utils.is_compiling
)
