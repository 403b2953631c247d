"""What a node of a traced step is: a collective, its wait, a view, or work; and which memory it reads and writes."""

import operator

import torch
from torch.utils._pytree import tree_flatten, tree_map

from . import _private as private

COLLECTIVES = {
    "all_reduce": "all_reduce",
    "all_gather_into_tensor": "all_gather",
    "all_gather_into_tensor_coalesced": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "all_to_all_single": "all_to_all",
    "broadcast": "broadcast",
}
_RANDOM = torch.Tag.nondeterministic_seeded


def _schema_name(node) -> tuple[str, str]:
    if node.op != "call_function" or not hasattr(node.target, "_schema"):
        return "", ""
    space, _, name = node.target._schema.name.partition("::")
    return space, name


def operation(node) -> str:
    """ "mm", "all_reduce", "getitem"."""
    space, name = _schema_name(node)
    if space == "_c10d_functional":
        return COLLECTIVES.get(name.rstrip("_"), name)
    return name or getattr(node.target, "__name__", str(node.target))


def is_collective(node) -> bool:
    space, name = _schema_name(node)
    if space == "_c10d_functional" and name != "wait_tensor" and name.rstrip("_") not in COLLECTIVES:
        raise private.Unsupported(f"the collective {name}. Fix: one of {', '.join(COLLECTIVES)}")
    return space == "_c10d_functional" and name.rstrip("_") in COLLECTIVES


def is_wait(node) -> bool:
    return _schema_name(node) == ("_c10d_functional", "wait_tensor")


def waited(node) -> torch.fx.Node:
    """The collective of a wait: its argument, or what gave the list of which that is a part."""
    (source,) = node.args
    return source.args[0] if source.target is operator.getitem else source


def is_random(node) -> bool:
    return _RANDOM in getattr(node.target, "tags", ())


def tensors_of(node) -> list[torch.Tensor]:
    value = node.meta.get("val")
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, torch.Tensor)]


def _arguments(node):
    """(argument of the schema, what the node gives for it)."""
    for place, argument in enumerate(node.target._schema.arguments):
        given = node.args[place] if place < len(node.args) else node.kwargs.get(argument.name)
        yield argument, [leaf for leaf in tree_flatten(given)[0] if isinstance(leaf, torch.fx.Node)]


def written_arguments(node) -> list[torch.fx.Node]:
    """Of in-place operations: the nodes whose memory they change."""
    if node.op != "call_function" or not hasattr(node.target, "_schema"):
        return []
    return [
        one
        for argument, nodes in _arguments(node)
        if argument.alias_info and argument.alias_info.is_write
        for one in nodes
    ]


def is_task(node) -> bool:
    """Whether it takes time: no input, no view of memory that is there, no wait."""
    if node.op != "call_function" or is_wait(node) or node.target is operator.getitem:
        return False
    if is_collective(node) or written_arguments(node):
        return True
    mine = {private.storage_key(tensor) for tensor in tensors_of(node)}
    given = {private.storage_key(tensor) for one in node.all_input_nodes for tensor in tensors_of(one)}
    return not mine or not mine <= given


def group_of(node) -> str:
    """The process group of a collective."""
    for argument, _ in _arguments(node):
        if argument.name == "group_name":
            place = [a.name for a in node.target._schema.arguments].index("group_name")
            given = node.args[place] if place < len(node.args) else node.kwargs[argument.name]
            return given if isinstance(given, str) else given.group_name
    raise private.Unsupported(f"{node.target} names no process group")


def added(graph: torch.fx.Graph, like: torch.fx.Node, target, *args, **kwargs) -> torch.fx.Node:
    """A new node where the graph inserts, of the phase and layer of `like`, with the tensors that it would give."""
    node = graph.call_function(target, args, kwargs)
    node.meta = {key: value for key, value in like.meta.items() if key.startswith("weft_")}
    real = tree_map(lambda one: one.meta["val"] if isinstance(one, torch.fx.Node) else one, (args, kwargs))
    with tensors_of(like)[0].fake_mode:
        node.meta["val"] = target(*real[0], **real[1])
    return node


def bytes_of(tensors) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
