"""Buckets: collectives of a traced step that are joined into larger ones, since each message has a cost of its own. Parts
are written straight into the memory that is sent, so that a bucket costs no copy more than a collective alone does."""

import heapq
import math
import operator
from collections import defaultdict
from dataclasses import dataclass

import torch

from .graph_file import accesses, dependencies
from .nodes import added, bytes_of, group_of, is_collective, is_wait, operation, tensors_of, written_arguments
from .orders import reordered

_aten, _functional = torch.ops.aten, torch.ops._c10d_functional


@dataclass
class _Member:
    """A collective that may be joined with others of an equal `key`."""

    node: torch.fx.Node
    result: torch.fx.Node  # what the step goes on with
    key: tuple


def joined(module: torch.fx.GraphModule, megabytes: float) -> torch.fx.GraphModule:
    """A copy of the module in which collectives of one kind, group, type and reduction that don't need each other are
    joined, as the captured order has them, while they have no more than so many MB together. The module itself if there
    are none."""
    graph = module.graph
    memory, tasks = accesses(graph)
    before = dict(dependencies(tasks))
    groups = _groups(graph, before, megabytes * 1e6)
    order = None
    while order is None:
        order, groups = _order(before, groups)
    if not groups:
        return module
    made = reordered(module, order)
    by_name = {node.name: node for node in made.graph.nodes}
    changed = {piece for _, updates, _ in tasks.values() for piece in updates}
    for group in groups:
        members = [member_of(by_name[node.name]) for node in group]
        for member in members:
            _send_the_original(member, lambda tensor: memory.number(tensor, "") in changed)
        _join(made.graph, members)
    made.graph.eliminate_dead_code()
    made.graph.lint()
    made.recompile()
    return made


def member_of(node) -> _Member | None:
    """None of what can't be joined: results of several waits, and exchanges of parts that aren't summed."""
    waits = [user for user in node.users if is_wait(user)]
    if len(node.users) != 1 or len(waits) != 1 or operation(node) not in _JOINS or written_arguments(node):
        return None
    kind, result, (sent,) = operation(node), waits[0], tensors_of(node.args[0])
    if kind == "all_to_all":
        parts = node.args[2]
        (view,) = result.users if len(result.users) == 1 else (result,)
        (total,) = view.users if len(view.users) == 1 else (result,)
        sums = view.target is _aten.view.default and total.target is _aten.sum.dim_IntList and total.args[1] == [0]
        if not sums or len(set(parts)) != 1 or tensors_of(view)[0].shape[0] != len(parts):
            return None
        result = total
    how = node.args[1] if kind == "all_reduce" else None
    return _Member(node, result, (kind, group_of(node), sent.dtype, how))


def _groups(graph, before: dict, most: float) -> list[list]:
    """Collectives to join. None is in a group with one that it needs."""
    at = {node: place for place, node in enumerate(before)}
    needs = {}  # by task: all that comes before it, as bits
    open_groups, groups = {}, []
    for node, some in before.items():
        needs[node] = 1 << at[node]
        for one in some:
            needs[node] |= needs[one]
        member = member_of(node) if is_collective(node) else None
        if member is None:
            continue
        size = _bytes(node)
        group = open_groups.get(member.key)
        fits = group and sum(map(_bytes, group)) + size <= most
        if not fits or any(needs[node] >> at[one] & 1 for one in group):
            group = open_groups[member.key] = []
            groups.append(group)
        group.append(node)
    return [group for group in groups if len(group) > 1]


def _bytes(node) -> int:
    return max(bytes_of(tensors_of(node)), bytes_of(tensors_of(node.args[0])))


def _order(before: dict, groups: list[list]):
    """(names of all tasks, each group's without others between them, groups); or None and the groups without those
    that would wait for each other."""
    lead = {node: group[0] for group in groups for node in group}
    at = {node: place for place, node in enumerate(before)}
    members, after, missing = defaultdict(list), defaultdict(list), defaultdict(int)
    for node, some in before.items():
        mine = lead.get(node, node)
        members[mine].append(node)
        for one in {lead.get(one, one) for one in some} - {mine}:
            after[one].append(mine)
            missing[mine] += 1
    ready = [(at[node], node) for node in members if not missing[node]]
    heapq.heapify(ready)
    order = []
    while ready:
        node = heapq.heappop(ready)[1]
        order += [member.name for member in members[node]]
        for one in after[node]:
            missing[one] -= 1
            if not missing[one]:
                heapq.heappush(ready, (at[one], one))
    if len(order) == len(before):
        return order, groups
    done = set(order)
    return None, [group for group in groups if group[0].name in done]


def _join(graph, members: list[_Member]) -> None:
    last = members[-1].node
    waits = {user for member in members for user in member.node.users}
    before_use = next(node for node in graph.nodes if node in waits or node in {m.result for m in members})
    results = _JOINS[members[0].key[0]](graph, members, last, before_use)
    for member, result in zip(members, results, strict=True):
        member.result.replace_all_uses_with(result)
    for member in members:
        for node in [*reversed(_chain(member)), member.node]:
            graph.erase_node(node)


def _chain(member: _Member) -> list:
    """What stands between a collective and its result, and the result."""
    chain = [member.result]
    while chain[0].args[0] is not member.node:
        chain.insert(0, chain[0].args[0])
    return chain


def _send_the_original(member: _Member, is_changed) -> None:
    """In place of a copy that is made for the collective alone: parts of a bucket may lie in memory as they like."""
    sent = member.node.args[0]
    alone = sent.target is _aten.clone.default and len(sent.users) == 1
    if alone and member.key[0] != "all_gather" and not is_changed(tensors_of(sent.args[0])[0]):
        member.node.update_arg(0, sent.args[0])


def _gathered(graph, members, last, before_use):
    first = members[0].node
    with graph.inserting_after(last):
        sources = [member.node.args[0] for member in members]
        together = added(graph, first, _functional.all_gather_into_tensor_coalesced.default, sources, *first.args[1:])
    results = []
    with graph.inserting_before(before_use):
        for place, _ in enumerate(members):
            part = graph.call_function(operator.getitem, (together, place))
            part.meta = {**together.meta, "val": together.meta["val"][place]}
            results.append(added(graph, part, _functional.wait_tensor.default, part))
    return results


def _packed(graph, members, last, rows: list[int]):
    """Memory of shape [*rows, all numbers of a row], into which a copy each writes what the members send."""

    def width(member):
        return tensors_of(member.node.args[0])[0].numel() // math.prod(rows)

    first, like = members[0].node, tensors_of(members[0].node)[0]
    shape, kind = [*rows, sum(map(width, members))], {"dtype": like.dtype, "device": like.device}
    with graph.inserting_before(first):
        packed = added(graph, first, _aten.empty.memory_format, shape, **kind)
    start = 0
    for member in members:
        source = member.node.args[0]
        shape = list(tensors_of(source)[0].shape)
        if rows:
            shape = [*rows, shape[0] // rows[0], *shape[1:]]
        with graph.inserting_before(last):
            place = added(graph, member.node, _aten.slice.Tensor, packed, -1, start, start + width(member))
            place = added(graph, member.node, _aten.view.default, place, shape)
            part = added(graph, member.node, _aten.view.default, source, shape) if rows else source
            added(graph, member.node, _aten.copy_.default, place, part)
        start += width(member)
    return packed


def _unpacked(graph, members, whole) -> list:
    """Parts of a tensor of one dimension, in the shapes of the members' results."""
    parts, start = [], 0
    for member in members:
        shape = tensors_of(member.result)[0].shape
        part = added(graph, member.result, _aten.slice.Tensor, whole, 0, start, start + shape.numel())
        parts.append(added(graph, member.result, _aten.view.default, part, list(shape)))
        start += shape.numel()
    return parts


def _reduced(graph, members, last, before_use):
    packed = _packed(graph, members, last, [])
    with graph.inserting_before(last):
        sent = added(graph, last, _functional.all_reduce_.default, packed, *last.args[1:])
    with graph.inserting_before(before_use):
        return _unpacked(graph, members, added(graph, last, _functional.wait_tensor.default, sent))


def _exchanged(graph, members, last, before_use):
    parts, group = [1] * len(last.args[2]), last.args[3]
    packed = _packed(graph, members, last, [len(parts)])
    with graph.inserting_before(last):
        sent = added(graph, last, _functional.all_to_all_single.default, packed, parts, parts, group)
    with graph.inserting_before(before_use):
        come = added(graph, last, _functional.wait_tensor.default, sent)
        return _unpacked(graph, members, added(graph, last, _aten.sum.dim_IntList, come, [0]))


_JOINS = {
    "all_gather": _gathered,
    "all_reduce": _reduced,
    "all_to_all": _exchanged,
}


def outcome(module: torch.fx.GraphModule, inputs: list) -> list:
    """What the module gives, and its inputs as it leaves them. It works on copies: nothing is trained."""
    copies = [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in inputs]
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        return [leaf for leaf in [*module(*copies), *copies] if isinstance(leaf, torch.Tensor)]


def same_bits(one: list, other: list) -> bool:
    """Whether two outcomes are equal, bit for bit."""

    def bits(tensor):
        return tensor.reshape(-1).view(torch.uint8)

    return all(torch.equal(bits(a), bits(b)) for a, b in zip(one, other, strict=True))
