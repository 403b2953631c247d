"""Orders of a traced step: asked from the command `weft`, checked, and made into a module that runs them."""

import json
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import torch

from . import _private as private
from .graph_file import ISSUE, accesses, dependencies
from .nodes import is_collective, is_task, is_wait, waited


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


def planned(weft: str | None, file: Path, policy: str, *flags) -> tuple[list[str], float]:
    """The tasks in the order of a policy's plan, a collective where it is issued; and the simulated seconds."""
    plan = file.with_suffix(".plan.json")
    run(weft, "plan", file, "--policy", policy, *flags, "-o", plan)
    told = json.loads(run(weft, "simulate", file, "--policy", f"file:{plan}", *flags, "--json"))
    order = [entry["task"] for entry in json.loads(plan.read_text())["sequence"]]
    issued = {name.removesuffix(ISSUE) for name in order if name.endswith(ISSUE)}
    return [name.removesuffix(ISSUE) for name in order if name not in issued], told["step_seconds"]


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
    for node, before in dependencies(tasks):
        for one in before:
            if place[one.name] > place[node.name]:
                raise private.Unsupported(
                    f"an order with {node.name} before {one.name}, although both use the same memory"
                )


def reordered(module, order: list[str]) -> torch.fx.GraphModule:
    """A copy of the module that runs its tasks in this order. Views stand before their first use; so do waits, and also
    before anything that writes what their collective still reads."""
    by_name = {node.name: node for node in module.graph.nodes}
    new, copies = torch.fx.Graph(), {}
    in_flight = defaultdict(list)  # by piece of memory: waits of collectives that use it

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

    waits = defaultdict(list)  # by collective
    for node in module.graph.nodes:
        if is_wait(node):
            waits[waited(node)].append(node)
    _, tasks = accesses(module.graph)
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
        if is_collective(node):
            for piece in {*reads, *updates, *writes}:
                in_flight[piece] += waits[node]
    for wait in [wait for some in waits.values() for wait in some]:
        emit(wait)
    emit(next(node for node in module.graph.nodes if node.op == "output"))
    new.lint()
    return torch.fx.GraphModule(module, new)
