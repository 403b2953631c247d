"""Reduce-scatters over gloo, written as exchanges: gloo sends all of a tensor in them, where half and less would do."""

import torch

from . import _private as private
from .nodes import added, group_of, is_wait, operation


def exchange_sums(graph: torch.fx.Graph) -> None:
    """Each rank sends the others their parts and sums what comes: (n-1)/n of the tensor instead of all of it."""
    for node in list(graph.nodes):
        if operation(node) != "reduce_scatter" or node.args[1] != "sum" or private.backend_of(group_of(node)) != "gloo":
            continue
        (wait,) = node.users
        if is_wait(wait):
            _exchange(graph, node, wait)


def _exchange(graph, node, wait) -> None:
    whole, _, ranks, group = node.args
    shape = list(wait.meta["val"].shape)
    parts = [shape[0]] * ranks
    functional, aten = torch.ops._c10d_functional, torch.ops.aten

    def add(target, *args):
        return added(graph, node, target, *args)

    with graph.inserting_before(node):
        sent = add(functional.all_to_all_single.default, whole, parts, parts, group)
    with graph.inserting_before(wait):
        come = add(functional.wait_tensor.default, sent)
        total = add(aten.sum.dim_IntList, add(aten.view.default, come, [ranks, *shape]), [0])
    wait.replace_all_uses_with(total)
    graph.erase_node(wait)
    graph.erase_node(node)
