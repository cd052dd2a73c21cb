import torch
import torch.nn as nn

batch = 4
channels = 3
side = 32
patch = 4
width = 64
heads = 4
layers = 2
classes = 100


class Model(nn.Module):
    """An image classifier: patches, encoder blocks that all see each other, the mean over patches, class logits."""

    def __init__(self, channels: int, side: int, patch: int, width: int, heads: int, layers: int, classes: int) -> None:
        super().__init__()
        self.embed = nn.Conv2d(channels, width, patch, stride=patch)
        self.positions = nn.Parameter(0.3 * torch.randn((side // patch) ** 2, width))
        self.blocks = nn.ModuleList([
            nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
            for _ in range(layers)
        ])
        self.classify = nn.Linear(width, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """images are (batch, channels, side, side); the result, logits, is (batch, classes)."""
        x = self.embed(images).flatten(2).transpose(1, 2) + self.positions
        for block in self.blocks:
            x = block(x)
        result: torch.Tensor = self.classify(x.mean(dim=1))
        return result


def get_inputs() -> list[torch.Tensor]:
    """Images with their own colour cast, which the mean over patches keeps."""
    return [torch.randn(batch, channels, side, side) + 2.0 * torch.randn(batch, channels, 1, 1)]


def get_init_inputs() -> list[object]:
    """All sizes, in the constructor's order."""
    return [channels, side, patch, width, heads, layers, classes]
