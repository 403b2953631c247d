"""Policies of tests: right ones, and each way to be wrong."""
import os
import signal
import sys

import numpy as np
from weft import Order


def longest_way(problem):
    return problem.list_schedule(problem.upward_rank())


class Chatty:
    def __init__(self, words, name):
        self.text = f"words {words} for {name}"

    def rewrites(self, problem):
        return ["ar-to-rs-ag"]

    def order(self, problem):
        count = len(problem)
        return Order(range(count), None, [self.text] + ["the rest"] * (count - 1), [(count - 1, 0, 0, 1)])


def simulates(problem):
    order = problem.list_schedule(-np.arange(len(problem)))
    result = problem.simulate(order, times=True, memory=True)
    text = f"{result.step_ns:.6f} {result.end_ns.max():.6f} {result.scratch_bytes}"
    return Order(order.sequence, order.streams, [text] * len(problem))


def first_alone(problem):
    return [0] * len(problem)


def first_stream(problem):
    return Order(range(len(problem)), [0] * len(problem))


def between_classes(problem):
    return Order(range(len(problem)), None, None, [(0, len(problem) - 1)])


def sees(problem):
    writes = problem.accesses.bytes[problem.tasks.access_begin[0]]
    edges = ",".join(f"{s}>{t}" for s, t in sorted({*zip(problem.edges.source, problem.edges.target)}))
    text = (
        f"{','.join(problem.tasks.name)} {','.join(problem.streams.name)} write {writes} limit {problem.memory_limit} "
        f"seed {problem.seed} edges {edges} {'readonly' if not problem.tasks.cost_ns.flags.writeable else 'open'}"
    )
    return Order(range(len(problem)), None, [text] * len(problem))


def endless(problem):
    while True:
        pass


def late_simulations(problem):
    while True:
        problem.simulate(range(len(problem)))


def raises(problem):
    raise ValueError("no idea")


def nothing(problem):
    return None


def too_short(problem):
    return [0, 1]


def twice(problem):
    return [0, 1, 1]


def backwards(problem):
    return [2, 1, 0]


def unknown(problem):
    return [0, 1, 3]


def negative(problem):
    return [0, 1, -1]


def fractions(problem):
    return [0.0, 1.0, 2.0]


def wrong_stream(problem):
    return Order([0, 1, 2], [0, 0, 0])


def exits(problem):
    os._exit(3)


def crashes(problem):
    os.kill(os.getpid(), signal.SIGKILL)


def babbles(problem):
    os.write(int(sys.argv[5]), b"hello\n")
    return range(len(problem))


def few_reasons(problem):
    return Order(range(len(problem)), None, ["one"])


def wrong_edge(problem):
    return Order(range(len(problem)), None, None, [(2, 0)])


def changes_costs(problem):
    problem.tasks.cost_ns[0] = 0
    return range(len(problem))


def liar(problem):
    problem.simulate = lambda order, **options: 0
    problem.edges._columns["source"] = problem.edges.source[:0]
    return [2, 0, 1]


class NoOrder:
    pass
