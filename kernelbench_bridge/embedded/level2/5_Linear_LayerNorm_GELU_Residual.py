import torch
import torch.nn as nn

tokens = 512
features = 384


class Model(nn.Module):
    """A linear layer, normalised, through GELU, added to its own input."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.norm_weight = nn.Parameter(0.5 + torch.rand(features))
        self.norm_bias = nn.Parameter(torch.randn(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x and the result are (tokens, features)."""
        y = nn.functional.layer_norm(self.linear(x), (x.shape[-1],), self.norm_weight, self.norm_bias)
        return x + nn.functional.gelu(y)


def get_inputs() -> list[torch.Tensor]:
    """Normal values."""
    return [torch.randn(tokens, features)]


def get_init_inputs() -> list[object]:
    """Feature count."""
    return [features]
