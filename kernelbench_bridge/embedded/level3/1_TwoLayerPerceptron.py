import torch
import torch.nn as nn

batch = 256
in_features = 256
hidden = 512
out_features = 128


class Model(nn.Module):
    """Two linear layers with a ReLU between them."""

    def __init__(self, in_features: int, hidden: int, out_features: int) -> None:
        super().__init__()
        self.expand = nn.Linear(in_features, hidden)
        self.project = nn.Linear(hidden, out_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x is (batch, in_features); the result is (batch, out_features)."""
        result: torch.Tensor = self.project(torch.relu(self.expand(x)))
        return result


def get_inputs() -> list[torch.Tensor]:
    """Normal values."""
    return [torch.randn(batch, in_features)]


def get_init_inputs() -> list[object]:
    """The three sizes."""
    return [in_features, hidden, out_features]
