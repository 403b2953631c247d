"""The optimizer's own step(), seen operation by operation: on tensors without data, so that nothing is computed. Its
numbers (learning rate, corrections of a bias, …) are inputs of the graph, since they change from step to step."""

import contextlib
import operator
from collections import defaultdict
from dataclasses import dataclass, field

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from . import _private as private
from .parallel import local


@dataclass
class Update:
    """Operations of one step() in their order. A number of type float in `args` or `kwargs` is an input."""

    operations: list = field(default_factory=list)  # (function, args, kwargs, result)

    def numbers(self) -> list[float]:
        leaves = [leaf for _, args, kwargs, _ in self.operations for leaf in tree_flatten((args, kwargs))[0]]
        return [leaf for leaf in leaves if isinstance(leaf, float)]

    def shape(self) -> list:
        """All but numbers and sizes: equal for steps that need the same graph."""

        def blank(leaf):
            return next((kind for kind in (torch.Tensor, float) if isinstance(leaf, kind)), leaf)

        return [(function, tree_map(blank, (args, kwargs))) for function, args, kwargs, _ in self.operations]


class _Watch(TorchDispatchMode):
    """`is_stand_in`: tells tensors that stand in for parameters and state from counters of steps. What is computed of
    counters alone is a number to the graph."""

    def __init__(self, is_stand_in):
        super().__init__()
        self.update, self.is_stand_in = Update(), is_stand_in

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = function(*args, **kwargs)
        tensors = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, torch.Tensor)]
        if any(self.is_stand_in(tensor) for tensor in tensors):
            if not all(self.is_stand_in(tensor) for tensor in tensors):
                raise private.Unsupported(
                    f"{function} of the optimizer reads a tensor that is a number, as with fused=True, capturable=True "
                    f"or a learning rate that is a tensor. Fix: an optimizer without them, lr as a float"
                )
            self.update.operations.append((function, args, kwargs, result))
        return result


def is_counter(tensor: torch.Tensor) -> bool:
    return tensor.dim() == 0 and tensor.device.type == "cpu"


def parameters_of(optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def state_tensors(optimizer) -> list[tuple[torch.Tensor, str, torch.Tensor]]:
    """(parameter, name, tensor) of all that an optimizer keeps, but for its counters."""
    return [
        (parameter, name, value)
        for parameter in parameters_of(optimizer)
        for name, value in sorted(optimizer.state.get(parameter, {}).items())
        if isinstance(value, torch.Tensor) and not is_counter(value)
    ]


@contextlib.contextmanager
def _standing_in(optimizer, fakes: dict, gradients: dict):
    """The optimizer with other tensors in place of parameters and state; its numbers and counters are its own."""
    params = [group["params"] for group in optimizer.param_groups]
    state = optimizer.state
    stand_ins, own = defaultdict(dict), {}
    for parameter in parameters_of(optimizer):
        fake = fakes[parameter]
        own[fake] = parameter
        for name, value in state.get(parameter, {}).items():
            stand_ins[fake][name] = fakes.get((parameter, name), value)
    before = {fake: dict(values) for fake, values in stand_ins.items()}
    for group in optimizer.param_groups:
        group["params"] = [fakes[parameter] for parameter in group["params"]]
    for fake, parameter in own.items():
        fake.grad = gradients.get(parameter)
    optimizer.state = stand_ins
    try:
        yield
        for fake, values in stand_ins.items():
            for name, value in values.items():
                was = before.get(fake, {}).get(name)
                if isinstance(value, torch.Tensor):
                    if value is not was:
                        raise private.Unsupported(
                            f"{type(optimizer).__name__}.step() replaces its state '{name}' instead of changing it in "
                            f"place. Fix: another optimizer"
                        )
                else:
                    state[own[fake]][name] = value
    finally:
        for fake in own:
            fake.grad = None
        for group, own_params in zip(optimizer.param_groups, params, strict=True):
            group["params"] = own_params
        optimizer.state = state


def watch(optimizer, fakes: dict, gradients: dict, is_stand_in=private.is_fake) -> Update:
    """Calls optimizer.step() once, on `fakes` (by parameter, and by (parameter, name of state)) with `gradients` (by
    parameter). Counters and numbers of the optimizer go on as in any step."""
    with _standing_in(optimizer, fakes, gradients), _Watch(is_stand_in) as seen, torch.no_grad():
        optimizer.step()
    return seen.update


class Numbers:
    """The numbers of each next step(). Tensors of one element stand in for the optimizer's, which takes a twentieth of
    the time of tensors without data; if the optimizer does something else with them, it gets those."""

    def __init__(self, optimizer, fakes: dict, gradients: dict, shape: list):
        self.optimizer, self.shape = optimizer, shape
        self.fakes, self.gradients, self.is_stand_in = fakes, gradients, private.is_fake
        small = [
            {key: torch.ones([1] * max(1, tensor.dim()), dtype=tensor.dtype) for key, tensor in some.items()}
            for some in (fakes, gradients)
        ]
        undo = self._undo()
        try:
            same = watch(optimizer, *small, is_stand_in=lambda tensor: tensor.dim() > 0).shape() == shape
        except Exception:  # of an optimizer that doesn't work on such tensors, whatever it raises
            same = False
        undo()
        if same:
            (self.fakes, self.gradients), self.is_stand_in = small, lambda tensor: tensor.dim() > 0

    def _undo(self):
        """A function that takes counters and numbers of the optimizer back to what they are now."""
        kept = [
            (state, name, value.clone() if isinstance(value, torch.Tensor) else value)
            for state in self.optimizer.state.values()
            for name, value in state.items()
            if not isinstance(value, torch.Tensor) or is_counter(value)
        ]

        def undo():
            for state, name, value in kept:
                if isinstance(value, torch.Tensor):
                    state[name].copy_(value)
                else:
                    state[name] = value

        return undo

    def next(self) -> list[float] | None:
        """None if step() did other operations than before: the step has to be traced again, and nothing was counted."""
        undo = self._undo()
        update = watch(self.optimizer, self.fakes, self.gradients, self.is_stand_in)
        if update.shape() == self.shape:
            return update.numbers()
        undo()
        return None


def append(graph: torch.fx.Graph, update: Update, node_of: dict[int, torch.fx.Node], before: torch.fx.Node) -> list:
    """Adds the operations before a node of the graph. `node_of`: by id of a fake tensor. Returns the placeholders of
    the numbers, which must come after all others."""
    last = [node for node in graph.nodes if node.op == "placeholder"][-1]
    numbers, kept = [], []

    def argument(leaf):
        nonlocal last
        if isinstance(leaf, torch.Tensor):
            return node_of[id(leaf)]
        if not isinstance(leaf, float):
            return leaf
        with graph.inserting_after(last):
            last = graph.placeholder(f"number_{len(numbers)}")
        last.meta["val"] = leaf
        numbers.append(last)
        return last

    for function, args, kwargs, result in update.operations:
        kept.append(result)  # so that no other tensor gets its id
        with graph.inserting_before(before):
            node = graph.call_function(function, *tree_map(argument, (tuple(args), dict(kwargs))))
            node.meta["val"] = result
            node.meta["weft_phase"] = "update"
            if isinstance(result, torch.Tensor):
                node_of.setdefault(id(result), node)
                continue
            for place, one in enumerate(result if isinstance(result, list | tuple) else ()):
                if id(one) not in node_of:
                    part = graph.call_function(operator.getitem, (node, place))
                    part.meta["val"] = one
                    node_of[id(one)] = part
    return numbers


def fakes_of(mode, optimizer) -> dict:
    """Stand-ins without data for what an optimizer keeps."""
    kept = {(parameter, name): local(value) for parameter, name, value in state_tensors(optimizer)}
    return {key: value if private.is_fake(value) else mode.from_tensor(value) for key, value in kept.items()}
