"""Matches softmax, the norms and losses, from library calls and from their formulas."""

from __future__ import annotations

from autokernel.proposers.graph import Graph, Value, numel, point, reduce
from autokernel.proposers.match import Match, call, full_leaf, program_of, whole_operand
from autokernel.proposers.program import Program

WELFORD = "layer norm by Welford, long rows split"


def softmax(graph: Graph, root: Value) -> Match | None:
    """softmax or log_softmax of an operand over one dimension."""
    program = program_of(graph, root)
    if program is None or len(program.leaves) != 1 or len(program.reduced) != 1 or len(program.stats) != 2:
        return None
    if not full_leaf(graph, program, program.leaves[0]):
        return None
    dim = program.reduced[0]
    x = _operand_value(graph, program, 0)
    top = reduce("amax", x, [dim], True)
    shifted = point("sub", x, top)
    powers = point("exp", shifted)
    total = reduce("sum", powers, [dim], True)
    for log, result in ((False, point("div", powers, total)), (True, point("sub", shifted, point("log", total)))):
        if _same(program, program_of(graph, result)):
            return Match("softmax", {"dim": dim, "log": log}, (x,), program.out_shape, "online softmax, each row read as rarely as it fits")
    return None


def _operand_value(graph: Graph, program: Program, leaf: int) -> Value:
    """A leaf of the program, seen in the program's space, as a value."""
    found = program.leaves[leaf]
    return Value("leaf", (), program.space, found.dtype, {"operand": found.operand, "stride": found.strides, "offset": found.offset})


def _same(a: Program, b: Program | None) -> bool:
    def parts(p: Program) -> object:
        return p.nodes, p.stats, p.results, p.final, p.reduced, p.space

    return b is not None and parts(a) == parts(b)


Factors = tuple[float, dict[int, float]]


def factors(program: Program, number: int, power: float = 1.0) -> Factors:
    """An expression as a constant times powers of other expressions: mul, div, sqrt, rsqrt and constants are taken apart."""
    node = program.nodes[number]
    if node.op == "const" and node.value > 0:
        return float(node.value) ** power, {}
    parts = {"mul": ((0, 1.0), (1, 1.0)), "div": ((0, 1.0), (1, -1.0)), "sqrt": ((0, 0.5),), "rsqrt": ((0, -0.5),)}.get(node.op)
    if parts is None:
        return 1.0, {number: power}
    scale, powers = 1.0, dict[int, float]()
    for place, sign in parts:
        inner, more = factors(program, node.args[place], power * sign)
        scale *= inner
        for key, value in more.items():
            powers[key] = powers.get(key, 0.0) + value
    return scale, {k: v for k, v in powers.items() if v}


def _near(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-6 * abs(b)


def _spread(program: Program, number: int) -> tuple[float, int] | None:
    """(eps, statistic) of `mean + eps`, `mean` alone gives eps 0; None where the expression is something else."""
    node = program.nodes[number]
    eps = 0.0
    if node.op == "add":
        consts = [a for a in node.args if program.nodes[a].op == "const"]
        rest = [a for a in node.args if program.nodes[a].op != "const"]
        if len(consts) != 1 or len(rest) != 1:
            return None
        eps, number = float(program.nodes[consts[0]].value), rest[0]
    scale, powers = factors(program, number)
    if len(powers) != 1 or not _near(scale, 1 / program.columns):
        return None
    (stat, power), = powers.items()
    return (eps, program.nodes[stat].value) if power == 1.0 and program.nodes[stat].op == "stat" else None


def _is_square_sum(program: Program, stat: int, of: int) -> bool:
    found = program.stats[stat]
    return found.op == "sum" and factors(program, found.expr) == (1.0, {of: 2.0})


def rms_norm(graph: Graph, root: Value) -> Match | None:
    """x / sqrt(mean(x^2) + eps) over one dimension, times a weight along it."""
    program = program_of(graph, root)
    if program is None or program.kind != "full" or len(program.stats) != 1 or len(program.reduced) != 1:
        return None
    scale, powers = factors(program, program.results[0])
    weight, x = None, None
    spread = None
    for number, power in powers.items():
        node = program.nodes[number]
        if node.op == "leaf" and power == 1.0 and full_leaf(graph, program, program.leaves[node.value]):
            x = number
        elif node.op == "leaf" and power == 1.0:
            weight = node.value
        elif power == -0.5:
            spread = _spread(program, number)
    if x is None or spread is None or scale != 1.0 or len(powers) != 2 + (weight is not None) or not _is_square_sum(program, spread[1], x):
        return None
    dim = program.reduced[0]
    inputs: list[Value] = [_operand_value(graph, program, program.nodes[x].value)]
    if weight is not None:
        operand = graph.operands[program.leaves[weight].operand]
        want = tuple(1 if d == dim else 0 for d in range(len(program.space)))
        if program.leaves[weight].strides != want or operand.shape != (program.space[dim],):
            return None
        seen = {"operand": program.leaves[weight].operand, "stride": (1,), "offset": 0}
        inputs.append(Value("leaf", (), operand.shape, operand.dtype, seen))
    return Match("rmsnorm", {"dim": dim, "eps": spread[0]}, tuple(inputs), program.out_shape, "rms norm, one read where the rows fit")


def norm_scale(graph: Graph, root: Value) -> Match | None:
    """x divided by its l1 or l2 norm (or their means), over one dimension or everything."""
    program = program_of(graph, root)
    if program is None or program.kind != "full" or len(program.stats) != 1 or len(program.leaves) != 1:
        return None
    if len(program.reduced) not in (1, len(program.space)) or not full_leaf(graph, program, program.leaves[0]):
        return None
    scale, powers = factors(program, program.results[0])
    leaf = next((n for n in powers if program.nodes[n].op == "leaf"), None)
    if leaf is None or len(powers) != 2 or powers[leaf] != 1.0:
        return None
    other = next(n for n in powers if n != leaf)
    power, eps, node = powers[other], 0.0, program.nodes[other]
    if node.op == "maximum" and power == -1.0 and program.nodes[node.args[1]].op == "const":
        eps = float(program.nodes[node.args[1]].value)
        inner, inside = factors(program, node.args[0], -1.0)
        if len(inside) != 1:
            return None
        scale *= inner
        (other, power), = inside.items()
        node = program.nodes[other]
    if node.op != "stat":
        return None
    stat = program.stats[0]
    one = stat.op == "sum" and program.nodes[stat.expr].op == "abs" and program.nodes[stat.expr].args == (leaf,)
    kind = "l2" if power == -0.5 and _is_square_sum(program, 0, leaf) else "l1" if power == -1.0 and one else None
    mean = _near(scale, program.columns ** -power) and program.columns > 1
    if kind is None or not (mean or scale == 1.0):
        return None
    dim = program.reduced[0] if len(program.reduced) == 1 and len(program.space) > 1 else None
    shape = {"kind": kind, "dim": dim, "mean": mean, "eps": eps}
    return Match("norm_scale", shape, (_operand_value(graph, program, 0),), program.out_shape,
                 f"division by the {kind} norm, the norm and the scaling in one kernel where the rows fit")


def layer_norm(graph: Graph, root: Value) -> Match | None:
    """A library layer_norm, or its formula over trailing dimensions with a weight and a bias of their shape."""
    found = call(root, "native_layer_norm")
    if found is not None:
        x, shape, weight, bias, eps = found[0]
        if whole_operand(graph, x):
            return Match("layernorm", {"ndim": len(shape), "eps": eps}, (x, weight, bias), root.shape, WELFORD)
        return None
    program = program_of(graph, root)
    if program is None or program.kind != "full" or [s.level for s in program.stats] != [0, 1]:
        return None
    rank = len(program.space)
    if list(program.reduced) != list(range(rank - len(program.reduced), rank)):
        return None
    number, bias = _split_affine(program, program.results[0])
    scale, powers = factors(program, number)
    centred = next((n for n, p in powers.items() if p == 1.0 and program.nodes[n].op == "sub"), None)
    spread = next((s for n, p in powers.items() if p == -0.5 and (s := _spread(program, n)) is not None), None)
    weights = [n for n, p in powers.items() if p == 1.0 and n != centred and program.nodes[n].op == "leaf"]
    if centred is None or spread is None or scale != 1.0 or len(powers) != 2 + len(weights) or len(weights) > 1:
        return None
    x, mean = program.nodes[centred].args
    middle = _spread(program, mean)
    if program.nodes[x].op != "leaf" or middle is None or middle[0] or spread[1] != 1 or not _is_square_sum(program, 1, centred):
        return None
    if program.stats[0].expr != x or not full_leaf(graph, program, program.leaves[program.nodes[x].value]):
        return None
    parameters = [_trailing(graph, program, n) for n in (weights[0] if weights else None, bias)]
    if (weights and parameters[0] is None) or (bias is not None and parameters[1] is None):
        return None
    return Match("layernorm", {"ndim": len(program.reduced), "eps": spread[0]},
                 (_operand_value(graph, program, program.nodes[x].value), *parameters), program.out_shape, WELFORD)


def _split_affine(program: Program, number: int) -> tuple[int, int | None]:
    node = program.nodes[number]
    if node.op == "add" and program.nodes[node.args[1]].op == "leaf":
        return node.args[0], node.args[1]
    return number, None


def _trailing(graph: Graph, program: Program, number: int | None) -> Value | None:
    """A parameter with one value for each place of a row, as a value."""
    if number is None:
        return None
    leaf = program.leaves[program.nodes[number].value]
    operand = graph.operands[leaf.operand]
    kept = len(program.space) - len(program.reduced)
    if any(leaf.strides[:kept]) or numel(operand.shape) != program.columns or not operand.contiguous or leaf.offset:
        return None
    shape = program.space[kept:]
    return Value("leaf", (), shape, operand.dtype, {"operand": leaf.operand, "stride": leaf.strides[kept:], "offset": 0})


def group_norm(graph: Graph, root: Value) -> Match | None:
    """Library group_norm, batch_norm in training, and instance_norm (which is a batch_norm of one sample)."""
    found = call(root, "native_group_norm")
    if found is not None and whole_operand(graph, found[0][0]):
        x, weight, bias, _, _, _, groups, eps = found[0]
        return Match("groupnorm", {"kind": "group", "groups": groups, "eps": eps, "momentum": 0.1}, (x, weight, bias), root.shape,
                     "group norm, one contiguous group split over programs")
    batch = call(root, "native_batch_norm")
    if batch is not None and batch[0][5] and whole_operand(graph, batch[0][0]):
        x, weight, bias, mean, variance, _, momentum, eps = batch[0]
        return Match("groupnorm", {"kind": "batch", "groups": 1, "eps": eps, "momentum": momentum}, (x, weight, bias, mean, variance),
                     root.shape, "batch norm with the batch's statistics, split over programs")
    inner = call(root.args[0], "native_batch_norm") if root.op == "view" else None
    if inner is not None and inner[0][5] and inner[0][1] is None and inner[0][3] is None:
        x = inner[0][0]
        seen = x.op == "leaf" and graph.operands[x.attrs["operand"]]
        if seen and seen.contiguous and seen.shape == root.shape and x.shape == (1, root.shape[0] * root.shape[1], *root.shape[2:]):
            whole = Value("leaf", (), root.shape, x.dtype, {"operand": x.attrs["operand"], "stride": seen.stride, "offset": 0})
            return Match("groupnorm", {"kind": "instance", "groups": 1, "eps": inner[0][7], "momentum": 0.1}, (whole,), root.shape,
                         "instance norm, one plane split over programs")
    return None


def cross_entropy(graph: Graph, root: Value) -> Match | None:
    """cross_entropy of (rows, classes) logits and class numbers, without class weights."""
    found = call(root, "nll_loss_forward")
    if found is None or found[0][2] is not None or found[0][3] not in (0, 1, 2):
        return None
    logs, target, _, how, ignore = found[0]
    inner = call(logs, "_log_softmax")
    if inner is None or inner[0][1] not in (1, -1) or not whole_operand(graph, inner[0][0]) or not whole_operand(graph, target):
        return None
    return Match("cross_entropy", {"reduction": ("none", "mean", "sum")[how], "ignore_index": ignore}, (inner[0][0], target), root.shape,
                 "cross entropy, each logit read once")


def triplet_loss(graph: Graph, root: Value) -> Match | None:
    """mean(max(0, ||a - p + eps|| - ||a - n + eps|| + margin)) over rows."""
    program = program_of(graph, root)
    if program is None or program.final is None or len(program.leaves) != 3 or len(program.stats) != 2 or len(program.space) != 2:
        return None
    if not all(full_leaf(graph, program, leaf) for leaf in program.leaves):
        return None
    a, p, n = (_operand_value(graph, program, i) for i in range(3))
    consts = [float(node.value) for node in program.nodes if node.op == "const"]
    for eps in consts:
        for margin in consts:
            if _same(program, program_of(graph, _triplet(a, p, n, eps, margin, program.rows))):
                return Match("triplet_loss", {"margin": margin, "eps": eps}, (a, p, n), root.shape, "triplet loss, each input read once")
    return None


def _triplet(a: Value, p: Value, n: Value, eps: float, margin: float, rows: int) -> Value:
    def distance(x: Value, y: Value) -> Value:
        apart = point("add", point("sub", x, y), eps)
        return point("sqrt", reduce("sum", point("mul", apart, apart), [1], False))

    each = point("maximum", point("sub", point("add", distance(a, p), margin), distance(a, n)), 0)
    return point("div", reduce("sum", each, [0], False), float(rows))
