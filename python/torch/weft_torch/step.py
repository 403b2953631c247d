"""A training step of PyTorch that Weft captures, orders and explains."""

import statistics
import time

import torch
import torch.distributed as dist
from torch.utils._pytree import tree_flatten, tree_map

from . import _private as private
from . import graph_file, orders, ranks
from .choices import BUCKETS_MB, Choice, measured_choices
from .parallel import WAYS, equal_start, local, refuse_wrappers, shard
from .step_graph import POLICIES, StepGraph
from .timeline import recorded
from .trace import TracedStep, Way, add_update, loss_and_gradients, trace
from .update_trace import Numbers, fakes_of, parameters_of, state_tensors, watch

_TRIAL_STEPS = 3  # of each choice, before the shortest is kept
_STALE = 0.1  # what a measured step and its prediction may part by


class _Captured:
    """A step for one shape of inputs."""

    def __init__(self, traced: TracedStep, numbers: Numbers):
        self.traced, self.numbers = traced, numbers
        self.choices: dict[str, Choice] = {}
        self.chosen = "captured"


class Step:
    """`loss = step(batch)` trains for one step. All ranks call it together.

    The first call runs the step as it is, so that the optimizer makes its state. The second one captures it, measures
    its tasks, joins collectives in buckets, has `weft` order all that, and compares the ranks' graphs. The next ones
    take turns between the captured order and the choices that are shortest as simulated, three steps each; from then
    on the shortest runs. All train alike, to the bit.
    """

    def __init__(self, model, optimizer, way: Way, policies: tuple[str, ...], bucket_mb, weft: str | None, name: str):
        self.model, self.optimizer, self.way = model, optimizer, way
        self.policies, self.bucket_mb, self.weft, self.name = policies, bucket_mb, weft, name
        self._captured: dict = {}
        self._last: _Captured | None = None
        self._started = False  # the optimizer has made its state

    def __call__(self, batch) -> torch.Tensor:
        return self.trained(batch)

    def trained(self, batch, may_try: bool = True) -> torch.Tensor:
        """The loss of a step. `may_try`: it may run in an order that isn't measured yet."""
        if not self._started:
            return self._as_it_is(batch)
        key = self._key(batch)
        captured = self._captured.get(key)
        numbers = captured.numbers.next() if captured else None
        if numbers is None:
            captured, numbers = self._capture(batch)
            self._captured[key] = captured
        self._last = captured
        order = self._order_of_this_step(captured) if may_try else captured.chosen
        module = captured.choices[order].module
        inputs = self._inputs(captured.traced, batch, numbers)
        begin = time.perf_counter()
        with torch.no_grad():
            loss = module(*inputs)[0]
        if may_try:
            self._learn(captured, order, time.perf_counter() - begin)
        return loss

    def graph(self) -> StepGraph:
        """The captured step, with measured costs and the buckets of the order that runs."""
        captured = self._current()
        return captured.choices[captured.chosen].graph

    def write_graph(self, path) -> str:
        """See StepGraph."""
        return self.graph().write_graph(path)

    def explain(self, policy: str | None = None, *flags) -> str:
        """See StepGraph; and how long the step takes as measured and as simulated."""
        return f"{self.graph().explain(policy, *flags)}\n{self.prediction()}\n"

    def compare(self, policies=POLICIES, *flags) -> str:
        """See StepGraph."""
        return self.graph().compare(policies, *flags)

    def collectives(self) -> dict[str, int]:
        """See StepGraph."""
        return self.graph().collectives()

    def order(self) -> str:
        """What runs: "captured", "lhs", "lhs, buckets of 4 MB"."""
        return self._current().chosen

    def times(self) -> dict[str, float]:
        """Median seconds of a step in each order, as far as they ran; the slowest rank's."""
        choices = self._current().choices
        return {order: statistics.median(choice.times) for order, choice in choices.items() if choice.times}

    def prediction(self) -> str:
        """Whether the order that runs takes as long as it was simulated to take."""
        captured = self._current()
        choice = captured.choices[captured.chosen]
        if choice.predicted is None or len(choice.times) < _TRIAL_STEPS:
            return "the step hasn't been measured and simulated yet"
        found = statistics.median(choice.times)
        told = f"order {captured.chosen}: {1e3 * found:.1f} ms measured, {1e3 * choice.predicted:.1f} ms simulated"
        if abs(found - choice.predicted) <= _STALE * found:
            return told
        return f"{told}. Profile stale: they part by more than {100 * _STALE:g} %. Fix: step.forget() measures anew"

    def forget(self) -> None:
        """The next call captures, measures and orders the step anew, on all ranks."""
        self._captured.clear()
        self._last = None

    def timeline(self, batches, path="timeline.html") -> str:
        """Trains a step on each of three batches or more, and draws when what ran on each rank (.html, .svg, .png;
        rank 0 writes the file, and beside it the recorded step as a graph file). Returns what that step was bound by.
        All ranks call it together."""
        return recorded(self, batches, path, self.weft)

    def _current(self) -> _Captured:
        if self._last is None:
            raise private.Unsupported("the step hasn't been captured. Fix: call step(batch) twice, or capture()")
        return self._last

    def _graph_of(self, module, costs) -> StepGraph:
        policy = self.policies[0] if self.policies else "program"
        groups = graph_file.groups(module.graph)
        return StepGraph(module, self.name, ranks.world(), groups, policy, costs, self.weft)

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
        ranks.expect_equal("options", repr((self.policies, self.bucket_mb)))
        captured, numbers = ranks.together(lambda: self._trace(batch))
        module = captured.traced.module
        ranks.expect_equal("graph", graph_file.fingerprint(module.graph))
        if self.policies:
            inputs = self._inputs(captured.traced, batch, numbers)
            captured.choices = measured_choices(module, inputs, self.policies, self.bucket_mb, self._graph_of)
        else:
            captured.choices = {"captured": Choice(module, self._graph_of(module, None))}
        return captured, numbers

    def _order_of_this_step(self, captured: _Captured) -> str:
        least = min(captured.choices, key=lambda order: len(captured.choices[order].times))
        return least if len(captured.choices[least].times) < _TRIAL_STEPS else captured.chosen

    def _learn(self, captured: _Captured, order: str, seconds: float) -> None:
        choices = captured.choices
        times = choices[order].times
        if len(choices) == 1 or len(times) >= _TRIAL_STEPS:
            choices[order].times = [*times[-20:], seconds]
            return
        times.append(max(ranks.of_all(seconds)))
        if all(len(choice.times) >= _TRIAL_STEPS for choice in choices.values()):
            captured.chosen = min(choices, key=lambda each: statistics.median(choices[each].times))


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
    bucket_mb: tuple[float, ...] = BUCKETS_MB,
    weft: str | None = None,
    name: str | None = None,
) -> Step:
    """A training step that Weft schedules.

    loss: loss(model, batch) gives a scalar, the mean over this rank's batch. mesh: of one dimension; default: all.
    parallel: "ddp", "fsdp" (each parameter sharded along a dimension that the ranks divide), or None and "tp" for a
    model as it is, with DTensors of your own or none. policy: one of Weft's, or several, of which the shortest as
    measured stays (`weft compare --help` lists them); None captures alone. accumulate: parts of each batch whose
    gradients are added. clip_grad_norm: as clip_grad_norm_(). bucket_mb: sizes of joined collectives that are tried
    beside the step as it is; () joins none. weft: the command. Raises Unsupported, which names cause and fix.
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
    return Step(model, optimizer, way, policies, tuple(bucket_mb), weft, name or type(model).__name__)


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
        captured, _ = Step(model, made, way, (), (), weft, "")._trace(batch)
        flags = ("--machine", machine) if machine else ()
        module = captured.traced.module
        groups = graph_file.groups(module.graph)
    return StepGraph(module, name or type(model).__name__, world, groups, policy, None, weft, flags)
