"""What each task of a traced step costs, measured in the step: medians over several runs, the mean over ranks."""

import statistics
import time

import torch
import torch.distributed as dist

from .nodes import is_collective, is_task

UNITS = ("ns", "cpu_ns", "issue_ns")
_RUNS, _RUNS_OF_BUCKETS = 3, 2  # after one that isn't measured; a step with buckets ran already


class _Meter(torch.fx.Interpreter):
    """Each collective is waited for at once. It runs twice before it is timed: a link that was quiet lets the first
    bytes of a message pass faster. `known`: tasks that aren't timed."""

    WARM = 2

    def __init__(self, module, known):
        super().__init__(module)
        self.known, self.times = known, {}

    def run_node(self, node):
        if not is_task(node) or (node.name in self.known and not is_collective(node)):
            return super().run_node(node)
        args, kwargs = self.fetch_args_kwargs_from_env(node)
        if node.name in self.known:
            return _waited(node.target(*args, **kwargs))
        if not is_collective(node):
            begin = time.perf_counter_ns()
            result = node.target(*args, **kwargs)
            self._learn(node, (time.perf_counter_ns() - begin, 0, 0))
            return result
        kept = [arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args]  # it may write into them
        for _ in range(self.WARM):
            _waited(node.target(*kept, **kwargs))
        begin, cpu, own = time.perf_counter_ns(), time.process_time_ns(), time.thread_time_ns()
        result = node.target(*args, **kwargs)
        own = time.thread_time_ns() - own
        _waited(result)
        ns, cpu = time.perf_counter_ns() - begin, time.process_time_ns() - cpu
        self._learn(node, (ns - own, max(0, min(cpu, ns) - own), own))
        return result

    def _learn(self, node, times) -> None:
        self.times.setdefault(node.name, []).append(times)


def _waited(result):
    for tensor in [result] if isinstance(result, torch.Tensor) else result:
        torch.ops._c10d_functional.wait_tensor(tensor)
    return result


def measured(module, inputs, known: dict) -> dict[str, dict[str, float]]:
    """By name of a task: `ns` of a collective without `issue_ns`, the time of the thread that asks for it, and `cpu_ns`
    of other threads in it. Of tasks that are `known` it gives what is known. Works on copies of the inputs: nothing is
    trained. All ranks call it together."""
    copies = [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in inputs]
    meter = _Meter(module, known)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        if not known:
            meter.run(*copies)
            meter.times = {}
        for _ in range(_RUNS if not known else _RUNS_OF_BUCKETS):
            meter.run(*copies)
    mine = {name: [statistics.median(one) for one in zip(*times, strict=True)] for name, times in meter.times.items()}
    every = [mine]
    if dist.is_initialized() and dist.get_world_size() > 1:
        every = [None] * dist.get_world_size()
        dist.all_gather_object(every, mine)
    means = {
        name: [statistics.fmean(unit) for unit in zip(*(one[name] for one in every), strict=True)] for name in mine
    }
    return known | {name: dict(zip(UNITS, mean, strict=True)) for name, mean in means.items()}
