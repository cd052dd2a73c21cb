import torch
import torch.nn as nn

batch = 32
length = 24
in_features = 64
hidden = 96


class Model(nn.Module):
    """A recurrent layer whose gate decides, step by step, how much of the state is kept."""

    def __init__(self, in_features: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.from_input = nn.Linear(in_features, 2 * hidden)
        self.from_state = nn.Linear(hidden, 2 * hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x is (batch, length, in_features); the result, all states, is (batch, length, hidden)."""
        state = x.new_zeros(x.shape[0], self.hidden)
        driven = self.from_input(x)
        states = []
        for step in range(x.shape[1]):
            gate, proposal = (driven[:, step] + self.from_state(state)).chunk(2, dim=1)
            keep = torch.sigmoid(gate)
            state = keep * state + (1.0 - keep) * torch.tanh(proposal)
            states.append(state)
        return torch.stack(states, dim=1)


def get_inputs() -> list[torch.Tensor]:
    """Normal values."""
    return [2.0 * torch.randn(batch, length, in_features)]


def get_init_inputs() -> list[object]:
    """Sizes of input and state."""
    return [in_features, hidden]
