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
    "batch_norm_inside": problem("x: return self.n(x)", "torch.randn(6, 5, 4, 9) + 1", "self.n = nn.Sequential(nn.BatchNorm2d(5))"),
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
    "turned_copy": problem("x: return torch.softmax(x.t().contiguous().view(19, 37, 1).squeeze(2), 1)", "torch.randn(37, 19)"),
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


def conv(kind: str, *arguments: str) -> str:
    """A constructor with one convolution, self.c."""
    return f"self.c = nn.{kind}({', '.join(arguments)})"


# chains of stages: what is planned as several kernels, or as one with more than its first operation in it
STAGED = {
    "logsumexp": ROWS["logsumexp"],
    "turned_copy": ROWS["turned_copy"],
    "conv1d": problem("x: return self.c(x)", "torch.randn(2, 5, 23)", conv("Conv1d", "5", "7", "3", "stride=2", "dilation=3", "padding=2")),
    "conv2d_odd": problem("x: return torch.relu(self.c(x)) + self.b", "torch.randn(2, 3, 9, 11)",
                          conv("Conv2d", "3", "20", "(3, 5)") + "; self.b = nn.Parameter(torch.randn(20, 1, 1))"),
    "conv2d_wide": problem("x: return self.c(x)", "torch.randn(1, 16, 6, 7)",
                           conv("Conv2d", "16", "18", "3", "stride=(2, 1)", "padding=1")),
    "conv2d_grouped": problem("x: return self.c(x)", "torch.randn(2, 6, 7, 8)", conv("Conv2d", "6", "9", "3", "groups=3", "dilation=2")),
    "conv3d_minimum": problem("x: return torch.tanh(torch.min(self.c(x), dim=1, keepdim=True)[0])", "torch.randn(1, 3, 5, 6, 7)",
                              conv("Conv3d", "3", "10", "(3, 2, 3)")),
    "conv3d_softmax_pools": problem("x: return self.p(self.p(torch.softmax(self.c(x), dim=1)))", "torch.randn(1, 3, 10, 9, 11)",
                                    conv("Conv3d", "3", "6", "3") + "; self.p = nn.MaxPool3d(2)"),
    "conv_pool_chain": problem("x: return F.mish(self.p(F.hardswish(self.c(x) - 0.5)))", "torch.randn(2, 4, 9, 10)",
                               conv("Conv2d", "4", "5", "3") + "; self.p = nn.MaxPool2d(2)"),
    "conv_average": problem("x: return torch.sum(torch.sigmoid(self.p(self.c(x))), dim=[1, 2, 3])", "torch.randn(2, 4, 13, 10)",
                            conv("Conv2d", "4", "5", "3") + "; self.p = nn.AvgPool2d(3)"),
    "conv_group_norm": problem("x: y = self.c(x); return torch.logsumexp(y + F.hardswish(torch.tanh(self.n(y))), dim=1, keepdim=True)",
                               "torch.randn(2, 3, 8, 7)", conv("Conv2d", "3", "8", "3") + "; self.n = nn.GroupNorm(4, 8)"),
    "conv_instance_norm": problem("x: return self.n(self.c(x)) / 2.0", "torch.randn(2, 3, 9, 8)",
                                  conv("Conv2d", "3", "5", "3") + "; self.n = nn.InstanceNorm2d(5)"),
    "conv_batch_norm": problem("x: y = self.n(F.softplus(self.c(x))); return y - torch.mean(y, dim=(2, 3), keepdim=True)",
                               "torch.randn(3, 3, 9, 8)", conv("Conv2d", "3", "5", "3") + "; self.n = nn.BatchNorm2d(5)"),
    "conv_residual": problem("x, r: y = self.c(x) + r; return y * F.hardswish(y)", "torch.randn(2, 4, 5, 6), torch.randn(2, 6, 5, 6)",
                             conv("Conv2d", "4", "6", "3", "padding=1")),
    "turned1d": problem("x: return self.c(x)", "torch.randn(2, 5, 13)",
                        conv("ConvTranspose1d", "5", "7", "3", "stride=2", "dilation=3", "padding=1", "output_padding=1")),
    "turned2d": problem("x: return torch.tanh(self.c(x) - self.b)", "torch.randn(2, 6, 5, 7)",
                        conv("ConvTranspose2d", "6", "9", "4", "stride=2", "padding=1", "output_padding=1")
                        + "; self.b = nn.Parameter(torch.randn(9, 1, 1))"),
    "turned2d_grouped": problem("x: return self.c(x)", "torch.randn(1, 6, 5, 7)",
                                conv("ConvTranspose2d", "6", "8", "(3, 5)", "stride=(2, 3)", "padding=(1, 2)", "dilation=(2, 1)",
                                     "groups=2")),
    "turned2d_gaps": problem("x: return self.c(x)", "torch.randn(1, 4, 5, 6)", conv("ConvTranspose2d", "4", "3", "1", "stride=2")),
    "turned2d_shared": problem("x: return self.c(x)", "torch.randn(1, 4, 5, 6)",
                               conv("ConvTranspose2d", "4", "3", "3", "stride=4", "dilation=2")),
    "turned3d": problem("x: return self.c(x)", "torch.randn(1, 3, 4, 5, 3)",
                        conv("ConvTranspose3d", "3", "4", "(3, 2, 5)", "padding=(1, 0, 2)")),
    "turned3d_pooled": problem("x: return (self.p(self.c(x) * self.s) + self.b) * 2.0", "torch.randn(1, 3, 4, 3, 5)",
                               conv("ConvTranspose3d", "3", "4", "3", "stride=2", "padding=1")
                               + "; self.p = nn.AvgPool3d(2); self.s = nn.Parameter(torch.tensor(0.5)); "
                               "self.b = nn.Parameter(torch.randn(4, 1, 1, 1))"),
    "turned_softmax": problem("x: return torch.sigmoid(torch.softmax(self.c(x), dim=1) + self.b)", "torch.randn(1, 4, 5, 6)",
                              conv("ConvTranspose2d", "4", "6", "3", "stride=2") + "; self.b = nn.Parameter(torch.randn(6, 1, 1))"),
    "turned_layer_norm": problem("x: return F.gelu(self.p(self.n(self.c(x) + 1.0)))", "torch.randn(1, 3, 4, 5, 6)",
                                 conv("ConvTranspose3d", "3", "4", "3", "padding=1")
                                 + "; self.n = nn.LayerNorm((6,)); self.p = nn.AvgPool3d(2)"),
    "separable": problem("x: return self.d(self.c(x))", "torch.randn(2, 5, 8, 9)",
                         conv("Conv2d", "5", "5", "3", "groups=5", "padding=1") + "; self.d = nn.Conv2d(5, 12, 1)"),
    "linear_extras": problem("x: y = self.fc(x) * self.s; return torch.min(y, self.c) - self.c + torch.sigmoid(y)", "torch.randn(17, 33)",
                             "self.fc = nn.Linear(33, 18); self.s = nn.Parameter(torch.randn(18)); "
                             "self.c = nn.Parameter(torch.tensor(0.3))"),
    "linear_group_norm": problem("x: return F.hardtanh(self.n(self.fc(x)), -1.5, 1.5)", "torch.randn(9, 33)",
                                 "self.fc = nn.Linear(33, 24); self.n = nn.GroupNorm(4, 24)"),
    "linear_batch_norm": problem("x: y = (self.n(self.fc(x)) + self.b) / 2.0; return y * torch.sigmoid(y)", "torch.randn(37, 33)",
                                 "self.fc = nn.Linear(33, 24); self.n = nn.BatchNorm1d(24); self.b = nn.Parameter(torch.randn(1))"),
    "linear_softmax": problem("x: return torch.softmax(F.gelu(self.fc(x)), dim=1)", "torch.randn(9, 33)", "self.fc = nn.Linear(33, 24)"),
    "linear_instance_norm": problem("x, y: z = self.n(self.fc(x).unsqueeze(1).unsqueeze(1)).squeeze(1).squeeze(1) + y; return z * y",
                                    "torch.randn(9, 33), torch.randn(9, 24)",
                                    "self.fc = nn.Linear(33, 24); self.n = nn.InstanceNorm2d(24)"),
    "linear_pool": problem("x: return torch.sum(self.p(self.fc(x).unsqueeze(1)).squeeze(1), dim=1) * 0.5", "torch.randn(9, 33)",
                           "self.fc = nn.Linear(33, 24); self.p = nn.MaxPool1d(2)"),
    "two_linears": problem("x: return torch.logsumexp(self.g(torch.sigmoid(self.f(x))), dim=1)", "torch.randn(19, 33)",
                           "self.f = nn.Linear(33, 40); self.g = nn.Linear(40, 24)"),
    "same_linears": problem("x: return torch.softmax(self.c(torch.relu(self.b(torch.relu(self.a(x))))), 1) + torch.softmax(self.b(x), 1)",
                            "torch.randn(19, 24)", "self.a = nn.Linear(24, 24); self.b = nn.Linear(24, 24); self.c = nn.Linear(24, 24)"),
    "summed_product": problem("x: return torch.sum(torch.matmul(x, self.w.T) / 2, dim=1, keepdim=True) * 1.5", "torch.randn(9, 33)",
                              "self.w = nn.Parameter(torch.randn(20, 33))"),
    "summed_linear": problem("x: y = torch.mean(self.fc(x) - self.s, dim=1, keepdim=True); return F.gelu(torch.logsumexp(y, 1, True)) + x",
                             "torch.randn(9, 33)", "self.fc = nn.Linear(33, 20); self.s = nn.Parameter(torch.randn(20))"),
    "dropout": problem("x: return torch.softmax(self.d(self.fc(x)), dim=1)", "torch.randn(9, 33)",
                       "self.fc = nn.Linear(33, 20); self.d = nn.Dropout(0.25)"),
    "constant": problem("x: return F.gelu(torch.min(self.c(x) + 0.5, torch.tensor(0.25))) * 2", "torch.randn(2, 3, 7, 6)",
                        conv("Conv2d", "3", "5", "3")),
}
