"""Orders of PyTorch's own pass for overlap (torch._inductor, overlap_scheduling.py), which Inductor runs on compiled steps.

The pass is given what Weft's policies are given: the captured step, in buckets or not, and the measured time of each
task. It looks at what nodes need of each other, not at memory that they share: where it puts a task before another one
that has to come first, the order is mended by moving that task to the first place where it may stand.
"""

import copy
import heapq
from unittest import mock


def limits():
    """By name: what tells the pass how far to look ahead, how much to hide behind a computation, and memory."""
    free = {"max_memory_increase_gb": None, "max_memory_increase_ratio": None}
    ahead = {"max_compute_pre_fetch": 10**6, "max_coll_distance": 10**6, "max_in_flight_gb": 64}
    return {
        "as it comes": {},
        "no limits": {**free, **ahead},
        "no limits, communication × 2": {**free, **ahead, "compute_overlap_multipler": 0.5},
        "no limits, communication / 2": {**free, **ahead, "compute_overlap_multipler": 2.0},
        "the next product alone": {**free, "max_compute_pre_fetch": 1},
    }


def order_of(module, costs, settings):
    """The names of the module's tasks in the pass's order. `costs`: as weft_torch.costs.measured() gives them."""
    from torch._inductor.fx_passes import overlap_scheduling
    from weft_torch.graph_file import accesses, dependencies
    from weft_torch.nodes import is_task

    def milliseconds(node, size=None):
        cost = costs.get(node.name)
        return 1e-6 * (cost["ns"] + cost["issue_ns"]) if cost else 0.0

    known = {"custom_runtime_estimation": milliseconds, "compute_estimator": "analytical"}
    known |= {"insert_overlap_deps": False, "collective_bucketing": False, "pre_bucketing_fsdp_collectives": False}
    mine = copy.deepcopy(module)
    with mock.patch.object(overlap_scheduling, "estimate_roofline_runtime_ms", milliseconds):
        made = overlap_scheduling.schedule_overlap_bucketing(mine, **known, **settings)
    _, tasks = accesses(module.graph)
    place = {name: at for at, name in enumerate(node.name for node in made.graph.nodes if is_task(node))}
    return _mended(place, dict(dependencies(tasks)))


def _mended(place, before):
    """All tasks by their place, except that none stands before one that it needs."""
    missing = {node: len(some) for node, some in before.items()}
    after = {node: [] for node in before}
    for node, some in before.items():
        for one in some:
            after[one].append(node)
    ready = [(place[node.name], node) for node, count in missing.items() if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        node = heapq.heappop(ready)[1]
        order.append(node.name)
        for one in after[node]:
            missing[one] -= 1
            if not missing[one]:
                heapq.heappush(ready, (place[one.name], one))
    return order
