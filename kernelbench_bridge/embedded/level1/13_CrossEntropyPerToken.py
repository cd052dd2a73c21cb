import torch
import torch.nn as nn

tokens = 512
classes = 2000


class Model(nn.Module):
    """Negative log-likelihood of each token's class under the softmax of its logits."""

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """logits are (tokens, classes), labels (tokens,) of int64; the result is (tokens,)."""
        shifted = logits - logits.amax(dim=1, keepdim=True)
        log_total = torch.log(torch.exp(shifted).sum(dim=1))
        return log_total - shifted.gather(1, labels.unsqueeze(1)).squeeze(1)


def get_inputs() -> list[torch.Tensor]:
    """Logits wide enough that losses differ from token to token."""
    return [3.0 * torch.randn(tokens, classes), torch.randint(0, classes, (tokens,))]


def get_init_inputs() -> list[object]:
    """The model takes no arguments."""
    return []
