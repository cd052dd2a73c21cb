import torch
import torch.nn as nn

batch = 8
in_channels = 6
out_channels = 24
height = 64
width = 64


class Model(nn.Module):
    """A convolution, maximum pooling, leaky ReLU, and a second input added."""

    def __init__(self, in_channels: int, out_channels: int, slope: float) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(in_channels, out_channels, 3, padding=1, bias=False)
        self.slope = slope

    def forward(self, x: torch.Tensor, skip: torch.Tensor) -> torch.Tensor:
        """x is (batch, in_channels, height, width); skip and the result are (batch, out_channels, height / 2, width / 2)."""
        pooled = nn.functional.max_pool2d(self.convolution(x), 2)
        return nn.functional.leaky_relu(pooled, self.slope) + skip


def get_inputs() -> list[torch.Tensor]:
    """Images, and a skip connection of the pooled size."""
    return [torch.randn(batch, in_channels, height, width), 0.5 * torch.randn(batch, out_channels, height // 2, width // 2)]


def get_init_inputs() -> list[object]:
    """Channels in and out, slope."""
    return [in_channels, out_channels, 0.2]
