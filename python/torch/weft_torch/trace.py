"""One whole training step as one FX graph of ATen operations: forward, loss, backward, the reduction of gradients, and
the optimizer's step."""

import re
from dataclasses import dataclass, field

import torch
from torch.distributed.tensor import DTensor
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._pytree import tree_flatten, tree_unflatten

from . import _private as private
from .exchanges import exchange_sums
from .parallel import averaged, clipped, like, local
from .update_trace import Update, append

_LAYER = re.compile(r"(?:^|\.)(\d+)(?:\.|$)")


@dataclass
class Way:
    """How a step is done, apart from its model and its data."""

    loss: object
    parallel: str | None = None
    mesh: object = None
    accumulate: int = 1
    clip_grad_norm: float | None = None


@dataclass
class TracedStep:
    """`module(*inputs)` gives [loss] and changes parameters, buffers and state in place. Inputs: what the model holds,
    leaves of the batch that are tensors, the optimizer's state, its numbers."""

    module: torch.fx.GraphModule
    trained: list[torch.Tensor]  # parameters with gradients, as the model has them
    held: list[torch.Tensor]  # parameters and buffers, in the order of inputs
    fakes: dict  # by parameter, and by (parameter, name of state): what stands in for it in the graph
    gradients: dict  # by parameter
    update_shape: list = field(default_factory=list)
    state_keys: list = field(default_factory=list)  # (parameter, name), in the order of inputs


def layer_in(path: str) -> int:
    """The number of the layer in a module's path ("model.layers.3.mlp"), or -1."""
    found = _LAYER.search(path)
    return int(found.group(1)) if found else -1


def micro_batches(batch, count: int) -> list:
    """Equal parts of all tensors of the batch, along their first dimension."""
    leaves, shape = tree_flatten(batch)
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor) and (leaf.dim() == 0 or leaf.shape[0] % count != 0):
            raise private.Unsupported(
                f"accumulate={count} and a tensor of the batch of shape {tuple(leaf.shape)}. Fix: a first dimension "
                f"that {count} divides"
            )
    parts = [leaf.chunk(count) if isinstance(leaf, torch.Tensor) else [leaf] * count for leaf in leaves]
    return [tree_unflatten([part[i] for part in parts], shape) for i in range(count)]


def loss_and_gradients(model, trained, batch, way: Way, told=lambda phase: None):
    """The mean loss over this rank's batch, and gradients of the mean over all ranks, None where the loss doesn't
    depend on a parameter. `told`: called as phases begin."""
    total, gradients = None, None
    for part in micro_batches(batch, way.accumulate) if way.accumulate > 1 else [batch]:
        told("forward")
        loss = way.loss(model, part)
        if isinstance(loss, DTensor):
            loss = loss.full_tensor()
        if way.accumulate > 1:
            loss = loss / way.accumulate
        told("backward")
        found = torch.autograd.grad(loss, trained, allow_unused=True)
        total = loss.detach() if total is None else total + loss.detach()
        gradients = found if gradients is None else [_sum(a, b) for a, b in zip(gradients, found, strict=True)]
    # An optimizer passes over parameters without a gradient, which a loss may not use.
    used = [place for place, gradient in enumerate(gradients) if gradient is not None]
    parameters = [trained[place] for place in used]
    locals_ = averaged([local(gradients[place]) for place in used], parameters, way.parallel, way.mesh)
    if way.clip_grad_norm is not None:
        told("update")
        locals_ = clipped(locals_, parameters, way.clip_grad_norm, way.parallel, way.mesh)
    by_place = dict(zip(used, locals_, strict=True))
    return total, [by_place.get(place) for place in range(len(trained))]


def _sum(one, other):
    return other if one is None else one if other is None else one + other


class _Places:
    """Which nodes of a trace belong to which phase and to which layer."""

    def __init__(self, model):
        self.paths = {module: path for path, module in model.named_modules()}
        self.marks = []  # (number of nodes, phase or None, layer or None)
        self.stack = [-1]

    def mark(self, phase=None, layer=None):
        self.marks.append((private.nodes_so_far() or 0, phase, layer))

    def entered(self, module, inputs):
        layer = layer_in(self.paths.get(module, ""))
        self.stack.append(layer if layer >= 0 else self.stack[-1])
        self.mark(layer=self.stack[-1])

    def left(self, module, inputs, output):
        self.stack.pop()
        self.mark(layer=self.stack[-1])

    def write_to(self, graph):
        phase, layer, marks = "forward", -1, iter([*self.marks, (float("inf"), None, None)])
        mark = next(marks)
        for place, node in enumerate(graph.nodes):
            while mark[0] <= place:
                phase = mark[1] or phase
                layer = mark[2] if mark[2] is not None else layer
                mark = next(marks)
            node.meta["weft_phase"] = phase
            node.meta["weft_layer"] = layer if phase == "forward" else -1


def _spread_layers(graph, held_names: dict):
    """A backward task is of the layer whose activations it reads, an update of its parameter's."""
    for node in graph.nodes:
        if node.op == "placeholder":
            node.meta["weft_layer"] = held_names.get(node, -1)
        elif node.meta.get("weft_layer", -1) < 0:
            known = [a for a in node.all_input_nodes if a.meta.get("weft_layer", -1) >= 0]
            forward = [a for a in known if a.op != "placeholder" and a.meta.get("weft_phase") == "forward"]
            if known and node.meta.get("weft_phase") != "forward":
                node.meta["weft_layer"] = (forward or known)[0].meta["weft_layer"]


def trace(model, batch, way: Way) -> TracedStep:
    """The graph of a step without its update. Raises Unsupported, with cause and fix, on what no graph can hold."""
    named = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    names, held = list(named), list(named.values())
    trained = [p for p in model.parameters() if p.requires_grad]
    leaves, shape = tree_flatten(batch)
    are_tensors = [isinstance(leaf, torch.Tensor) for leaf in leaves]
    places = _Places(model)

    def step(*flat):
        mine = list(flat[: len(held)])
        given = iter(flat[len(held) :])
        whole = [next(given) if is_tensor else leaf for leaf, is_tensor in zip(leaves, are_tensors, strict=True)]
        leaf_of = {}
        for i, (original, tensor) in enumerate(zip(held, mine, strict=True)):
            if isinstance(original, torch.nn.Parameter) and original.requires_grad:
                leaf_of[original] = like(original, tensor.detach()).requires_grad_()
                mine[i] = leaf_of[original]
            elif isinstance(original, DTensor):
                mine[i] = like(original, tensor)
        with private.parametrized(model, dict(zip(names, mine, strict=True))):
            loss, gradients = loss_and_gradients(
                model, [leaf_of[p] for p in trained], tree_unflatten(whole, shape), way, lambda p: places.mark(phase=p)
            )
        return [loss, *gradients]

    inputs = [local(t).detach() for t in held] + [leaf for leaf, is_t in zip(leaves, are_tensors, strict=True) if is_t]
    hooks = [register_module_forward_pre_hook(places.entered), register_module_forward_hook(places.left)]
    try:
        module = private.traced(step, inputs)
    except private.Unsupported:
        raise
    except Exception as error:
        raise private.Unsupported(_why(error)) from error
    finally:
        for hook in hooks:
            hook.remove()
    places.write_to(module.graph)
    exchange_sums(module.graph)
    inputs_of_graph = [node for node in module.graph.nodes if node.op == "placeholder"]
    _spread_layers(module.graph, dict(zip(inputs_of_graph, map(layer_in, names), strict=False)))
    results = next(node for node in module.graph.nodes if node.op == "output").args[0]
    fakes = {t: node.meta["val"] for t, node in zip(held, inputs_of_graph, strict=False)}
    traced = TracedStep(module, trained, held, fakes, {})
    traced.gradients = {p: node.meta["val"] for p, node in zip(trained, results[1:], strict=True) if node is not None}
    return traced


def add_update(traced: TracedStep, update: Update, state_keys: list) -> None:
    """Adds the optimizer's operations; the graph then gives the loss alone."""
    graph = traced.module.graph
    output = next(node for node in graph.nodes if node.op == "output")
    loss, *gradients = output.args[0]
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    node_of = {id(traced.fakes[t]): node for t, node in zip(traced.held, inputs, strict=False)}
    with_gradient = [(p, node) for p, node in zip(traced.trained, gradients, strict=True) if node is not None]
    node_of |= {id(traced.gradients[p]): node for p, node in with_gradient}
    last = inputs[-1]
    for number, key in enumerate(state_keys):
        with graph.inserting_after(last):
            last = graph.placeholder(f"state_{number}")
        last.meta["val"] = traced.fakes[key]
        node_of[id(traced.fakes[key])] = last
    append(graph, update, node_of, output)
    output.args = ([loss],)
    layers = {node_of[id(traced.fakes[t])]: node_of[id(traced.fakes[t])].meta["weft_layer"] for t in traced.held}
    layers |= {node_of[id(traced.fakes[key])]: layers.get(node_of[id(traced.fakes[key[0]])], -1) for key in state_keys}
    _spread_layers(graph, layers)
    graph.eliminate_dead_code()
    traced.module.recompile()
    traced.update_shape, traced.state_keys = update.shape(), list(state_keys)


def _why(error: Exception) -> str:
    text = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else 'no message'}"
    if "DataDependent" in text or "data-dependent" in text or "_local_scalar_dense" in text or ".item()" in text:
        return (
            f"the step reads a tensor's value in Python (.item(), float(), bool(), nonzero() or an if): {text}. Fix: "
            f"keep it a tensor, for example with torch.where"
        )
    return f"the step can't be traced: {text}. Fix: leave out what isn't an operation on tensors"
