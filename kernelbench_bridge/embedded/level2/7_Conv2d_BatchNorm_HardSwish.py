import torch
import torch.nn as nn

batch = 8
in_channels = 8
out_channels = 24
height = 40
width = 40


class Model(nn.Module):
    """A convolution normalised by the statistics of its batch, then hard swish."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(in_channels, out_channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(out_channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x is (batch, in_channels, height, width); the result is (batch, out_channels, height, width)."""
        return nn.functional.hardswish(self.norm(self.convolution(x)))


def get_inputs() -> list[torch.Tensor]:
    """Images with their own brightness."""
    return [torch.randn(batch, in_channels, height, width) + torch.randn(batch, in_channels, 1, 1)]


def get_init_inputs() -> list[object]:
    """Channels in and out."""
    return [in_channels, out_channels]
