"""Seeds torch's generators of the CPU and one device."""

from __future__ import annotations

import torch


def seed_generators(device: torch.device, number: int) -> None:
    """As torch.manual_seed for these two alone: that queues a call, with a stack trace, for every kind of device that is not in use, a
    millisecond each time, and the queue is never emptied."""
    torch.default_generator.manual_seed(number)
    if device.type == "cuda":
        torch.cuda.manual_seed(number)
