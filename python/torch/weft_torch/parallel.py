"""How a model's parameters lie on the ranks: as they are, in copies whose gradients are summed (DDP), or in shards that
are gathered where they are read (FSDP, ZeRO-3)."""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch import nn
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

from ._private import Unsupported

WAYS = (None, "ddp", "fsdp", "tp")


def refuse_wrappers(model: nn.Module) -> None:
    """Other libraries' wrappers hide their collectives in hooks, where no trace sees them."""
    from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel
    from torch.nn.parallel import DistributedDataParallel

    wrappers = {
        DistributedDataParallel: "DistributedDataParallel",
        FullyShardedDataParallel: "FullyShardedDataParallel (FSDP1)",
        FSDPModule: "fully_shard() (FSDP2)",
    }
    for name, module in model.named_modules():
        for kind, title in wrappers.items():
            if isinstance(module, kind):
                raise Unsupported(
                    f"module '{name or type(module).__name__}' is wrapped by {title}. Fix: give the model without it, "
                    f"and parallel='ddp' or parallel='fsdp' to compile()"
                )


def owners(model: nn.Module) -> dict[nn.Parameter, list[tuple[nn.Module, str]]]:
    """By parameter: the modules that hold it, and under which name. Tied weights have several."""
    found: dict[nn.Parameter, list[tuple[nn.Module, str]]] = {}
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                found.setdefault(parameter, []).append((module, name))
    return found


def shard(model: nn.Module, optimizer: torch.optim.Optimizer | None, mesh, source: int | None = 0) -> None:
    """Replaces parameters by shards of them, in the model and in the optimizer. A parameter is cut along its first
    dimension that the ranks divide; without one it stays whole on each rank. `source`: the rank whose values count;
    None: each rank's own."""
    replaced = {}
    for parameter, places in owners(model).items():
        if isinstance(parameter, DTensor):
            raise Unsupported(
                "a parameter is a DTensor already, and parallel='fsdp' would shard it again. Fix: parallel=None or 'tp'"
            )
        divided = [d for d, size in enumerate(parameter.shape) if size % mesh.size() == 0]
        placement = Shard(divided[0]) if divided else Replicate()
        sharded = nn.Parameter(
            distribute_tensor(parameter.data, mesh, [placement], src_data_rank=source),
            requires_grad=parameter.requires_grad,
        )
        replaced[parameter] = sharded
        for module, name in places:
            module._parameters[name] = sharded
    _read_whole(model)
    if optimizer is None:
        return
    if optimizer.state:
        raise Unsupported(
            "the optimizer has state of whole parameters. Fix: call compile() before the first optimizer.step()"
        )
    for group in optimizer.param_groups:
        group["params"] = [replaced.get(p, p) for p in group["params"]]


def _read_whole(model: nn.Module) -> None:
    """A module that reads a parameter gets the whole of it: gathered in the forward pass, its gradient reduced and
    scattered in the backward pass."""

    def gathered(name):
        def read(module):
            parameter = module._parameters[name]
            if not isinstance(parameter, DTensor):
                return parameter
            whole = parameter.redistribute(placements=[Replicate()])
            return whole.to_local(grad_placements=[Partial(reduce_op="sum")])

        return property(read)

    for module in list(model.modules()):
        names = [name for name, parameter in module._parameters.items() if parameter is not None]
        if names:
            kind = type(module)
            module.__class__ = type("Sharded" + kind.__name__, (kind,), {name: gathered(name) for name in names})


def equal_start(model: nn.Module, mesh) -> None:
    """Rank 0's parameters and buffers, on every rank of the mesh."""
    group = mesh.get_group()
    source = dist.get_process_group_ranks(group)[0]
    for tensor in [*model.parameters(), *model.buffers()]:
        dist.broadcast(local(tensor).detach(), source, group=group)


def local(tensor: torch.Tensor) -> torch.Tensor:
    """What this rank holds."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def like(tensor: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
    """`part` as the local part of a tensor like `tensor`."""
    if not isinstance(tensor, DTensor):
        return part
    return DTensor.from_local(
        part, tensor.device_mesh, tensor.placements, run_check=False, shape=tensor.shape, stride=tensor.stride()
    )


def averaged(
    gradients: list[torch.Tensor], parameters: list[torch.Tensor], way: str | None, mesh
) -> list[torch.Tensor]:
    """Gradients of the mean loss of all ranks. Sharded ones were summed in the backward pass."""
    if way not in ("ddp", "fsdp") or mesh is None or mesh.size() == 1:
        return gradients
    if way == "ddp":
        gradients = [funcol.all_reduce(gradient, "sum", mesh.get_group()) for gradient in gradients]
    return [gradient / mesh.size() for gradient in gradients]


def clipped(
    gradients: list[torch.Tensor], parameters: list[torch.Tensor], most: float, way: str | None, mesh
) -> list[torch.Tensor]:
    """As torch.nn.utils.clip_grad_norm_ does: by the norm of all gradients, of all ranks' shards together."""
    if any(isinstance(p, DTensor) for p in parameters) and way != "fsdp":
        raise Unsupported("clip_grad_norm with DTensors of your own. Fix: parallel='fsdp' or 'ddp', or no clipping")
    shards, whole = [], []
    for gradient, parameter in zip(gradients, parameters, strict=True):
        is_shard = isinstance(parameter, DTensor) and isinstance(parameter.placements[0], Shard)
        (shards if is_shard else whole).append(gradient)
    total = nn.utils.get_total_norm(whole)
    if shards:
        squares = funcol.all_reduce(nn.utils.get_total_norm(shards) ** 2, "sum", mesh.get_group())
        total = (squares + total**2).sqrt()
    factor = torch.clamp(most / (total + 1e-6), max=1.0)
    return [gradient * factor for gradient in gradients]
