import torch
import torch.nn as nn

batch = 8
channels = 32
height = 64
width = 64


class Model(nn.Module):
    """Maximum over overlapping square windows of each image plane."""

    def __init__(self, window: int, stride: int, padding: int) -> None:
        super().__init__()
        self.pool = nn.MaxPool2d(window, stride=stride, padding=padding)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x is (batch, channels, height, width); the result has half the height and width."""
        result: torch.Tensor = self.pool(x)
        return result


def get_inputs() -> list[torch.Tensor]:
    """Values of both signs: zero padding instead of minus infinity shows."""
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs() -> list[object]:
    """Window, stride, padding."""
    return [3, 2, 1]
