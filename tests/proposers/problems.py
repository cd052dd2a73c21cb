"""Small problems in KernelBench's format for the search's tests, each with odd sizes."""

from __future__ import annotations

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n"


def problem(forward: str, inputs: str, init: str = "") -> str:
    """The text of a problem: forward's body after `self, ` (as "x: return ..."), get_inputs' list, __init__'s body."""
    names, body = forward.split(": ", 1)
    construct = f"    def __init__(self):\n        super(Model, self).__init__()\n        {init or 'pass'}\n\n"
    return (f"{HEAD}class Model(nn.Module):\n{construct}    def forward(self, {names}):\n        {body}\n\n\n"
            f"def get_inputs():\n    return [{inputs}]\n\n\ndef get_init_inputs():\n    return []\n")


ROWS = {
    "chain": problem("x, b: return torch.where(x > 0.3, F.gelu(x) + b, F.elu(x, 0.7) * torch.tanh(x)).clamp(max=2.5)",
                     "torch.randn(7, 33, 5), torch.randn(33, 1)"),
    "activations": problem("x: return F.softplus(x) + F.selu(x) * F.hardsigmoid(x) - F.silu(x) / (1 + x.abs()) + F.mish(x)",
                           "3 * torch.randn(1001)"),
    "scalar": problem("x, s: return x * s - 1", "torch.randn(65, 3), 3.14"),
    "softmax": problem("x: return torch.softmax(x, dim=1)", "4 * torch.randn(37, 129)"),
    "log_softmax_middle": problem("x: return F.log_softmax(x, dim=1)", "4 * torch.randn(3, 19, 70)"),
    "layer_norm": problem("x: return self.ln(x)", "torch.randn(5, 3, 7, 11) + 2", "self.ln = nn.LayerNorm((3, 7, 11))"),
    "layer_norm_formula": problem(
        "x: c = x - x.mean(-1, keepdim=True)\n        return self.w * (c / torch.sqrt((c ** 2).mean(-1, keepdim=True) + 1e-5)) + self.b",
        "torch.randn(9, 130)", "self.w = nn.Parameter(torch.randn(130)); self.b = nn.Parameter(torch.randn(130))"),
    "rms_norm_channels": problem("x: return x / torch.sqrt(torch.mean(x ** 2, dim=1, keepdim=True) + 1e-5)", "torch.randn(3, 18, 5, 9)"),
    "batch_norm": problem("x: return self.bn(x)", "torch.randn(6, 5, 4, 9) + 1", "self.bn = nn.BatchNorm2d(5)"),
    "instance_norm": problem("x: return self.inorm(x)", "torch.randn(3, 4, 8, 9)", "self.inorm = nn.InstanceNorm2d(4)"),
    "group_norm": problem("x: return self.gn(x)", "torch.randn(3, 6, 5, 9)", "self.gn = nn.GroupNorm(3, 6)"),
    "frobenius": problem("x: return x / torch.norm(x, p='fro')", "torch.randn(11, 7, 31)"),
    "l1_mean": problem("x: return x / torch.mean(torch.abs(x), dim=1, keepdim=True)", "torch.randn(13, 257)"),
    "sum_middle": problem("x: return x.sum(dim=1, keepdim=True)", "torch.randn(4, 33, 70)"),
    "argmax_middle": problem("x: return torch.argmax(x, dim=1)", "torch.randn(4, 33, 70)"),
    "argmin_last": problem("x: return torch.argmin(x, dim=-1)", "torch.randn(4, 33, 70)"),
    "hinge": problem("p, t: return torch.mean(torch.clamp(1 - p * t, min=0))",
                     "torch.rand(32, 32), torch.randint(0, 2, (32,)).float() * 2 - 1"),
    "huber": problem("p, t: return F.smooth_l1_loss(p, t)", "3 * torch.randn(17, 33), torch.randn(17, 33)"),
    "kl": problem("p, t: return F.kl_div(torch.log(p), t, reduction='batchmean')",
                  "torch.rand(9, 33).softmax(-1), torch.rand(9, 33).softmax(-1)"),
    "cross_entropy": problem("p, t: return F.cross_entropy(p, t)", "3 * torch.randn(29, 10), torch.randint(0, 10, (29,))"),
    "triplet": problem("a, p, n: return self.loss(a, p, n)", "torch.rand(9, 65), torch.rand(9, 65), torch.rand(9, 65)",
                       "self.loss = nn.TripletMarginLoss(margin=1.0)"),
    "logsumexp": problem("x: return torch.logsumexp(x, dim=1)", "5 * torch.randn(31, 77)"),
}
OTHERS = {
    "matmul": problem("a, b: return torch.matmul(a.T, b.T)", "torch.randn(33, 40), torch.randn(17, 33)"),
    "matrix_vector": problem("a, x: return torch.matmul(a, x)", "torch.randn(33, 140), torch.randn(140, 1)"),
    "vector_matrix": problem("x, a: return torch.matmul(x, a)", "torch.randn(1, 33), torch.randn(33, 70)"),
    "linear_relu": problem("x: return torch.relu(self.fc(x))", "torch.randn(20, 33)", "self.fc = nn.Linear(33, 18)"),
    "lower": problem("a, b: return torch.tril(torch.matmul(a, b))", "torch.tril(torch.randn(40, 40)), torch.tril(torch.randn(40, 40))"),
    "einsum": problem("a, b: return torch.einsum('bijl,lk->bijk', a, b)", "torch.randn(2, 3, 5, 16), torch.randn(16, 18)"),
    "diagonal": problem("d, b: return torch.diag(d) @ b", "torch.randn(21), torch.randn(21, 30)"),
    "diagonal_broadcast": problem("d, b: return d.unsqueeze(1) * b", "torch.randn(21), torch.randn(21, 30)"),
    "max_pool1d": problem("x: return self.pool(x)", "torch.randn(2, 3, 41)", "self.pool = nn.MaxPool1d(4, 2, 1, 2)"),
    "avg_pool3d": problem("x: return self.pool(x)", "torch.randn(1, 2, 7, 8, 9)", "self.pool = nn.AvgPool3d(3, 2, 1)"),
    "depthwise": problem("x: return self.conv(x)", "torch.randn(2, 3, 9, 11)", "self.conv = nn.Conv2d(3, 3, (3, 2), groups=3, padding=1)"),
    "cumsum_reverse": problem("x: return torch.cumsum(x.flip(1), dim=1).flip(1)", "torch.randn(5, 67)"),
    "cumsum_exclusive": problem(
        "x: return torch.cat((torch.zeros_like(x.select(1, 0).unsqueeze(1)), torch.cumsum(x.narrow(1, 0, x.size(1) - 1), dim=1)), dim=1)",
        "torch.randn(5, 67)"),
    "masked_cumsum": problem("x, m: return torch.cumsum(x * m, dim=1)", "torch.randn(5, 67), torch.randint(0, 2, (5, 67)).bool()"),
    "cumprod": problem("x: return torch.cumprod(x, dim=1)", "torch.rand(5, 67) + 0.5"),
    "attention": problem("q, k, v: return F.scaled_dot_product_attention(q, k, v)",
                         "torch.randn(1, 2, 20, 16), torch.randn(1, 2, 20, 16), torch.randn(1, 2, 20, 16)"),
}
