import torch
import torch.nn as nn

batch = 2
length = 64
vocabulary = 512
width = 96
heads = 4
layers = 2


class Block(nn.Module):
    """Pre-norm transformer block: causal attention, then a feed-forward layer four times as wide."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.project_in = nn.Linear(width, 3 * width)
        self.project_out = nn.Linear(width, width)
        self.feed_norm = nn.LayerNorm(width)
        self.feed_in = nn.Linear(width, 4 * width)
        self.feed_out = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x and the result are (batch, length, width)."""
        batch, length, width = x.shape
        parts = self.project_in(self.attention_norm(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.project_out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.feed_out(nn.functional.gelu(self.feed_in(self.feed_norm(x))))


class Model(nn.Module):
    """A language model small enough to need no download: embeddings, decoder blocks, logits tied to the embeddings."""

    def __init__(self, vocabulary: int, length: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(0.5 * torch.randn(length, width))
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """ids are (batch, length) of int64; the result, logits, is (batch, length, vocabulary)."""
        x = self.tokens(ids) + self.positions
        for block in self.blocks:
            x = block(x)
        return nn.functional.linear(self.norm(x), self.tokens.weight)


def get_inputs() -> list[torch.Tensor]:
    """Random tokens."""
    return [torch.randint(0, vocabulary, (batch, length))]


def get_init_inputs() -> list[object]:
    """The five sizes."""
    return [vocabulary, length, width, heads, layers]
