"""A policy's problem: one step's graphs as NumPy arrays, and functions of Weft that judge an order of it.

The command and the module both hand policies this class. The file needs nothing but NumPy, since the command runs it
where the module may not be installed.
"""

from __future__ import annotations

from typing import Any, Iterable, NamedTuple, Optional, Sequence, Union

import numpy as np

NONE = 0xFFFFFFFF  # no task, no class


class Table:
    """Rows as columns: ``problem.tasks.cost_ns`` is an array with a value for each task."""

    def __init__(self, columns: dict[str, np.ndarray]):
        self._columns = columns

    def __getattr__(self, name: str) -> np.ndarray:
        try:
            return self.__dict__["_columns"][name]
        except KeyError:
            raise AttributeError(f"no column {name!r}; columns are {', '.join(self.columns)}") from None

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), ()))

    def __repr__(self) -> str:
        return f"<{len(self)} rows of {', '.join(self.columns)}>"

    @property
    def columns(self) -> list[str]:
        return list(self._columns)

    def frame(self):
        """The table as a pandas DataFrame."""
        import pandas

        return pandas.DataFrame(self._columns)


class Order(NamedTuple):
    """An order of a graph's tasks.

    sequence: every task's index once, each after the tasks that have an edge to it.
    streams:  by position in the sequence, the stream that runs the task. None: computations use the first compute
              stream, a task that communicates the stream of its channel.
    reasons:  by position, why the task stands there; ``weft plan --reasons`` prints it. None: no reasons.
    edges:    edges of the policy's own, (from, to) or (from, to, issued_before, distance).
    """

    sequence: Sequence[int]
    streams: Optional[Sequence[int]] = None
    reasons: Optional[Sequence[str]] = None
    edges: Iterable[tuple] = ()


class Simulation(NamedTuple):
    """A simulated step. Times are nanoseconds; begin_ns and end_ns are by task, and None unless they were asked for."""

    step_ns: float
    begin_ns: Optional[np.ndarray] = None
    end_ns: Optional[np.ndarray] = None
    scratch_bytes: Optional[int] = None


class Problem:
    """What a policy has to order.

    tasks, accesses, tensors, edges, streams, channels, links, slowdowns: tables. The order of the tasks' indices is a
    valid sequence. Names of columns are those of the C interface (policy_abi.h); an edge has ``source`` and ``target``.
    A pipeline's tables have the rows of all its stages in turn: ``tasks.of_class`` and ``streams.of_class`` tell the
    stage, ``tasks.peer_task`` the other end of a message, and tasks with an equal ``tasks.meeting`` (but NONE) start at
    the same moment. One sequence orders them all.
    memory_limit: bytes of scratch that the plan may take; 0: no limit. Of a pipeline, the least of its stages' limits.
    seed: for policies that draw random numbers. Equal problems must get equal orders.
    """

    def __init__(self, tables: dict[str, dict[str, np.ndarray]], memory_limit: int, shared_cores: float, seed: int, host):
        self.tasks = Table(tables["tasks"])
        self.accesses = Table(tables["accesses"])
        self.tensors = Table(tables["tensors"])
        self.edges = Table(tables["edges"])
        self.streams = Table(tables["streams"])
        self.channels = Table(tables["channels"])
        self.links = Table(tables["links"])
        self.slowdowns = Table(tables["slowdowns"])
        self.memory_limit = memory_limit
        self.shared_cores = shared_cores
        self.seed = seed
        self._host = host
        pairs = list(zip(self.streams.of_class, self.streams.channel))
        first_stream = {pair: i for i, pair in reversed(list(enumerate(pairs)))}
        on = zip(self.tasks.of_class, self.tasks.channel)
        self._stream_of_task = np.array([first_stream[pair] for pair in on], dtype=np.uint32)
        self._neighbours: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def __len__(self) -> int:
        return len(self.tasks)

    def __repr__(self) -> str:
        return f"<Problem of {len(self.tasks)} tasks, {len(self.edges)} edges and {len(self.streams)} streams>"

    # -- the graph ---------------------------------------------------------------------------------------------

    def successors(self, task: int) -> np.ndarray:
        """The tasks that an edge within the step leads to."""
        return self._neighbours_of("source", "target", task)

    def predecessors(self, task: int) -> np.ndarray:
        """The tasks from which an edge within the step leads to this one."""
        return self._neighbours_of("target", "source", task)

    def _neighbours_of(self, by: str, other: str, task: int) -> np.ndarray:
        if by not in self._neighbours:
            inside = self.edges.distance == 0
            keys, values = getattr(self.edges, by)[inside], getattr(self.edges, other)[inside]
            order = np.argsort(keys, kind="stable")
            begins = np.searchsorted(keys[order], np.arange(len(self) + 1))
            self._neighbours[by] = (begins, values[order])
        begins, values = self._neighbours[by]
        return values[begins[task] : begins[task + 1]]

    def communicates(self) -> np.ndarray:
        """By task: whether it is a collective or a message."""
        return self.tasks.channel >= 0

    def upward_rank(self) -> np.ndarray:
        """By task: nanoseconds from its begin to the step's end if no task waits for a stream."""
        cost = self.tasks.cost_ns.astype(float)
        together = self._meetings()
        rank = cost.copy()
        while True:  # once for one class; else as often as a way changes between classes
            before = rank.copy()
            for task in range(len(self) - 1, -1, -1):  # edges lead to greater indices
                after = self.successors(task)
                if len(after):
                    rank[task] = max(rank[task], cost[task] + rank[after].max())
            for members in together:
                rank[members] = rank[members].max()
            if not together or (rank == before).all():
                return rank

    def _meetings(self) -> list[np.ndarray]:
        """Tasks that start together, as lists of their indices."""
        joined = np.flatnonzero(self.tasks.meeting != NONE)
        order = joined[np.argsort(self.tasks.meeting[joined], kind="stable")]
        changes = np.flatnonzero(np.diff(self.tasks.meeting[order])) + 1
        return [members for members in np.split(order, changes) if len(members) > 1]

    # -- Weft's judgement --------------------------------------------------------------------------------------

    def order(self, sequence: Union[Order, Sequence[int]]) -> Order:
        """The order with arrays of its sequence and streams. Raises ValueError if their lengths are wrong."""
        order = sequence if isinstance(sequence, Order) else Order(sequence)
        tasks = self._indices("sequence", order.sequence)
        if order.streams is None:
            known = np.minimum(tasks, len(self) - 1)  # Weft names what isn't a task
            return order._replace(sequence=tasks, streams=self._stream_of_task[known])
        return order._replace(sequence=tasks, streams=self._indices("streams", order.streams))

    def _indices(self, name: str, values: Sequence[int]) -> np.ndarray:
        array = np.asarray(values)
        if array.shape != (len(self),):
            raise ValueError(f"{name} has shape {array.shape}; expected ({len(self)},), one entry for each task")
        if array.dtype.kind not in "iu":
            raise ValueError(f"{name} has elements of type {array.dtype}; expected integers")
        if array.dtype.kind == "i" and len(array) and array.min() < 0:
            raise ValueError(f"{name} has the negative entry {array.min()}; expected indices")
        return array.astype(np.uint32)

    def simulate(self, order: Union[Order, Sequence[int]], *, times: bool = False, memory: bool = False) -> Simulation:
        """The step that an order gives, with the problem's costs and contention.

        times: begins and ends by task too. memory: scratch bytes of the plan too, which takes most of the time.
        Of a pipeline, scratch is that of the stage that takes most. Raises ValueError if it is no order of the step.
        """
        full = self.order(order)
        edges = [(*edge, 0, 0)[:4] if len(edge) == 2 else edge for edge in full.edges]
        return Simulation(*self._host.simulate(full.sequence, full.streams, edges, times, memory))

    def list_schedule(self, priorities: Sequence[float]) -> Order:
        """Weft's list scheduler: whenever a stream is idle, it starts the ready task with the largest priority, within
        the memory limit. One priority for each task."""
        array = np.ascontiguousarray(priorities, dtype=float)
        if array.shape != (len(self),):
            raise ValueError(f"priorities have shape {array.shape}; expected ({len(self)},), one for each task")
        sequence, streams = self._host.schedule(array)
        return Order(sequence, streams)
