from __future__ import annotations

import pytest

from autokernel import builders
from autokernel.builders.toolchain import missing_tool

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
    pytest.mark.skipif(missing_tool("cuda") is not None, reason=str(missing_tool("cuda"))),
]


def load(text, tmp_path):
    builder = builders.get("cuda")
    major, minor = torch.cuda.get_device_capability()
    built = builder.build(text, tmp_path / "store", f"sm_{major}{minor}" + ("a" if major >= 9 else ""), 120)
    assert built.ok, built.digest
    (tmp_path / "candidate.py").write_text(text)
    return builder.load(tmp_path / "candidate.py", built.artifact)


def test_a_cuda_candidate_is_right_and_refuses_what_is_not_on_its_device(candidates, tmp_path):
    module = load(candidates["cuda"], tmp_path)
    x = torch.randn(1000, 1000, device="cuda")
    assert torch.equal(module.ModelNew()(x), 2 * x)
    with pytest.raises(ValueError, match="argument 2 'y' is on cpu; pass a tensor on the current CUDA device, cuda:0"):
        module.native.scale(x, x.cpu(), 1, 1.0)


def test_launches_follow_torchs_current_stream(candidates, tmp_path):
    module = load(candidates["cuda"], tmp_path)
    x, side = torch.zeros(1 << 20, device="cuda"), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)  # about 0.1 s: a launch on another stream would read x before it is filled
        x.fill_(3)
        y = torch.empty_like(x)
        module.native.scale(x, y, x.numel(), 2.0)
    assert not torch.cuda.current_stream().cuda_stream == side.cuda_stream
    torch.cuda.synchronize()
    assert y.unique().tolist() == [6.0]


def test_a_failed_launch_raises_with_the_errors_name_and_the_next_works(candidates, tmp_path):
    module = load(candidates["cuda"].replace("256, 0,", "n == 5 ? 4096 : 256, 0,"), tmp_path)
    x = torch.ones(5, device="cuda")
    with pytest.raises(RuntimeError, match=r"^native\.scale returned 1 \(cudaErrorInvalidValue\); a launcher must return 0\.$"):
        module.ModelNew()(x)
    x = torch.ones(6, device="cuda")
    assert torch.equal(module.ModelNew()(x), 2 * x)
