import torch
import torch.nn as nn

tokens = 1024
features = 1024


class Model(nn.Module):
    """Each row divided by its root mean square, then scaled feature by feature."""

    def __init__(self, features: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(0.5 + torch.rand(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x and the result are (tokens, features)."""
        mean_square = (x * x).mean(dim=-1, keepdim=True)
        return x * torch.rsqrt(mean_square + self.eps) * self.weight


def get_inputs() -> list[torch.Tensor]:
    """Rows of different size, so that skipping the reduction shows."""
    return [torch.randn(tokens, features) * (0.25 + 2.0 * torch.rand(tokens, 1))]


def get_init_inputs() -> list[object]:
    """Feature count and epsilon."""
    return [features, 1e-6]
