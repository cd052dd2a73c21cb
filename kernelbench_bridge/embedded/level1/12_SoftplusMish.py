import torch
import torch.nn as nn

batch = 96
features = 8192


class Model(nn.Module):
    """Mish, x * tanh(log(1 + exp(x))), with the logarithm written so that it does not overflow."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x and the result are (batch, features)."""
        softplus = torch.clamp(x, min=0.0) + torch.log1p(torch.exp(-torch.abs(x)))
        return x * torch.tanh(softplus)


def get_inputs() -> list[torch.Tensor]:
    """Normal values, some far enough out for either end."""
    return [3.0 * torch.randn(batch, features)]


def get_init_inputs() -> list[object]:
    """The model takes no arguments."""
    return []
