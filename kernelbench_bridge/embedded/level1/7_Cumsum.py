import torch
import torch.nn as nn

rows = 512
columns = 2048


class Model(nn.Module):
    """Running sum along each row."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x and the result are (rows, columns)."""
        return torch.cumsum(x, dim=1)


def get_inputs() -> list[torch.Tensor]:
    """Values of both signs, so that the sums wander and no line fits them."""
    return [torch.randn(rows, columns)]


def get_init_inputs() -> list[object]:
    """The model takes no arguments."""
    return []
