"""Has torch's own compiler write its kernels for a problem, for an H200, also where there is no GPU. Runs in the tracing process.

Inductor needs a device's properties and Triton's target to choose tiles by, not the device: the problem is traced on fake CUDA tensors,
the properties are those of an H200, and the compiler is stopped when it has written its Python text, before anything is built or loaded.
"""

from __future__ import annotations

import contextlib
import sys
import types
from typing import Any

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensorMode

ARCHITECTURE = 90
PROPERTIES = {
    "name": "NVIDIA H200", "major": 9, "minor": 0, "multi_processor_count": 132, "total_memory": 150_000_000_000, "warp_size": 32,
    "regs_per_multiprocessor": 65536, "max_threads_per_multi_processor": 2048, "max_threads_per_block": 1024,
    "shared_memory_per_block": 49152, "shared_memory_per_block_optin": 232448, "L2_cache_size": 52_428_800, "gcnArchName": "",
}


class Written(BaseException):
    """Carries the text out of the compiler, past its own handlers."""

    def __init__(self, text: str) -> None:
        super().__init__("the text is written")
        self.text = text


def generate(source: str) -> dict[str, Any]:
    """{"code": the module that torch.compile would run for this problem, "arguments": what its call takes, in order}, or {"error": why}.

    An argument is ["parameter", dotted name], ["buffer", dotted name] or ["input", position].
    """
    try:
        return _generate(source)
    except Exception as error:  # noqa: BLE001 - the problem's code and the compiler may raise anything; the reason is the answer
        return {"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}


def _generate(source: str) -> dict[str, Any]:
    from torch.fx.experimental.proxy_tensor import make_fx

    _pretend()
    module = types.ModuleType("seeded_problem")
    sys.modules[module.__name__] = module
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    with torch.no_grad(), fake:
        exec(compile(source, "problem.py", "exec"), module.__dict__)
        model = _constructed(module, fake)
        untracked = [m for m in model.modules() if getattr(m, "running_mean", None) is not None and m.training]
        for layer in untracked:  # in training forward only writes them; a fake tensor of a device that is not there cannot be written to
            layer.running_mean = layer.running_var = None
            layer.track_running_stats = False
        inputs = [_moved(value) for value in module.__dict__["get_inputs"]()]
        state = {name: _moved(value) for name, value in (*model.named_parameters(), *model.named_buffers())}
    places = [n for n, value in enumerate(inputs) if isinstance(value, torch.Tensor)]

    def forward(*given: torch.Tensor) -> Any:
        values = list(inputs)
        for place, value in zip(places, given[len(state):], strict=True):
            values[place] = value
        return torch.func.functional_call(model, dict(zip(state, given, strict=False)), tuple(values))

    taken = [*state.values(), *(inputs[n] for n in places)]
    with torch.no_grad(), fake:
        graph = make_fx(forward)(*taken)
    buffers = {name for name, _ in model.named_buffers()}
    named = [["buffer" if name in buffers else "parameter", name] for name in state]
    return {"code": _written(graph, taken), "arguments": [*named, *(["input", n] for n in places)],
            "untracked": bool(untracked)}


def _constructed(module: types.ModuleType, fake: FakeTensorMode) -> Any:
    """The model, on tensors without memory unless its constructor looks at their values."""
    def construct() -> Any:
        return module.__dict__["Model"](*(module.__dict__["get_init_inputs"]() if "get_init_inputs" in module.__dict__ else []))

    try:
        return construct()
    except fake_tensor.DataDependentOutputException:
        with fake_tensor.unset_fake_temporarily():
            return construct()


def _moved(value: Any) -> Any:
    """A fake CPU tensor as one on the GPU."""
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="cuda")


def _written(graph: Any, taken: list[Any]) -> str:
    """The compiler's text for an aten graph."""
    import torch._inductor.config as settings
    from torch._inductor.compile_fx import compile_fx
    from torch._inductor.fx_passes import joint_graph
    from torch._inductor.graph import GraphLowering

    def stop(lowering: Any) -> Any:
        code = lowering.codegen()[0]
        raise Written(str(getattr(code, "value", code)))

    GraphLowering.compile_to_module = stop  # type: ignore[method-assign, assignment]
    joint_graph.lazy_init = lambda *arguments, **named: None  # it runs its attention patterns on tensors of the device, once
    # random numbers as eager draws them, else dropout could not agree
    wanted = {"fallback_random": True, "force_disable_caches": True, "compile_threads": 1, "comment_origin": False,
              "triton.unique_kernel_names": True, "triton.mix_order_reduction": False, "combo_kernels": False}
    if not torch.backends.cuda.is_built():  # constants are folded on the device
        wanted["joint_graph_constant_folding"] = False
    try:
        with torch.no_grad(), settings.patch({k: v for k, v in wanted.items() if _has(settings, k)}):
            compile_fx(graph, taken)
    except Written as done:
        return done.text
    raise RuntimeError("the compiler ended without writing a module")


def _has(settings: Any, name: str) -> bool:
    with contextlib.suppress(AttributeError):
        for part in name.split("."):
            settings = getattr(settings, part)
        return True
    return False


def _convolution_format(x: torch.Tensor, weight: torch.Tensor, backend: Any) -> torch.memory_format:
    """cuDNN's rule, which a build without it does not know: the output lies as the input or the weights do."""
    for tensor in (x, weight):
        if tensor.dim() == 4 and not tensor.is_contiguous() and tensor.is_contiguous(memory_format=torch.channels_last):
            return torch.channels_last
        if tensor.dim() == 5 and not tensor.is_contiguous() and tensor.is_contiguous(memory_format=torch.channels_last_3d):
            return torch.channels_last_3d
    return torch.contiguous_format


def _contiguous(x: torch.Tensor, memory_format: torch.memory_format = torch.contiguous_format) -> torch.Tensor:
    """Tensor.contiguous, whose own C++ asks for the device, which a build without CUDA cannot even name."""
    return x if x.is_contiguous(memory_format=memory_format) else x.clone(memory_format=memory_format)


def _pretend() -> None:
    """From here on this process (a fork that ends with the request) believes in an H200 that nothing can run on."""
    import triton
    from triton.backends.compiler import GPUTarget

    def always(value: Any) -> Any:
        return lambda *arguments, **named: value  # a function of its own each time: the compiler keeps lists of torch's functions

    device = types.SimpleNamespace(**PROPERTIES)
    answers = {
        "_get_device_properties": device, "get_device_properties": device, "get_device_name": PROPERTIES["name"], "is_available": True,
        "get_device_capability": (ARCHITECTURE // 10, ARCHITECTURE % 10), "is_initialized": True, "device_count": 1, "current_device": 0,
        "synchronize": None, "_lazy_init": None, "set_device": None,
        "_exchange_device": 0, "_maybe_exchange_device": 0, "get_rng_state": torch.zeros(16, dtype=torch.uint8), "set_rng_state": None,
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, always(answer))
    if not torch.backends.cuda.is_built():
        torch.Tensor.contiguous = _contiguous  # type: ignore[method-assign, assignment]
    torch._C._conv_determine_backend_memory_format = _convolution_format  # type: ignore[assignment]

    for name in ("init_gpu_context", "init_cuda_context"):  # makes a context where there is a GPU; none is needed here
        if hasattr(fake_tensor, name):
            setattr(fake_tensor, name, always(None))

    class Driver:
        get_current_target = staticmethod(lambda: GPUTarget("cuda", ARCHITECTURE, 32))
        get_current_device = staticmethod(lambda: 0)
        get_current_stream = staticmethod(lambda device=None: 0)
        get_active_torch_device = staticmethod(lambda: torch.device("cuda:0"))

    triton.runtime.driver.set_active(Driver())
