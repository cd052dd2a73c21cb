import torch
import torch.nn as nn

batch = 384
in_features = 256
out_features = 384


class Model(nn.Module):
    """One linear layer twice as wide as needed: half of it gates the other half."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, 2 * out_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x is (batch, in_features); the result is (batch, out_features)."""
        value, gate = self.linear(x).chunk(2, dim=1)
        return value * torch.sigmoid(gate)


def get_inputs() -> list[torch.Tensor]:
    """Normal values."""
    return [2.0 * torch.randn(batch, in_features)]


def get_init_inputs() -> list[object]:
    """Sizes in and out."""
    return [in_features, out_features]
