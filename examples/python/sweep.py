"""A sweep: how the step of GPT-2 124M on four GPUs depends on the grid and the policy, and how far it is from its bound.

python3 examples/python/sweep.py [FILE.csv]
"""

import sys

import pandas
import weft

rows = []
for grid in ("data=4", "z=4", "x=2,z=2", "y=4"):
    step = weft.step(model="gpt2-124m", grid=grid, machine="dgx-h100", dtype="bf16", global_batch=16)
    frame = weft.compare(step, ["program", "axonn", "critical-path", "lhs"])
    rows.append(frame.assign(grid=grid, tasks=len(step.problem)))
table = pandas.concat(rows, ignore_index=True)
table["step_ms"] = table.step_ns / 1e6
print(table.pivot(index="policy", columns="grid", values="step_ms").round(3))
best = table.loc[table.step_ns.idxmin()]
print(f"best: {best.policy} on {best.grid}, {best.step_ms:.3f} ms, {100 * best.gap_to_step:.1f} % above the bound of its graph")
if len(sys.argv) > 1:
    table.to_csv(sys.argv[1], index=False)
