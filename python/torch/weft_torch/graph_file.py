"""A traced step as a graph file of Weft: a task for each operation, a tensor for each piece of memory. Views are no
tasks, so that what shares memory is ordered, however it is looked at."""

import gzip
import hashlib
import json
import os
from collections import defaultdict
from pathlib import Path

import torch
from torch.utils._pytree import tree_map

from . import _private as private
from .nodes import (
    bytes_of,
    group_of,
    is_collective,
    is_random,
    is_task,
    is_wait,
    operation,
    tensors_of,
    written_arguments,
)

ISSUE = ".issue"  # after a collective's name: the task of the thread that asks for it


class Memory:
    """Pieces of memory by number: one a storage. A collective's result is the memory of its wait, too."""

    def __init__(self):
        self.tensors = []
        self._number = {}

    def number(self, tensor, name: str, role: str = "activation") -> int:
        key = private.storage_key(tensor)
        if key not in self._number:
            self._number[key] = len(self.tensors)
            piece = {"name": f"{name}#{len(self.tensors)}", "bytes": tensor.untyped_storage().nbytes()}
            if role != "activation":
                piece |= {"role": role, "outlives_step": True}
            self.tensors.append(piece)
        return self._number[key]

    def knows(self, tensor) -> bool:
        return private.storage_key(tensor) in self._number

    def same(self, tensor, as_tensor) -> None:
        self._number.setdefault(private.storage_key(tensor), self._number[private.storage_key(as_tensor)])


def accesses(graph) -> tuple[Memory, dict]:
    """By task: the numbers of the pieces of memory that it reads, updates and makes."""
    memory, found = Memory(), {}
    random = None
    for node in graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            value = node.meta.get("val")
            if value is None and node.op == "get_attr":
                value = getattr(graph.owning_module, str(node.target), None)
            for tensor in [value] if isinstance(value, torch.Tensor) else []:
                memory.number(tensor, node.name, "parameter")
        elif is_wait(node):
            for tensor, before in zip(tensors_of(node), tensors_of(node.args[0]), strict=True):
                memory.same(tensor, before)
        elif is_task(node):
            updates = {memory.number(t, a.name) for a in written_arguments(node) for t in tensors_of(a)}
            made = [t for t in tensors_of(node) if not memory.knows(t)]
            reads = {memory.number(t, a.name) for a in node.all_input_nodes for t in tensors_of(a)} - updates
            writes = {memory.number(t, node.name) for t in made} - updates
            if is_random(node):
                # Random numbers come in the order of calls.
                if random is None:
                    random = len(memory.tensors)
                    memory.tensors.append(
                        {"name": "state of random numbers", "bytes": 0, "role": "parameter", "outlives_step": True}
                    )
                updates.add(random)
            found[node] = (sorted(reads), sorted(updates), sorted(writes))
    return memory, found


def dependencies(tasks: dict):
    """(task, the tasks that have to come before it) of what accesses() found: both touch a piece of memory, and one
    of them writes."""
    last_write, reads_since = {}, defaultdict(list)
    for node, (reads, updates, writes) in tasks.items():
        before = [last_write[piece] for piece in reads if piece in last_write]
        for piece in reads:
            reads_since[piece].append(node)
        for piece in [*updates, *writes]:
            before += [last_write[piece]] if piece in last_write else []
            before += reads_since.pop(piece, [])
            last_write[piece] = node
        yield node, [one for one in dict.fromkeys(before) if one is not node]


def fingerprint(graph) -> str:
    """Of the step without its costs: equal on ranks that run the same tasks on tensors of the same sizes."""
    text = hashlib.sha256()
    memory, tasks = accesses(graph)
    for node, touched in tasks.items():
        text.update(f"{node.name} {node.target} {touched}\n".encode())
    text.update(json.dumps(memory.tensors).encode())
    return text.hexdigest()


def groups(graph) -> dict[str, list[int]]:
    """The ranks of each process group that the step uses."""
    names = dict.fromkeys(group_of(node) for node in graph.nodes if is_collective(node))
    return {name: private.group_ranks(name) for name in names}


def file_of(graph, name: str, world: int, channels: dict[str, list[int]], costs: dict | None = None) -> dict:
    """`channels`: by process group, its ranks. `costs`: by name of a task, what costs.measured() gives; without them a
    machine's rates tell the times. With them, a collective's issue is a task of its own, named NAME.issue."""
    memory, tasks = accesses(graph)
    rows, edges = [], []
    for node, (reads, updates, writes) in tasks.items():
        row = {"name": node.name, "operation": operation(node), "reads": reads, "updates": updates, "writes": writes}
        place = {"phase": node.meta.get("weft_phase", "forward")}
        if node.meta.get("weft_layer", -1) >= 0:
            place["layer"] = node.meta["weft_layer"]
        row |= place | (_collective(node, channels) if is_collective(node) else _shape(node))
        if costs is not None:
            cost = {unit: round(value) for unit, value in costs[node.name].items()}
            row["ns"] = cost["ns"]
            if is_collective(node):
                row["cpu_ns"] = min(cost["cpu_ns"], cost["ns"])
                issue = {"name": node.name + ISSUE, "operation": "issue", "ns": cost["issue_ns"]}
                rows.append(issue | {"reads": sorted({*reads, *updates})} | place)
                edges.append({"from": len(rows) - 1, "to": len(rows)})
        rows.append(row)
    content = {
        "format": "weft-graph",
        "version": 1,
        "name": name,
        "source": f"torch {torch.__version__}",
        "world": world,
        "channels": [
            {"name": f"group {group}", "group_size": len(ranks), "groups": [ranks]} for group, ranks in channels.items()
        ],
        "classes": [{"tensors": memory.tensors, "tasks": rows, "edges": edges, "edges_from_accesses": True}],
    }
    cores = len(os.sched_getaffinity(0))
    if costs is not None and torch.get_num_threads() >= cores:
        content["contention"] = {"shared_cores": cores}  # gloo's threads take them from computations
    return content


def _collective(node, channels: dict) -> dict:
    group = group_of(node)
    number, ranks = list(channels).index(group), channels[group]
    kind = operation(node)
    whole = max(bytes_of([t for a in node.all_input_nodes for t in tensors_of(a)]), bytes_of(tensors_of(node)))
    share = (len(ranks) - 1) / len(ranks)
    sent = whole * (2 * share if kind == "all_reduce" else 1 if kind == "broadcast" else share)
    return {"kind": "collective", "channel": number, "bytes": whole, "network_bytes": int(sent)}


def _shape(node) -> dict:
    def value(one):
        return one.meta.get("val") if isinstance(one, torch.fx.Node) else one

    flops = private.flops_of(
        node.target, tree_map(value, node.args), tree_map(value, node.kwargs), node.meta.get("val")
    )
    moved = bytes_of([t for a in node.all_input_nodes for t in tensors_of(a)]) + bytes_of(tensors_of(node))
    return {"flops": int(flops), "bytes": int(moved)}


def write(content: dict, path) -> None:
    text = json.dumps(content)
    path = Path(path)
    if path.name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode(), mtime=0))
    else:
        path.write_text(text)


def counted(graph) -> dict[str, int]:
    """How many collectives of each kind the step has."""
    kinds = defaultdict(int)
    for node in graph.nodes:
        if is_collective(node):
            kinds[operation(node)] += 1
    return dict(kinds)
