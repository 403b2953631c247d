"""A training step of PyTorch that Weft captures, orders and explains."""

import statistics
import time

import torch
import torch.distributed as dist
from torch.utils._pytree import tree_flatten, tree_map

from . import _private as private
from . import costs, graph_file, orders
from .parallel import WAYS, equal_start, local, refuse_wrappers, shard
from .step_graph import POLICIES, StepGraph
from .trace import TracedStep, Way, add_update, loss_and_gradients, trace
from .update_trace import Numbers, fakes_of, parameters_of, state_tensors, watch

_TRIAL_STEPS = 3  # of each order, before the shorter one is kept


class _Captured:
    """A step for one shape of inputs: the captured order, and those of policies beside it."""

    def __init__(self, traced: TracedStep, numbers: Numbers):
        self.traced, self.numbers = traced, numbers
        self.costs = None
        self.modules = {"captured": traced.module}
        self.times = {"captured": []}
        self.chosen = "captured"


class Step:
    """`loss = step(batch)` trains for one step. All ranks call it together.

    The first call runs the step as it is, so that the optimizer makes its state. The second one captures it, measures
    its tasks, has `weft` order them, and compares the ranks' graphs. The next ones take turns between the captured
    order and the policies', three steps each; from then on the shortest runs. All train alike, to the bit.
    """

    def __init__(self, model, optimizer, way: Way, policies: tuple[str, ...], weft: str | None, name: str):
        self.model, self.optimizer, self.way = model, optimizer, way
        self.policies, self.weft, self.name = policies, weft, name
        self._captured: dict = {}
        self._last: _Captured | None = None
        self._started = False  # the optimizer has made its state

    def __call__(self, batch) -> torch.Tensor:
        if not self._started:
            return self._as_it_is(batch)
        key = self._key(batch)
        captured = self._captured.get(key)
        numbers = captured.numbers.next() if captured else None
        if numbers is None:
            captured, numbers = self._capture(batch)
            self._captured[key] = captured
        self._last = captured
        order = self._order_of_this_step(captured)
        module = captured.modules[order]
        inputs = self._inputs(captured.traced, batch, numbers)
        begin = time.perf_counter()
        with torch.no_grad():
            loss = module(*inputs)[0]
        self._learn(captured, order, time.perf_counter() - begin)
        return loss

    def graph(self) -> StepGraph:
        """The captured step, with measured costs."""
        captured = self._current()
        return self._graph_of(captured)

    def write_graph(self, path) -> str:
        """See StepGraph."""
        return self.graph().write_graph(path)

    def explain(self, policy: str | None = None, *flags) -> str:
        """See StepGraph."""
        return self.graph().explain(policy, *flags)

    def compare(self, policies=POLICIES, *flags) -> str:
        """See StepGraph."""
        return self.graph().compare(policies, *flags)

    def collectives(self) -> dict[str, int]:
        """See StepGraph."""
        return self.graph().collectives()

    def order(self) -> str:
        """The policy whose order runs, or "captured"."""
        return self._current().chosen

    def times(self) -> dict[str, float]:
        """Median seconds of a step in each order, as far as they ran; the slowest rank's."""
        return {order: statistics.median(times) for order, times in self._current().times.items() if times}

    def _current(self) -> _Captured:
        if self._last is None:
            raise private.Unsupported("the step hasn't been captured. Fix: call step(batch) twice, or capture()")
        return self._last

    def _graph_of(self, captured: _Captured) -> StepGraph:
        policy = self.policies[0] if self.policies else "program"
        module = captured.traced.module
        groups = graph_file.groups(module.graph)
        return StepGraph(module, self.name, _world(), groups, policy, captured.costs, self.weft)

    def _as_it_is(self, batch) -> torch.Tensor:
        """The step without a graph."""
        trained = [p for p in self.model.parameters() if p.requires_grad]
        loss, gradients = loss_and_gradients(self.model, trained, batch, self.way)
        with torch.no_grad():
            changed = {p: local(p) for p in trained}
            _step_on(self.optimizer, changed, dict(zip(trained, gradients, strict=True)))
        self._started = True
        return loss

    def _key(self, batch):
        leaves, shape = tree_flatten(batch)
        kinds = tuple((tuple(x.shape), x.dtype) if isinstance(x, torch.Tensor) else x for x in leaves)
        frozen = tuple(p.requires_grad for p in self.model.parameters())
        return kinds, str(shape), tuple(module.training for module in self.model.modules()), frozen

    def _inputs(self, traced: TracedStep, batch, numbers) -> list:
        state = {(parameter, name): value for parameter, name, value in state_tensors(self.optimizer)}
        leaves = [leaf for leaf in tree_flatten(batch)[0] if isinstance(leaf, torch.Tensor)]
        return [
            *(local(tensor).detach() for tensor in traced.held),
            *leaves,
            *(local(state[key]) for key in traced.state_keys),
            *numbers,
        ]

    def _trace(self, batch) -> tuple[_Captured, list]:
        traced = trace(self.model, batch, self.way)
        mode = next(iter(traced.fakes.values())).fake_mode
        traced.fakes |= fakes_of(mode, self.optimizer)
        update = watch(self.optimizer, traced.fakes, traced.gradients)
        add_update(traced, update, [(parameter, name) for parameter, name, _ in state_tensors(self.optimizer)])
        numbers = Numbers(self.optimizer, traced.fakes, traced.gradients, traced.update_shape)
        return _Captured(traced, numbers), update.numbers()

    def _capture(self, batch) -> tuple[_Captured, list]:
        captured, numbers = self._trace(batch)
        if self.policies:
            self._expect_equal("graph", graph_file.fingerprint(captured.traced.module.graph))
            inputs = self._inputs(captured.traced, batch, numbers)
            captured.costs = costs.measured(captured.traced.module, inputs)
            self._plan(captured)
        return captured, numbers

    def _plan(self, captured: _Captured) -> None:
        """One plan of each policy for all ranks: rank 0's."""
        graph = captured.traced.module.graph
        told = [None, None]  # the orders, or why there are none
        if _rank() == 0:
            try:
                looked_at = self._graph_of(captured)
                told[0] = [looked_at.planned(policy) for policy in self.policies]
            except private.Unsupported as error:
                told[1] = str(error)
        if _world() > 1:
            dist.broadcast_object_list(told, 0)
        if told[1] is not None:
            raise private.Unsupported(told[1])
        for policy, order in zip(self.policies, told[0], strict=True):
            orders.check(graph, order)
            self._expect_equal("plan", "\n".join(order))
            captured.modules[policy] = orders.reordered(captured.traced.module, order)
            captured.times[policy] = []

    def _expect_equal(self, what: str, mine: str) -> None:
        """Ranks that run different plans would wait for each other forever."""
        if _world() == 1:
            return
        every = [None] * _world()
        dist.all_gather_object(every, hash_of(mine))
        other = [rank for rank, one in enumerate(every) if one != every[0]]
        if other:
            raise private.Unsupported(
                f"the {what} of rank{'s' if len(other) > 1 else ''} {', '.join(map(str, other))} differs from rank 0's "
                f"({every[other[0]][:12]}, {every[0][:12]}). Fix: the same model, batch shape, options and versions on "
                f"all ranks"
            )

    def _order_of_this_step(self, captured: _Captured) -> str:
        least = min(captured.times, key=lambda order: len(captured.times[order]))
        return least if len(captured.times[least]) < _TRIAL_STEPS else captured.chosen

    def _learn(self, captured: _Captured, order: str, seconds: float) -> None:
        times = captured.times
        if len(times) == 1 or len(times[order]) >= _TRIAL_STEPS:
            times[order] = [*times[order][-20:], seconds]
            return
        times[order].append(_slowest(seconds))
        if all(len(some) >= _TRIAL_STEPS for some in times.values()):
            captured.chosen = min(times, key=lambda each: statistics.median(times[each]))


def _step_on(optimizer, parameters: dict, gradients: dict) -> None:
    """optimizer.step() on what this rank holds; its state stays with the parameters that the optimizer knows."""
    groups = [group["params"] for group in optimizer.param_groups]
    state, own = optimizer.state, {}
    stand_ins = type(state)(dict)
    for parameter, mine in parameters.items():
        mine = mine.detach() if mine is not parameter else mine.data
        own[mine] = parameter
        mine.grad = gradients[parameter]
        if parameter in state:
            stand_ins[mine] = state[parameter]
    mine_of = {parameter: mine for mine, parameter in own.items()}
    optimizer.state = stand_ins
    for group in optimizer.param_groups:
        group["params"] = [mine_of.get(parameter, parameter) for parameter in group["params"]]
    try:
        optimizer.step()
    finally:
        for group, params in zip(optimizer.param_groups, groups, strict=True):
            group["params"] = params
        for mine, values in stand_ins.items():
            state[own.get(mine, mine)] = values
        optimizer.state = state


def hash_of(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()


def _world() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


def _rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def _slowest(seconds: float) -> float:
    """Of all ranks, so that they choose alike."""
    if _world() == 1:
        return seconds
    every = [None] * _world()
    dist.all_gather_object(every, seconds)
    return max(every)


def compile(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    loss,
    *,
    mesh=None,
    parallel: str | None = None,
    policy: str | tuple[str, ...] | None = ("portfolio", "lhs"),
    accumulate: int = 1,
    clip_grad_norm: float | None = None,
    weft: str | None = None,
    name: str | None = None,
) -> Step:
    """A training step that Weft schedules.

    loss: loss(model, batch) gives a scalar, the mean over this rank's batch. mesh: of one dimension; default: all.
    parallel: "ddp", "fsdp" (each parameter sharded along a dimension that the ranks divide), or None and "tp" for a
    model as it is, with DTensors of your own or none. policy: one of Weft's, or several, of which the shortest as
    measured stays (`weft compare --help` lists them); None captures alone. accumulate: parts of each batch whose
    gradients are added. clip_grad_norm: as clip_grad_norm_(). weft: the command. Raises Unsupported, which names cause
    and fix.
    """
    private.check_version()
    if parallel not in WAYS:
        raise private.Unsupported(f"parallel='{parallel}'. Fix: one of {', '.join(map(str, WAYS))}")
    refuse_wrappers(model)
    if policy is not None:
        orders.command(weft)
    if mesh is None and dist.is_initialized() and parallel in ("ddp", "fsdp"):
        from torch.distributed.device_mesh import init_device_mesh

        mesh = init_device_mesh(next(model.parameters()).device.type, (dist.get_world_size(),))
    if parallel in ("ddp", "fsdp"):
        if mesh is None:
            raise private.Unsupported(f"parallel='{parallel}' without ranks. Fix: torchrun, and init_process_group()")
        if mesh.ndim != 1:
            raise private.Unsupported(f"a mesh of {mesh.ndim} dimensions. Fix: mesh['name of one dimension']")
        equal_start(model, mesh)
    if parallel == "fsdp":
        shard(model, optimizer, mesh)
    known = set(model.parameters())
    if any(parameter not in known for parameter in parameters_of(optimizer)):
        raise private.Unsupported(
            "the optimizer has parameters that the model lacks. Fix: optimizer of model.parameters()"
        )
    way = Way(loss, parallel, mesh, accumulate, clip_grad_norm)
    policies = () if policy is None else (policy,) if isinstance(policy, str) else tuple(policy)
    return Step(model, optimizer, way, policies, weft, name or type(model).__name__)


def capture(
    loss,
    model: torch.nn.Module,
    batch,
    *,
    world: int,
    parallel: str | None = "fsdp",
    parallelize=None,
    optimizer=torch.optim.AdamW,
    machine: str | None = None,
    accumulate: int = 1,
    clip_grad_norm: float | None = None,
    policy: str = "portfolio",
    weft: str | None = None,
    name: str | None = None,
) -> StepGraph:
    """A step of `world` ranks, captured in this one process, without data and without a network.

    The model may be on the device "meta", and can't be used afterwards. parallelize: parallelize(model, mesh) makes
    DTensors of its parameters, on a mesh of all ranks. optimizer: makes one from parameters. machine: whose rates tell
    the times (`weft machine list`); without it, give --machine to the commands that take the graph.
    """
    private.check_version()
    refuse_wrappers(model)
    mode = private.fake_mode()
    with private.fake_ranks(world):
        from torch.distributed.device_mesh import init_device_mesh

        mesh = init_device_mesh("cpu", (world,))
        private.empty(model, mode)
        batch = tree_map(lambda leaf: private.empty_like(leaf, mode) if isinstance(leaf, torch.Tensor) else leaf, batch)
        if parallelize is not None:
            with mode:
                parallelize(model, mesh)
        if parallel == "fsdp":
            shard(model, None, mesh, source=None)
        trained = [p for p in model.parameters() if p.requires_grad]
        made = optimizer(trained)
        with torch.no_grad():
            parts = {p: local(p) for p in trained}
            _step_on(made, parts, {p: torch.empty_like(part) for p, part in parts.items()})
        way = Way(loss, parallel, mesh, accumulate, clip_grad_norm)
        captured, _ = Step(model, made, way, (), weft, "")._trace(batch)
        flags = ("--machine", machine) if machine else ()
        module = captured.traced.module
        groups = graph_file.groups(module.graph)
    return StepGraph(module, name or type(model).__name__, world, groups, policy, None, weft, flags)
