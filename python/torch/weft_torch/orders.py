"""Orders of a traced step: asked from the command `weft`, checked, and made into a module that runs them."""

import json
import shutil
import subprocess
from pathlib import Path

import torch

from . import _private as private
from .graph_file import accesses
from .nodes import is_collective, is_task, is_wait


def command(weft: str | None) -> str:
    """The path of the command."""
    found = shutil.which(weft or "weft")
    if found is None:
        raise private.Unsupported(
            f"the command '{weft or 'weft'}' isn't on the PATH. Fix: build Weft (tools/quickstart), then "
            f"compile(…, weft='build/weft') or its folder on the PATH"
        )
    return found


def run(weft: str | None, *words) -> str:
    """What the command prints. Its errors are raised with their own words."""
    done = subprocess.run([command(weft), *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        told = done.stderr.strip()
        told = told[max(told.find("weft: error:"), 0) :]  # progress stands before
        raise private.Unsupported(f"weft {words[0]} ended with {done.returncode}: {told}")
    return done.stdout


def planned(weft: str | None, file: Path, policy: str, *flags) -> list[str]:
    """The tasks in the order of a policy's plan."""
    plan = file.with_suffix(".plan.json")
    run(weft, "plan", file, "--policy", policy, *flags, "-o", plan)
    return [entry["task"] for entry in json.loads(plan.read_text())["sequence"]]


def captured_order(graph) -> list[str]:
    return [node.name for node in graph.nodes if is_task(node)]


def check(graph, order: list[str]) -> None:
    """Refuses an order that isn't one of all tasks, or in which two tasks that touch the same memory, one of them
    writing, change places."""
    _, tasks = accesses(graph)
    place = {name: at for at, name in enumerate(order)}
    names = [node.name for node in tasks]
    if sorted(place) != sorted(names) or len(order) != len(names):
        raise private.Unsupported(f"an order of {len(order)} tasks for a step of {len(names)}")
    last_write, reads_since = {}, {}
    for node, (reads, updates, writes) in tasks.items():
        before = []
        for piece in reads:
            before += [last_write[piece]] if piece in last_write else []
            reads_since.setdefault(piece, []).append(node.name)
        for piece in [*updates, *writes]:
            before += [last_write[piece]] if piece in last_write else []
            before += reads_since.pop(piece, [])
            last_write[piece] = node.name
        for name in before:
            if name != node.name and place[name] > place[node.name]:
                raise private.Unsupported(f"an order with {node.name} before {name}, although both use the same memory")


def reordered(module, order: list[str]) -> torch.fx.GraphModule:
    """A copy of the module that runs its tasks in this order. Views stand before their first use; so do waits, and also
    before anything that writes what their collective still reads."""
    by_name = {node.name: node for node in module.graph.nodes}
    new, copies = torch.fx.Graph(), {}
    in_flight = {}  # by piece of memory: waits of collectives that use it

    def emit(node):
        stack = [node]
        while stack:
            top = stack[-1]
            missing = [a for a in top.all_input_nodes if a not in copies]
            if top in copies:
                stack.pop()
            elif missing:
                for one in missing:
                    if is_task(one):
                        raise private.Unsupported(f"an order with {top.name} before {one.name}, which it reads")
                stack += missing
            else:
                copies[top] = new.node_copy(top, lambda one: copies[one])
                stack.pop()

    waits = {node.args[0]: node for node in module.graph.nodes if is_wait(node)}
    memory, tasks = accesses(module.graph)
    for node in module.graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            emit(node)
    for name in order:
        node = by_name[name]
        reads, updates, writes = tasks[node]
        for piece in [*updates, *writes]:
            for wait in in_flight.pop(piece, []):
                emit(wait)
        emit(node)
        if is_collective(node) and node in waits:
            for piece in {*reads, *updates, *writes}:
                in_flight.setdefault(piece, []).append(waits[node])
    emit(next(node for node in module.graph.nodes if node.op == "output"))
    for wait in waits.values():
        if wait not in copies and wait.args[0] in copies:
            with new.inserting_before(next(node for node in new.nodes if node.op == "output")):
                copies[wait] = new.node_copy(wait, lambda one: copies[one])
    new.lint()
    return torch.fx.GraphModule(module, new)
