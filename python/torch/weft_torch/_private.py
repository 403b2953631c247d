"""Every function of PyTorch that isn't public, in one place, with the versions on which they were tried."""

import contextlib

import torch

TRIED_VERSIONS = ("2.15",)


class Unsupported(RuntimeError):
    """A step that can't be captured: what was found, and how to write it instead."""


def check_version() -> None:
    """Refuses a PyTorch on which nobody tried the private functions below."""
    found = ".".join(torch.__version__.split(".")[:2])
    if found not in TRIED_VERSIONS:
        raise Unsupported(
            f"PyTorch {torch.__version__}: weft_torch uses functions of it that aren't public, and was tried with "
            f"{', '.join(TRIED_VERSIONS)} alone. Fix: pip install 'torch=={TRIED_VERSIONS[-1]}.*'"
        )


def parametrized(module: torch.nn.Module, tensors: dict):
    """A context in which the module's parameters and buffers are these tensors; tied ones stay tied."""
    from torch.nn.utils import stateless

    return stateless._reparametrize_module(module, tensors, tie_weights=True)


def traced(function, inputs):
    """The FX graph of `function(*inputs)`: a flat list of ATen operations, nothing computed."""
    from torch.fx.experimental.proxy_tensor import make_fx

    with torch.compiler._non_strict_tracing_context(), torch.autograd.set_multithreading_enabled(False):
        return make_fx(function, tracing_mode="fake", _allow_non_fake_inputs=True)(*inputs)


def nodes_so_far() -> int | None:
    """How many nodes the trace in progress has, or None outside of a trace."""
    from torch.fx.experimental.proxy_tensor import get_proxy_mode

    mode = get_proxy_mode()
    return None if mode is None else len(mode.tracer.graph.nodes)


def fake_mode():
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode(allow_non_fake_inputs=True)


def empty_like(tensor: torch.Tensor, mode):
    """A tensor of this shape without data, as if on a CPU."""
    with mode:
        return torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")


def empty(model: torch.nn.Module, mode) -> None:
    """Takes the data out of a model."""
    made = {}
    for module in model.modules():
        for held in (module._parameters, module._buffers):
            for name, tensor in held.items():
                if tensor is None:
                    continue
                if tensor not in made:
                    one = empty_like(tensor, mode)
                    is_parameter = isinstance(tensor, torch.nn.Parameter)
                    made[tensor] = torch.nn.Parameter(one, tensor.requires_grad) if is_parameter else one
                held[name] = made[tensor]


def is_fake(tensor: torch.Tensor) -> bool:
    """Whether it has a shape and no data."""
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(tensor, FakeTensor)


def storage_key(tensor: torch.Tensor) -> int:
    """Equal for tensors that share memory, fake ones too."""
    return tensor.untyped_storage()._cdata


def group_ranks(name: str) -> list[int]:
    """The ranks of the process group that a functional collective names."""
    import torch.distributed as dist

    return dist.get_process_group_ranks(dist.distributed_c10d._resolve_process_group(name))


def backend_of(name: str) -> str:
    """ "gloo", "nccl", "fake": what carries a process group's messages of CPU tensors."""
    import torch.distributed as dist

    return dist.get_backend(dist.distributed_c10d._resolve_process_group(name))


def flops_of(target, args, kwargs, out) -> int:
    from torch.utils.flop_counter import flop_registry

    count = flop_registry.get(getattr(target, "_overloadpacket", None))
    return int(count(*args, **kwargs, out_val=out)) if count else 0


@contextlib.contextmanager
def fake_ranks(world: int):
    """One process that stands for rank 0 of `world`: collectives have shapes and do nothing."""
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if dist.is_initialized():
        raise Unsupported(
            "capture(world=…) makes a process group of its own, and there is one. "
            "Fix: call it before init_process_group()"
        )
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=world)
    try:
        yield
    finally:
        dist.destroy_process_group()
