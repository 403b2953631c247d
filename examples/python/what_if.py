"""What if: a step that somebody recorded, with a faster network, faster kernels and another order.

python3 examples/python/what_if.py TRACE.json [MORE.json …]     # a Kineto or Chakra trace a rank
"""

import sys

import pandas
import weft

graph = weft.import_trace(sys.argv[1:])
print(graph)
for note in graph.notes:
    print("  note:", note)

recorded = graph.step()
report = recorded.plan()
print(f"recorded order: {report.step_ns / 1e6:.3f} ms, {report.exposed_ns / 1e6:.3f} ms of it exposed communication")
print(report.exposed().head(5).to_string(index=False))

cases = {
    "as recorded": (recorded, "recorded"),
    "network twice as fast": (graph.step(bandwidth=2), "recorded"),
    "everything 20 % faster": (recorded.scaled({"*": 0.8}), "recorded"),
    "collectives in another order": (graph.step(keep_order="computations"), "critical-path"),
}
rows = [{"case": case, **step.plan(policy).summary} for case, (step, policy) in cases.items()]
frame = pandas.DataFrame(rows)[["case", "policy", "step_ns", "exposed_ns", "gap"]]
print(frame.to_string(index=False))
