import torch
import torch.nn as nn

batch = 8
in_channels = 8
out_channels = 16
height = 48
width = 48


class Model(nn.Module):
    """A convolution, then ReLU, a learned factor for each channel, and tanh."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(in_channels, out_channels, 3)
        self.scale = nn.Parameter(torch.randn(out_channels, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x is (batch, in_channels, height, width); the result is (batch, out_channels, height - 2, width - 2)."""
        return torch.tanh(torch.relu(self.convolution(x)) * self.scale)


def get_inputs() -> list[torch.Tensor]:
    """Images of normal noise."""
    return [2.0 * torch.randn(batch, in_channels, height, width)]


def get_init_inputs() -> list[object]:
    """Channels in and out."""
    return [in_channels, out_channels]
