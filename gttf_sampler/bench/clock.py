"""When work is done: where a device runs behind the host, that has to wait for it."""

import torch


def settle(device: torch.device) -> None:
    """Waits until `device` has done all that it was given."""
    if device.type == "cuda" and torch.cuda.is_available():
        torch.cuda.synchronize(device)
