"""A policy in Python: the best of many list schedules whose priorities differ a little.

From the command line:  weft compare --model tiny --ranks 2 --policies program lhs examples/python/policy.py:jittered:tries=200
From Python:            weft.step(model="tiny", ranks=2).plan(jittered)
"""

import numpy as np


def jittered(problem, tries=100):
    random = np.random.default_rng(problem.seed)
    longest_way = problem.upward_rank()
    best, best_ns = None, np.inf
    for attempt in range(tries):
        noise = random.uniform(0.9, 1.1, len(problem)) if attempt > 0 else 1
        order = problem.list_schedule(longest_way * noise)
        step_ns = problem.simulate(order).step_ns
        if step_ns < best_ns:
            best, best_ns = order, step_ns
    return best
