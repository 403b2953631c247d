"""A captured step, to look at: a graph file, and what the command `weft` says of it."""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import torch

from . import graph_file, orders

POLICIES = ("serial", "program", "inductor", "lhs", "portfolio")  # that compare() shows


@dataclass
class StepGraph:
    """`costs`: by name of a task, as measured; None: the rates of a machine, which `flags` name."""

    module: torch.fx.GraphModule
    name: str
    world: int
    groups: dict[str, list[int]]  # by process group: its ranks
    policy: str = "portfolio"
    costs: dict | None = None
    weft: str | None = None
    flags: tuple[str, ...] = ()
    _folder: tempfile.TemporaryDirectory = field(
        default_factory=lambda: tempfile.TemporaryDirectory(prefix="weft-torch-"), repr=False
    )

    def write_graph(self, path) -> str:
        """Writes a graph file (NAME.graph.json or NAME.graph.json.gz) for every command of Weft."""
        graph_file.write(graph_file.file_of(self.module.graph, self.name, self.world, self.groups, self.costs), path)
        return str(path)

    def explain(self, policy: str | None = None, *flags) -> str:
        """What the step is bound by, and what would help, under a policy (default: the step's own)."""
        return self.run("explain", "--policy", policy or self.policy, *flags)

    def compare(self, policies=POLICIES, *flags) -> str:
        """A table of simulated steps, one for each policy, with the bound that no order beats."""
        return self.run("compare", *flags, "--policies", *policies)

    def run(self, command: str, *flags) -> str:
        """`weft COMMAND` of the graph file, with these flags; what it prints."""
        file = Path(self._folder.name) / "step.graph.json"
        if not file.exists():
            self.write_graph(file)
        return orders.run(self.weft, command, file, *self.flags, *flags)

    def planned(self, policy: str | None = None, *flags) -> tuple[list[str], float]:
        """The names of all tasks in a policy's order, and its simulated seconds."""
        file = Path(self._folder.name) / "plan.graph.json"
        self.write_graph(file)
        return orders.planned(self.weft, file, policy or self.policy, *self.flags, *flags)

    def collectives(self) -> dict[str, int]:
        """How many of each kind the step has."""
        return graph_file.counted(self.module.graph)
