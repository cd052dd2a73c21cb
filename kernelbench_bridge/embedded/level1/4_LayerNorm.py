import torch
import torch.nn as nn

tokens = 1024
features = 768


class Model(nn.Module):
    """Layer normalisation over the last dimension from its formula: mean, biased variance, scale and shift."""

    def __init__(self, features: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(0.5 + torch.rand(features))
        self.bias = nn.Parameter(torch.randn(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x and the result are (tokens, features)."""
        centred = x - x.mean(dim=-1, keepdim=True)
        variance = (centred * centred).mean(dim=-1, keepdim=True)
        return centred / torch.sqrt(variance + self.eps) * self.weight + self.bias


def get_inputs() -> list[torch.Tensor]:
    """Rows with their own offset and size."""
    return [torch.randn(tokens, features) * (0.5 + torch.rand(tokens, 1)) + torch.randn(tokens, 1)]


def get_init_inputs() -> list[object]:
    """Feature count and epsilon."""
    return [features, 1e-5]
