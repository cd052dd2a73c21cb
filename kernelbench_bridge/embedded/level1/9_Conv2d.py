import torch
import torch.nn as nn

batch = 4
in_channels = 16
out_channels = 32
height = 40
width = 56
kernel = 3


class Model(nn.Module):
    """Square-kernel convolution of images that are not square, with a bias."""

    def __init__(self, in_channels: int, out_channels: int, kernel: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(in_channels, out_channels, kernel, padding=kernel // 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x is (batch, in_channels, height, width); the result is (batch, out_channels, height, width)."""
        result: torch.Tensor = self.convolution(x)
        return result


def get_inputs() -> list[torch.Tensor]:
    """Images of normal noise."""
    return [torch.randn(batch, in_channels, height, width)]


def get_init_inputs() -> list[object]:
    """Channels in, channels out, kernel size."""
    return [in_channels, out_channels, kernel]
