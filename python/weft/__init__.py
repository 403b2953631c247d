"""Weft in Python: read or build a training step, order it by a policy, and see how good the order is.

>>> import weft
>>> step = weft.step(model="gpt2-124m", grid="z=4", machine="dgx-h100")
>>> weft.compare(step, ["program", "lhs", mine])          # a DataFrame, one row a policy
>>> report = step.plan("lhs")
>>> report.exposed()                                      # exposed collectives with their causes

A policy is a function that gets a :class:`Problem` and returns a sequence of tasks, or an :class:`Order`. What Weft
refuses raises :class:`Refused`, whose message says what was found, what was expected, and how to fix it.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Mapping, Optional, Sequence, Union

from . import _core
from ._core import Fault, Refused, __version__
from .problem import NONE, Order, Problem, Simulation, Table

__all__ = [
    "Fault",
    "GraphBuilder",
    "NONE",
    "OpenGraph",
    "Order",
    "Problem",
    "Refused",
    "Report",
    "Simulation",
    "Step",
    "Table",
    "__version__",
    "compare",
    "fix_of",
    "import_trace",
    "policy_names",
    "read_graph",
    "step",
]

#: A built-in policy's name with parameters ("fsdp:forward-depth=2"), "mine.py:Mine", a function of a Problem, or an
#: object with a method order(problem) and maybe rewrites(problem).
Policy = Union[str, Callable[[Problem], Union[Order, Sequence[int]]], Any]


def fix_of(error: Refused) -> str:
    """The part of a refusal that says what to change; "" if it has none."""
    return str(error).partition("\n  fix: ")[2]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(_text(each) for each in value)
    return str(value)


def _keys(keys: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(key.replace("_", "-"), _text(value)) for key, value in keys.items() if value is not None]


class OpenGraph:
    """A step as data, of one or several classes of ranks: from a file, a trace or a GraphBuilder.

    name, source: of the model or file, and who made it. notes: what was guessed or is absent, a sentence each.
    world: ranks of the run. classes: names of the classes of ranks.
    """

    def __init__(self, core: _core.OpenGraph):
        self._core = core

    name = property(lambda self: self._core.name)
    source = property(lambda self: self._core.source)
    notes = property(lambda self: list(self._core.notes))
    world = property(lambda self: self._core.world)
    classes = property(lambda self: self._core.classes())

    def __repr__(self) -> str:
        return f"<OpenGraph {self.name!r} from {self.source}, {len(self.classes)} of {self.world} ranks' classes>"

    def write(self, path: str) -> None:
        """Writes NAME.graph.json or NAME.graph.json.gz, which every command of Weft takes."""
        self._core.write(str(path))

    def step(
        self,
        *,
        class_name: str = "",
        keep_order: str = "",
        bandwidth: Union[float, Mapping[str, float], None] = None,
        **keys: Any,
    ) -> "Step":
        """The step of one class, to be planned.

        class_name: by name, or a rank in it; default: the first. keep_order: the recorded order that holds under every
        policy: "known" (default), "all", "computations" or "none". bandwidth: how many times as fast the network is, of all
        channels or by channel. keys: machine, policy, memory, streams, seed, dtype. Raises Refused.
        """
        return Step(_core.Step.of_open_graph(self._core, str(class_name), keep_order, _factors(bandwidth), _keys(keys)))


def _factors(bandwidth: Union[float, Mapping[str, float], None]) -> list[str]:
    if isinstance(bandwidth, Mapping):
        return [f"{channel}={factor}" for channel, factor in bandwidth.items()]
    return [] if bandwidth is None else [str(bandwidth)]


def read_graph(path: str) -> OpenGraph:
    """An open graph from NAME.graph.json or NAME.graph.json.gz. Raises Refused with line and byte."""
    return OpenGraph(_core.read_graph(str(path)))


def import_trace(files: Union[str, Iterable[str]], *, step: Optional[int] = None, whole: bool = False) -> OpenGraph:
    """A recorded step of somebody's run, as `weft trace import`: Kineto, Chakra or Nsight Systems, a file a rank.

    step: its number; default: the last complete one. whole: everything that was recorded, as one step.
    """
    paths = [files] if isinstance(files, str) or not isinstance(files, Iterable) else list(files)
    return OpenGraph(_core.import_traces([str(path) for path in paths], step, whole))


class GraphBuilder:
    """Builds a step of one rank, task by task. Names take the place of indices.

    >>> builder = weft.GraphBuilder("two layers")
    >>> builder.channel("data", ranks=8)
    >>> builder.task("backward", cost_ns=4000)
    >>> builder.task("reduce", cost_ns=3000, channel="data", after=["backward"])
    >>> step = builder.build().step()
    """

    def __init__(self, name: str):
        self._core = _core.GraphBuilder(name)

    def channel(self, name: str, *, ranks: int, link: str = "") -> "GraphBuilder":
        """Process groups of so many ranks, whose tasks run one at a time. Channels with equal links share a link."""
        self._core.add_channel(name, ranks, link)
        return self

    def tensor(self, name: str, *, bytes: int, outlives_step: bool = False) -> "GraphBuilder":
        """Memory that tasks read and write: edges between them and peaks of memory follow."""
        self._core.add_tensor(name, bytes, outlives_step)
        return self

    def task(
        self,
        name: str,
        *,
        cost_ns: float,
        channel: Optional[str] = None,
        kind: str = "",
        operation: str = "",
        after: Sequence[str] = (),
        reads: Sequence[str] = (),
        writes: Sequence[str] = (),
        layer: int = -1,
        micro_batch: int = -1,
        phase: str = "",
    ) -> "GraphBuilder":
        """One task, which takes `cost_ns` alone. With a channel it is a collective unless `kind` says "send" or
        "receive". `after`: tasks before it; more follow from what it reads and writes. `operation` names its kind in
        drawings and for scaled(). Raises Refused on names that aren't there."""
        kind = kind or ("compute" if channel is None else "collective")
        places = (list(after), list(reads), list(writes), layer, micro_batch, phase)
        self._core.add_task(_core.GraphTask(name, kind, operation, float(cost_ns), channel, *places))
        return self

    def build(self) -> OpenGraph:
        """The graph, checked."""
        return OpenGraph(self._core.built())


class Step:
    """One training step of a rank: its graph with costs, machine and memory limit. Made by step() and OpenGraph.step()."""

    def __init__(self, core: _core.Step):
        self._core = core
        self._problem: Optional[Problem] = None

    title = property(lambda self: self._core.title, doc="what it is a step of")
    default_policy = property(lambda self: self._core.default_policy, doc="the policy that commands take if none is named")

    def __repr__(self) -> str:
        return f"<Step of {self.title}: {len(self.problem)} tasks>"

    @property
    def problem(self) -> Problem:
        """The step as policies see it: arrays, and functions that simulate any order of it."""
        if self._problem is None:
            self._problem = self._core.problem()
        return self._problem

    @property
    def tasks(self) -> Table:
        return self.problem.tasks

    @property
    def edges(self) -> Table:
        return self.problem.edges

    @property
    def tensors(self) -> Table:
        return self.problem.tensors

    def plan(self, policy: Optional[Policy] = None) -> "Report":
        """Orders, plans, checks and simulates the step. Raises Refused if there is no such plan."""
        return Report(_core.Report(self._core, self.default_policy if policy is None else policy))

    def bounds(self) -> dict[str, float]:
        """Lower bounds in nanoseconds on every order of this graph: critical_path_ns, work_ns, …,
        windows_ns (of graphs of up to 20,000 tasks), and best_ns."""
        return self._core.bounds()

    def scaled(self, factors: Mapping[str, float]) -> "Step":
        """The times of tasks multiplied by factors: {"gemm*": 0.8}, by operation or name."""
        return Step(self._core.scaled(list(factors.items())))

    def with_memory(self, bytes: int) -> "Step":
        """The same step where a rank has so many bytes for state and scratch; 0: no limit."""
        return Step(self._core.with_memory(bytes))

    def write_graph(self, path: str) -> None:
        """Writes NAME.graph.json: tasks with their costs, edges and lifetimes of memory."""
        self._core.write_graph(str(path))


class Report:
    """One policy's step: simulated times, exposed communication, memory."""

    def __init__(self, core: _core.Report):
        self._core = core
        self._summary = core.summary()

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_summary"][name]
        except KeyError:
            raise AttributeError(f"no {name!r}; a report has {', '.join(self._summary)}") from None

    def __repr__(self) -> str:
        return f"<Report of {self.policy}: {self.step_ns / 1e6:.3f} ms, {100 * self.gap:.1f} % above its bound>"

    @property
    def summary(self) -> dict[str, Any]:
        """policy, step_ns, gap (above the bound of its own graph), bound_ns, exposed_ns, communication_ns, compute_ns,
        overlap, memory_bytes, scratch_bytes, planning_ms, rewrites."""
        return dict(self._summary)

    def check(self) -> list[str]:
        """What the plan's proof finds wrong; empty for every plan that Weft makes."""
        return self._core.violations()

    def timeline(self):
        """DataFrame: task, kind, stream, begin_ns, end_ns, and the policy's reason for the place."""
        import pandas

        return pandas.DataFrame(self._core.timeline()).sort_values("begin_ns", ignore_index=True)

    def exposed(self, least_ns: float = 1000):
        """DataFrame: exposed collectives by falling exposed time, with cause and the tasks that it is about."""
        import pandas

        columns = ["task", "exposed_ns", "duration_ns", "cause", "because", "of_class"]
        return pandas.DataFrame(self._core.exposed(least_ns), columns=columns)

    def remedies(self, least_ns: float = 1000):
        """DataFrame: changes of the order or the graph, each simulated, with the time that it gains."""
        import pandas

        columns = ["of", "kind", "what", "gain_ns", "memory_bytes", "fits"]
        return pandas.DataFrame(self._core.remedies(least_ns), columns=columns)

    def write_plan(self, path: str) -> None:
        """Writes the plan file that `weft train --policy file:PATH` replays."""
        self._core.write_plan(str(path))

    def svg(self) -> str:
        """The timeline as a picture."""
        return self._core.svg()

    def _repr_svg_(self) -> str:
        return self.svg()


def step(config: Optional[str] = None, **keys: Any) -> Step:
    """The training step of a configuration file and of keys, which take precedence: step("run.toml", policy="lhs"), or
    of a graph file: step("x.graph.json", machine="dgx-h100").

    Keys are those of `weft train --help` with underscores: model="gpt2-124m", global_batch=32, grid="x=2,z=4",
    machine="dgx-h100", memory="40GB". Raises Refused on whatever the command would refuse.
    """
    file = "" if config is None else str(config)
    if file.endswith((".graph.json", ".graph.json.gz")):
        return read_graph(file).step(**keys)
    return Step(_core.Step.of_config(file, _keys(keys)))


def policy_names() -> list[str]:
    """The built-in policies of one graph."""
    return _core.policy_names()


def compare(step: Step, policies: Optional[Iterable[Policy]] = None):
    """DataFrame of Report.summary, a row a policy, by step time, with the gap to the bound of the step's own graph as
    gap_to_step. Policies that have no plan have their refusal in the column `refused`."""
    import pandas

    bound = step.bounds()["best_ns"]
    rows = []
    for policy in policy_names() if policies is None else policies:
        try:
            row = step.plan(policy).summary
            row["gap_to_step"] = row["step_ns"] / bound - 1
        except Refused as refusal:
            name = policy if isinstance(policy, str) else getattr(policy, "__name__", type(policy).__name__)
            row = {"policy": name, "refused": str(refusal)}
        rows.append(row)
    frame = pandas.DataFrame(rows)
    return frame.sort_values("step_ns", ignore_index=True) if "step_ns" in frame else frame
