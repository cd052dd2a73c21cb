import torch
import torch.nn as nn

m = 384
k = 512
n = 320


class Model(nn.Module):
    """Product of two matrices, none of their sizes equal."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """a is (m, k), b is (k, n); the result is (m, n)."""
        return torch.matmul(a, b)


def get_inputs() -> list[torch.Tensor]:
    """Two matrices of normal noise."""
    return [torch.randn(m, k), torch.randn(k, n)]


def get_init_inputs() -> list[object]:
    """The model takes no arguments."""
    return []
