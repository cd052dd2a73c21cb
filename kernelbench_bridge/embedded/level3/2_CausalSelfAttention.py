import math

import torch
import torch.nn as nn

batch = 2
length = 128
width = 128
heads = 4


class Model(nn.Module):
    """Multi-head self-attention in which a position sees itself and what came before."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project_in = nn.Linear(width, 3 * width)
        self.project_out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x and the result are (batch, length, width)."""
        batch, length, width = x.shape
        parts = self.project_in(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-2, -1) / math.sqrt(width // self.heads)
        future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        weights = torch.softmax(scores.masked_fill(future, float("-inf")), dim=-1)
        mixed = (weights @ value).transpose(1, 2).reshape(batch, length, width)
        result: torch.Tensor = self.project_out(mixed)
        return result


def get_inputs() -> list[torch.Tensor]:
    """Large enough that attention picks some positions over others."""
    return [3.0 * torch.randn(batch, length, width)]


def get_init_inputs() -> list[object]:
    """Width and number of heads."""
    return [width, heads]
