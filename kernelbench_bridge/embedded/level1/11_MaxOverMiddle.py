import torch
import torch.nn as nn

batch = 16
length = 256
features = 1024


class Model(nn.Module):
    """Largest value over the middle dimension, which is not the contiguous one."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x is (batch, length, features); the result is (batch, features)."""
        return torch.amax(x, dim=1)


def get_inputs() -> list[torch.Tensor]:
    """Features of different size, so that maxima differ."""
    return [torch.randn(batch, length, features) * (0.2 + torch.rand(batch, 1, features))]


def get_init_inputs() -> list[object]:
    """The model takes no arguments."""
    return []
