"""An exact solver as a policy: OR-tools' CP-SAT orders the step, and bounds what any order could reach.

pip install ortools
From the command line:  weft compare --model tiny --grid z=2 --policies program portfolio examples/python/cp_sat.py:solver:limit=20
By itself:              python3 examples/python/cp_sat.py [STEP.graph.json]      # prints the best step and the bound

Each stream runs one task at a time, as it does in Weft. Contention isn't in the model: it only lengthens steps, so the bound holds
with it too. Times are rounded down to microseconds for the bound, and the simulator has the last word on the step.
"""

import sys

import numpy as np
from ortools.sat.python import cp_model

UNIT = 1000  # nanoseconds


def solved(problem, limit=30.0):
    """(sequence, lower bound in ns) after at most `limit` seconds."""
    model = cp_model.CpModel()
    lengths = (problem.tasks.cost_ns // UNIT).astype(int)
    horizon = int(lengths.sum()) + 1
    starts = [model.new_int_var(0, horizon, f"start{task}") for task in range(len(problem))]
    for source, target, distance in zip(problem.edges.source, problem.edges.target, problem.edges.distance):
        if distance == 0:
            model.add(starts[target] >= starts[source] + int(lengths[source]))
    for channel in np.unique(problem.tasks.channel):
        tasks = np.flatnonzero(problem.tasks.channel == channel)
        model.add_no_overlap([model.new_fixed_size_interval_var(starts[t], int(lengths[t]), f"task{t}") for t in tasks])
    end = model.new_int_var(0, horizon, "end")
    model.add_max_equality(end, [starts[task] + int(lengths[task]) for task in range(len(problem))])
    model.minimize(end)
    begin_ns = problem.simulate(problem.list_schedule(problem.upward_rank()), times=True).begin_ns
    for task, start in enumerate(starts):
        model.add_hint(start, int(begin_ns[task] // UNIT))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = limit
    solver.parameters.random_seed = problem.seed % 2**31
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, solver.best_objective_bound * UNIT
    found = np.array([solver.value(start) for start in starts])
    # Tasks that start at one moment keep their order, which their edges allow.
    return np.argsort(found, kind="stable"), solver.best_objective_bound * UNIT


def solver(problem, limit=30.0):
    sequence, _ = solved(problem, limit)
    listed = problem.list_schedule(problem.upward_rank())
    if sequence is None or problem.simulate(sequence).step_ns > problem.simulate(listed).step_ns:
        return listed
    return sequence


if __name__ == "__main__":
    import weft

    step = weft.step(sys.argv[1]) if len(sys.argv) > 1 else weft.step(model="tiny", grid="z=2", machine="laptop")
    sequence, bound_ns = solved(step.problem)
    best_ns = step.problem.simulate(sequence).step_ns
    print(f"CP-SAT: {best_ns / 1e6:.3f} ms; no order is below {max(bound_ns, step.bounds()['best_ns']) / 1e6:.3f} ms")
    print(f"Weft's bound alone: {step.bounds()['best_ns'] / 1e6:.3f} ms; critical-path: {step.plan('critical-path').step_ns / 1e6:.3f} ms")
