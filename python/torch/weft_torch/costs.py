"""What each task of a traced step costs, measured in the step: medians over several runs, the mean over ranks."""

import statistics
import time

import torch
import torch.distributed as dist

from .nodes import is_collective, is_task


class _Meter(torch.fx.Interpreter):
    """Each collective is waited for at once. It runs twice before it is timed: a link that was quiet lets the first
    bytes of a message pass faster."""

    WARM = 2

    def __init__(self, module):
        super().__init__(module)
        self.ns, self.cpu_ns = {}, {}

    def run_node(self, node):
        if not is_task(node):
            return super().run_node(node)
        args, kwargs = self.fetch_args_kwargs_from_env(node)
        wait = torch.ops._c10d_functional.wait_tensor if is_collective(node) else lambda result: None
        for _ in range(self.WARM if is_collective(node) else 0):
            wait(node.target(*args, **kwargs))
        cpu, begin = time.process_time_ns(), time.perf_counter_ns()
        result = node.target(*args, **kwargs)
        wait(result)
        end, cpu_end = time.perf_counter_ns(), time.process_time_ns()
        self.ns.setdefault(node.name, []).append(end - begin)
        self.cpu_ns.setdefault(node.name, []).append(cpu_end - cpu)
        return result


def measured(module, inputs, repeats: int = 3) -> dict[str, dict[str, float]]:
    """By name of a task. Works on copies of the inputs: nothing is trained. All ranks call it together."""
    copies = [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in inputs]
    meter = _Meter(module)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        for run in range(repeats + 1):
            meter.run(*copies)
            if run == 0:
                meter.ns, meter.cpu_ns = {}, {}
    mine = {
        name: {"ns": statistics.median(times), "cpu_ns": statistics.median(meter.cpu_ns[name])}
        for name, times in meter.ns.items()
    }
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return mine
    every = [None] * dist.get_world_size()
    dist.all_gather_object(every, mine)
    return {
        name: {unit: sum(one[name][unit] for one in every) / len(every) for unit in ("ns", "cpu_ns")} for name in mine
    }
