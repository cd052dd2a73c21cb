import torch
import torch.nn as nn

tokens = 1024
features = 768


class Model(nn.Module):
    """A residual sum, normalised by its root mean square, gated by the SiLU of a third input."""

    def __init__(self, features: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(0.5 + torch.rand(features))

    def forward(self, x: torch.Tensor, residual: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        """All three inputs and the result are (tokens, features)."""
        total = x + residual
        normed = total * torch.rsqrt((total * total).mean(dim=-1, keepdim=True) + self.eps) * self.weight
        return normed * gate * torch.sigmoid(gate)


def get_inputs() -> list[torch.Tensor]:
    """Rows of different size, a residual, a gate."""
    x = torch.randn(tokens, features) * (0.25 + 2.0 * torch.rand(tokens, 1))
    return [x, torch.randn(tokens, features), torch.randn(tokens, features)]


def get_init_inputs() -> list[object]:
    """Feature count and epsilon."""
    return [features, 1e-6]
