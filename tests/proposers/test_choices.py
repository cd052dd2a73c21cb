"""First choices by shape: parts by K, where they are written apart, tiles by the size of the output."""

from __future__ import annotations

from typing import Any

import pytest

from autokernel.proposers.choices import first_choices, open_choices
from autokernel.proposers.graph import Value
from autokernel.proposers.match import Match
from autokernel.proposers.starters import starter


def choices(starter_name: str, shape: dict[str, Any], out: tuple[int, ...], *sizes: tuple[int, ...], dtype: str = "float32") -> list[Any]:
    inputs = tuple(Value("leaf", (), size, dtype) for size in sizes)
    found = starter("triton", starter_name)
    return list(first_choices(Match(found.op, {**found.shape, **shape}, inputs, out, ""), found.params, "triton"))


def product(a: tuple[int, ...], b: tuple[int, ...], dtype: str = "float32", **shape: Any) -> list[Any]:
    return choices("matmul", shape, (*a[:-1], b[-1]), a, b, dtype=dtype)


@pytest.mark.parametrize(("a", "b", "precision", "prepare", "block_n"), [
    ((4096, 4096), (4096, 4096), "bf16x3", "split", 256),
    ((32768, 64), (64, 32768), "bf16x6", "split", 128),
    ((1, 1 << 20, 256), (1, 256, 768), "bf16x6", "split", 256),
    ((256, 524288), (524288, 256), "bf16x3", "pad", 128),
    ((128, 1024), (1024, 128), "bf16x6", "none", 64),
    ((128, 1536), (1536, 128), "bf16x3", "none", 64),
])
def test_a_products_first_choice(a: tuple[int, ...], b: tuple[int, ...], precision: str, prepare: str, block_n: int) -> None:
    found = product(a, b)
    assert [found[0][k] for k in ("precision", "prepare", "block_n")] == [precision, prepare, block_n]
    assert len(found) == len({tuple(c.items()) for c in found}) >= 3


def test_a_product_in_the_loop_comes_second_and_triangles_are_never_split() -> None:
    assert [c["prepare"] for c in product((4096, 4096), (4096, 4096))] == ["split", "pad", "split", "split"]
    assert all(c["prepare"] == "pad" for c in product((4096, 4096), (4096, 4096), triangular="lower", triangular_inputs=True))


def test_half_precision_needs_no_parts() -> None:
    assert {c["prepare"] for c in product((4096, 4096), (4096, 4096), "float16")} == {"pad"}


@pytest.mark.parametrize(("columns", "tiles"), [
    (4096, [8192]), (50257, [8192, 16384, 65536, 8192]), (393216, [8192, 16384, 8192, 32768, 16384]),
])
def test_softmax_takes_a_row_in_one_tile_where_it_fits(columns: int, tiles: list[int]) -> None:
    found = choices("softmax", {"dim": 1, "log": False}, (64, columns), (64, columns))
    assert [c["tile"] for c in found] == tiles


def test_every_first_choice_is_in_the_space() -> None:
    rows = ((112, 64, 512, 512),) * 2
    for name, found in (("matmul", product((4096, 4096), (4096, 4096)) + product((64, 64), (64, 64))),
                        ("layernorm", choices("layernorm", {"ndim": 3}, *rows)), ("groupnorm", choices("groupnorm", {"groups": 8}, *rows)),
                        ("norm_scale", choices("norm_scale", {"dim": 1}, (9, 65535), (9, 65535))),
                        ("pooling", choices("pooling", {}, (2, 3, 100, 100), (2, 3, 100, 100))),
                        ("depthwise_conv", choices("depthwise_conv", {}, (2, 3, 510, 510), (2, 3, 512, 512)))):
        space = starter("triton", name).space
        assert all(value in space[key] for choice in found for key, value in choice.items())


@pytest.mark.parametrize(("name", "shape", "size", "team"), [
    ("layernorm", {"ndim": 3}, (16, 64, 256, 256), 4), ("layernorm", {"ndim": 1}, (4096, 4096), 0),
    ("groupnorm", {"groups": 8}, (112, 64, 512, 512), 4), ("groupnorm", {"kind": "instance"}, (112, 64, 512, 512), 4),
    ("groupnorm", {"kind": "instance"}, (112, 64, 64, 64), 0), ("groupnorm", {"kind": "batch"}, (64, 64, 512, 512), 0),
    ("norm_scale", {"dim": 1}, (32768, 65535), 4), ("norm_scale", {"dim": None}, (32768, 65535), 0),
    ("norm_scale", {"dim": 1}, (16, 65535, 2), 0), ("norm_scale", {"dim": -1}, (16, 65535), 4),
])
def test_rows_that_no_program_can_hold_are_shared_first(name: str, shape: dict[str, Any], size: tuple[int, ...], team: int) -> None:
    found = choices(name, shape, size, size)
    assert found[0]["team"] == team and found[-1] == dict(starter("triton", name).params)


@pytest.mark.parametrize(("kind", "dim", "space", "first"), [
    ("sum", 1, (128, 4096, 4095), {}), ("max", 1, (128, 4096, 4095), {"tile": 8192}), ("argmin", 1, (128, 4096, 4095), {"num_warps": 4}),
    ("sum", 1, (2048, 1048576), {"tile": 2048, "splits": 4}), ("mean", 1, (16, 1048576), {}), ("sum", None, (2048, 1048576), {}),
])
def test_a_reductions_first_choice(kind: str, dim: int | None, space: tuple[int, ...], first: dict[str, int]) -> None:
    found = starter("triton", "reduce")
    made = first_choices(Match("reduce", {**found.shape, "kind": kind, "dim": dim}, (), (), "", {}, space), found.params, "triton")
    assert made[0] == {**found.params, **first} and made[-1] == dict(found.params)


@pytest.mark.parametrize(("kernel", "more", "precisions"), [
    ((96, 64, 3, 3), {}, ["tf32", "tf32x3", "tf32"]),  # the library uses TF32
    ((96, 3, 11, 11), {}, ["tf32", "tf32x3"]),
    ((96, 256, 3, 3), {}, ["tf32", "bf16x3", "tf32"]),
    ((128, 64, 1, 1), {}, ["tf32", "tf32x3", "tf32"]),  # though there are 64 products
    ((64, 8, 3, 3), {}, ["tf32x3", "tf32"]),  # it does not: 72 products
    ((64, 3, 3, 5, 7), {}, ["tf32x3", "tf32"]),  # nor with three channels in 3D
    ((32, 64, 3, 3, 3), {"transposed": True}, ["tf32", "tf32x3", "tf32"]),
    ((32, 8, 3, 3, 3), {"transposed": True, "groups": 4}, ["tf32x3", "tf32"]),
])
def test_a_convolution_begins_as_exact_as_the_library(kernel: tuple[int, ...], more: dict[str, Any], precisions: list[str]) -> None:
    groups, transposed = more.get("groups", 1), more.get("transposed", False)
    channels = kernel[0] if transposed else kernel[1] * groups
    x = (2, channels, *([16] * (len(kernel) - 2)))
    found = choices("conv", {"across": False, "pool": None, "groups": 1, "stride": [1], **more}, (2, 4, 8, 8), x, kernel)
    assert [c["precision"] for c in found] == precisions
    space = starter("triton", "conv").space
    assert all(value in space[key] for choice in found for key, value in choice.items())


def test_a_pointwise_convolutions_input_is_read_where_it_lies_by_many_small_tiles() -> None:
    found = choices("conv", {"across": False, "pool": None, "stride": [1, 1]}, (16, 128, 1024, 1024), (16, 64, 1024, 1024), (128, 64, 1, 1))
    first = {"layout": "as it is", "block_m": 64, "block_n": 128, "num_warps": 4, "num_stages": 2, "precision": "tf32"}
    assert found[0].items() >= first.items()
    deep = choices("conv", {"across": False, "pool": None, "stride": [1, 1]}, (16, 128, 64, 64), (16, 512, 64, 64), (128, 512, 1, 1))
    assert (deep[0]["block_m"], deep[0]["num_stages"]) == (128, 3)


@pytest.mark.parametrize(("x", "kernel", "more", "rows"), [
    ((16, 32, 64, 128), (32, 64, 3, 3), {"transposed": True, "stride": [5, 5]}, ["whole", "by stride"]),  # L1/81's: 0.55x by stride
    ((16, 32, 131072), (32, 64, 3), {"transposed": True, "stride": [2]}, ["whole", "by stride"]),  # L1/79's
    ((16, 1024, 64, 64), (1024, 1024, 3, 3), {"transposed": True, "stride": [2, 2]}, ["by stride", "whole"]),  # zeros cost more
    ((16, 32, 64, 128), (32, 64, 3, 3), {"transposed": True, "stride": [5, 1]}, []),
    ((16, 32, 64, 128), (64, 32, 3, 3), {"stride": [5, 5]}, []),
    ((16, 32, 64, 128), (32, 64, 3, 3), {"transposed": True, "stride": [2, 2], "pool": [2, 2]}, []),
])
def test_a_strided_transposed_convolution_writes_what_lies_together(
        x: tuple[int, ...], kernel: tuple[int, ...], more: dict[str, Any], rows: list[str]) -> None:
    shape = {"across": False, "pool": None, "groups": 1, "transposed": False, **more}
    out = (x[0], kernel[1], *(size * shape["stride"][0] for size in x[2:]))
    found = choices("conv", shape, out, x, kernel)
    conv = starter("triton", "conv")
    values = [Value("leaf", (), size, "float32") for size in (x, kernel)]
    open_ones = open_choices(Match("conv", {**conv.shape, **shape}, tuple(values), out, ""), conv.space, found)
    assert [c["rows"] for c in found[:2]] == (rows or ["by stride"] * 2) and {c["rows"] for c in found[2:]} <= {found[0]["rows"]}
    assert ("rows" in open_ones) is bool(rows) and {*open_ones, "rows"} == {*conv.space}


@pytest.mark.parametrize(("size", "first"), [((32, 32, 512, 1024), "bf16x6"), ((1, 8, 4096, 2048), "bf16x3")])
def test_attentions_first_choice_follows_its_sums(size: tuple[int, ...], first: str) -> None:
    assert choices("flash_attention", {}, size, size, size, size)[0]["precision"] == first
