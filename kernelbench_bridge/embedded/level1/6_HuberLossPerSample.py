import torch
import torch.nn as nn

samples = 1024
values = 768


class Model(nn.Module):
    """Huber loss of every sample: quadratic near zero, linear beyond `delta`, averaged over the sample's values."""

    def __init__(self, delta: float) -> None:
        super().__init__()
        self.delta = delta

    def forward(self, predictions: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """predictions and targets are (samples, values); the result is (samples,)."""
        distance = torch.abs(predictions - targets)
        quadratic = 0.5 * distance * distance
        linear = self.delta * (distance - 0.5 * self.delta)
        return torch.where(distance <= self.delta, quadratic, linear).mean(dim=1)


def get_inputs() -> list[torch.Tensor]:
    """Samples of different size, so that their losses differ."""
    scale = 0.2 + 2.0 * torch.rand(samples, 1)
    return [scale * torch.randn(samples, values), torch.randn(samples, values)]


def get_init_inputs() -> list[object]:
    """The delta where the loss turns linear."""
    return [0.8]
