import torch
import torch.nn as nn

batch = 512
in_features = 256
out_features = 512


class Model(nn.Module):
    """A linear layer, then swish, a factor and a clamp, each over the whole result."""

    def __init__(self, in_features: int, out_features: int, factor: float, limit: float) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.factor = factor
        self.limit = limit

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x is (batch, in_features); the result is (batch, out_features)."""
        y = self.linear(x)
        y = y * torch.sigmoid(y) * self.factor
        return torch.clamp(y, -self.limit, self.limit)


def get_inputs() -> list[torch.Tensor]:
    """Wide enough for the clamp to cut some values and leave most."""
    return [2.0 * torch.randn(batch, in_features)]


def get_init_inputs() -> list[object]:
    """Sizes, factor, limit."""
    return [in_features, out_features, 1.5, 2.0]
