"""The ways in which a captured step may run: in the captured order, and in policies' orders, with collectives as they
are or in buckets. All of them train to the same bits; buckets of which a run shows otherwise are left out."""

import math
from dataclasses import dataclass, field

import torch

from . import buckets, costs, graph_file, orders, ranks
from .step_graph import StepGraph

BUCKETS_MB = (1, 4, 25, math.inf)
TRIED_GRAPHS = 2  # of those with and without buckets, the shortest as simulated


@dataclass
class Choice:
    """One way to run the step."""

    module: torch.fx.GraphModule
    graph: StepGraph  # that was ordered
    predicted: float | None = None  # simulated seconds
    times: list[float] = field(default_factory=list)  # measured seconds, of the slowest rank while choices are tried


def measured_choices(module, inputs: list, policies, bucket_mb, graph_of) -> dict[str, Choice]:
    """By name; the first is the captured order. `graph_of(module, costs)` is what policies order. All ranks call it
    together."""
    known = costs.measured(module, inputs, {})
    graphs = {"": graph_of(module, known)}
    expected, seen = buckets.outcome(module, inputs), {graph_file.fingerprint(module.graph)}
    for megabytes in bucket_mb:
        joined = buckets.joined(module, megabytes)
        told = graph_file.fingerprint(joined.graph)
        same = told not in seen and buckets.same_bits(expected, buckets.outcome(joined, inputs))
        if all(ranks.of_all(same)):
            graphs[f", buckets of {megabytes:g} MB"] = graph_of(joined, costs.measured(joined, inputs, known))
        seen.add(told)
    del expected
    plans = ranks.from_rank_0(
        lambda: {label: {policy: graph.planned(policy) for policy in policies} for label, graph in graphs.items()}
    )
    _, predicted = ranks.from_rank_0(lambda: graphs[""].planned("serial"))
    choices = {"captured": Choice(module, graphs[""], predicted)}
    for label in sorted(plans, key=lambda label: min(seconds for _, seconds in plans[label].values()))[:TRIED_GRAPHS]:
        graph = graphs[label]
        for policy, (order, predicted) in plans[label].items():
            orders.check(graph.module.graph, order)
            ranks.expect_equal("plan", "\n".join(order))
            choices[policy + label] = Choice(orders.reordered(graph.module, order), graph, predicted)
    return choices
