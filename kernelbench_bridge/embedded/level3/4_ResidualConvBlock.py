import torch
import torch.nn as nn

batch = 4
channels = 24
height = 32
width = 32
groups = 4


class Model(nn.Module):
    """Two convolutions with group normalisation, the input added before the last ReLU."""

    def __init__(self, channels: int, groups: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.first_norm = nn.GroupNorm(groups, channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second_norm = nn.GroupNorm(groups, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x and the result are (batch, channels, height, width)."""
        y = torch.relu(self.first_norm(self.first(x)))
        return torch.relu(x + self.second_norm(self.second(y)))


def get_inputs() -> list[torch.Tensor]:
    """Images of normal noise."""
    return [torch.randn(batch, channels, height, width)]


def get_init_inputs() -> list[object]:
    """Channels and groups."""
    return [channels, groups]
