import torch
import torch.nn as nn

batch = 512
in_features = 256
classes = 640


class Model(nn.Module):
    """A linear layer whose rows are sharpened by a temperature and turned into probabilities."""

    def __init__(self, in_features: int, classes: int, temperature: float) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, classes)
        self.temperature = temperature

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x is (batch, in_features); the result is (batch, classes), each row summing to one."""
        return torch.softmax(self.linear(x) / self.temperature, dim=1)


def get_inputs() -> list[torch.Tensor]:
    """Normal values."""
    return [torch.randn(batch, in_features)]


def get_init_inputs() -> list[object]:
    """Sizes and temperature."""
    return [in_features, classes, 0.4]
