#!/usr/bin/env python3
"""Checks certificates of lower bounds (docs/bench.md), with nothing of Weft's but the documented files.

  weft bench --policies all --certify FOLDER
  bench/overlap/check_bounds.py FOLDER/*.json [--graphs FOLDER] [--best best.csv] [--weft build/weft]

A certificate says which work has to be done in which window of a step. This program reads the graph, computes all heads,
tails and sums by itself, and refuses a certificate whose bound is above what its argument proves. A bound is of the graphs
that the certificate names. That they are those of its instance is checked with --weft alone, which makes them again.
Exit code: 0 if all hold, 1 if one doesn't, 2 if a file can't be read.
"""
import argparse
import csv
import gzip
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

from graph_step import Refused, Step

# Times are sums in another order than the search's; thresholds choose items whose times are equal but for rounding.
ROUNDING = 1e-11
VERSIONS = (1, 2)  # 2: with milestones
PROVED = 1e-4  # the gap at which solvers of mixed-integer programs stop: such a step is called optimal
# Policies that make a graph without a search; the others are slower.
QUICK = ("program", "fsdp", "ddp-bucket", "1f1b", "serial", "axonn", "deepcompile", "inductor", "interleaved", "zb-h1", "gpipe")
ALL_PARTS, WAITS = -1, -2  # of a charge, in place of a milestone
SLOWING = ("channel", "link", "link_out", "link_in", "cores")
# The errors to which a certificate of a wrong form leads.
FORM_ERRORS = (AttributeError, IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError)


class Sums:
    """Of the items that a certificate chose."""

    def __init__(self, items, limits, chosen):
        heads, tails = limits
        least_head = chosen["least_head"] * (1 - ROUNDING)
        least_tail = chosen["least_tail"] * (1 - ROUNDING)
        items = [item for item in items if item.ns > 0 and item.node in heads and
                 heads[item.node] >= least_head and tails[item.node] >= least_tail]
        self.none = not items
        if items:
            self.head = min(heads[item.node] for item in items)
            self.tail = min(tails[item.node] for item in items)
            self.ns = math.fsum(item.ns for item in items)
            self.lost = math.fsum(item.ns * item.loss for item in items)
            self.loss = max(item.loss for item in items)


class Parts:
    """A step that a chain of tasks divides: part 2k + 1 is the time in which milestone k runs, part 2k that before it."""

    def __init__(self, step, chain):
        self.step, self.chain = step, chain
        if not chain:
            raise Refused("there are no milestones")
        place = {node: k for k, node in enumerate(chain)}
        if len(place) < len(chain):
            raise Refused("a task is a milestone twice")
        count = len(step.cost)
        self.first, self.last = [0] * count, [2 * len(chain)] * count
        for node in step.order:
            for source in step.before[node]:
                self.first[node] = max(self.first[node], 2 * place[source] + 2 if source in place else self.first[source])
        for node in reversed(step.order):
            for target in step.after[node]:
                self.last[node] = min(self.last[node], 2 * place[target] if target in place else self.last[target])
        for k, node in enumerate(chain):
            if (self.first[node], self.last[node]) != (2 * k, 2 * k + 2):
                raise Refused(f"milestone {k} doesn't come after the one before it, or before the one after it")
        for k, node in enumerate(chain):
            self.first[node] = self.last[node] = 2 * k + 1
        self.queues = [step.queues_of(node) for node in chain]

    def paying(self, first, last, during):
        if during == ALL_PARTS:
            return range(first, last + 1)
        if during == WAITS:
            return [part for part in range(first, last + 1) if part % 2 == 0]
        queue = self.queues[during][:1]
        return [part for part in range(first, last + 1) if part % 2 and self.queues[part // 2][:1] == queue]

    def held(self, part):
        """The queues that a milestone has for itself."""
        if part % 2 == 0 or self.step.cost[self.chain[part // 2]] == 0:
            return ()
        return self.queues[part // 2]


class Cheapest:
    """The least price of a node's work over the parts in which it can run."""

    def __init__(self, parts, prices):
        self.parts, self.prices, self.samples = parts, prices, {}
        kinds = {}
        self.kind = [kinds.setdefault((parts.held(part), *(price[part] for price in prices)), len(kinds))
                     for part in range(2 * len(parts.chain) + 1)]

    def of(self, node, uses):
        parts = self.parts
        bounds = parts.first[node], parts.last[node]
        if bounds not in self.samples:
            # One part of each kind stands for all: they have equal prices and queues.
            self.samples[bounds] = list({self.kind[part]: part for part in range(bounds[0], bounds[1] + 1)}.values())
        own = parts.step.queues_of(node)
        return min(math.fsum(ns * self.prices[load][part] for load, ns in uses) for part in self.samples[bounds]
                   if bounds[0] == bounds[1] or not any(queue in parts.held(part) for queue in own))


class Checker:
    """Follows one certificate on one step."""

    def __init__(self, step):
        self.step = step
        self.raised = {"head": {}, "tail": {}}
        self.limits = {"head": self._longest("head"), "tail": self._longest("tail")}

    def _sources(self, side):
        return self.step.before if side == "head" else self.step.after

    def _order(self, side):
        return self.step.order if side == "head" else reversed(self.step.order)

    def _longest(self, side):
        """Longest paths to each node, seen from one side, that start from no less than the raised values."""
        value, sources, cost, raised = {}, self._sources(side), self.step.cost, self.raised[side]
        for node in self._order(side):
            longest = raised.get(node, 0.0)
            for source in sources[node]:
                longest = max(longest, value[source] + cost[source])
            value[node] = longest
        return value

    def _distances(self, side, target):
        """By node that comes before the target: the longest path from its end to the target's begin."""
        distance, sources, cost = {}, self._sources(side), self.step.cost
        for node in reversed(list(self._order(side))):
            if node == target:
                reached = 0.0
            elif node in distance:
                reached = distance[node] + cost[node]
            else:
                continue
            for source in sources[node]:
                distance[source] = max(distance.get(source, 0.0), reached)
        return distance

    def _items(self, number, chosen):
        key = (number, chosen["kind"], chosen.get("number", -1))
        if key not in self.step.resources:
            raise Refused(f"the graph has no resource {key}")
        return self.step.resources[key]

    def proved(self, window, limits):
        """The bound that a window proves."""
        number, work = window["class"], window["work"]
        heads, tails = limits
        if work["kind"] == "task":
            node = self.step.node_of[number][work["number"]]
            if node not in heads:
                raise Refused("the window's task isn't among those that it is about")
            return heads[node] + self.step.cost[node] + tails[node]
        if work["kind"] == "cores":
            raise Refused("cores serve several collectives at once, so they bound nothing by themselves")
        chosen = Sums(self._items(number, work), limits, work)
        if chosen.none:
            raise Refused("the window's thresholds choose no work")
        bound = math.fsum((chosen.head, chosen.ns, chosen.tail))
        if "beside" in window:
            if work["kind"] != "computations":
                raise Refused("only computations are slowed down by what runs beside them")
            if window["beside"]["kind"] not in SLOWING:
                raise Refused(f"{window['beside']['kind']} slows nothing down")
            beside = Sums(self._items(number, window["beside"]), limits, window["beside"])
            if not beside.none:
                outside = max(0.0, chosen.head - beside.head) + max(0.0, chosen.tail - beside.tail)
                bound += max(0.0, beside.lost - outside * beside.loss)
        return bound

    def priced(self, milestones):
        """The bound that milestones prove: the sum of what the parts of the step pay at least."""
        tasks = milestones["tasks"]
        parts = Parts(self.step, [self.step.node_of[number][task] for number, task in zip(tasks[::2], tasks[1::2], strict=True)])
        heads, tails, cost = self.limits["head"], self.limits["tail"], self.step.cost
        end, bound = 2 * len(parts.chain), []
        paid, prices, work = [0.0] * (end + 1), [], {}
        for load in milestones["loads"]:
            chosen = self._chosen_work(load)
            for node, ns in chosen:
                work.setdefault(node, []).append((len(prices), ns))
            head = min((heads[node] for node, _ in chosen), default=0.0)
            tail = min((tails[node] for node, _ in chosen), default=0.0)
            of_chain = load["work"]["kind"] == "task"
            price, charges = [0.0] * (end + 1), load["charges"]
            for first, last, during, each in zip(charges[::4], charges[1::4], charges[2::4], charges[3::4], strict=True):
                if not (each >= 0 and 0 <= first <= last <= end):
                    raise Refused("a charge has a negative price, or is of parts that the step lacks")
                for part in parts.paying(first, last, during):
                    price[part] += each
                    paid[part] += each
                if during != ALL_PARTS:
                    continue
                if first == 0 and last == end:
                    bound.append(each * (head + tail))
                elif first == 0:
                    # The part is before a milestone, or is the one in which it runs.
                    milestone = parts.chain[last // 2]
                    least = heads[milestone] + (cost[milestone] if last % 2 else 0.0)
                    bound.append(each * (least if of_chain else head if head <= least else 0.0))
                elif last == end:
                    milestone = parts.chain[(first - 1) // 2]
                    least = tails[milestone] + (cost[milestone] if first % 2 else 0.0)
                    bound.append(each * (least if of_chain else tail if tail <= least else 0.0))
            prices.append(price)
        if max(paid) > 1 + ROUNDING:
            raise Refused(f"a part of the step pays {max(paid)}, which is more than 1")
        for number, milestone in enumerate(parts.chain):
            bound.append(cost[milestone] * (1 - paid[2 * number + 1]))
        cheapest = Cheapest(parts, prices)
        for node, uses in work.items():
            bound.append(cheapest.of(node, uses))
        return math.fsum(bound)

    def _chosen_work(self, load):
        """Nodes with the time that they take of a load's resource."""
        number, named = load["class"], load["work"]
        if named["kind"] == "task":
            return []
        if named["kind"] == "cores":
            raise Refused("cores serve several collectives at once, so they bound nothing by themselves")
        chosen = [(item, item.ns) for item in self._items(number, named)]
        if "beside" in load:
            if named["kind"] != "computations" or load["beside"]["kind"] not in SLOWING:
                raise Refused("a load counts work beside other work that it doesn't slow down")
            chosen += [(item, item.ns * item.loss) for item in self._items(number, load["beside"])]
        least_head, least_tail = named["least_head"] * (1 - ROUNDING), named["least_tail"] * (1 - ROUNDING)
        heads, tails = self.limits["head"], self.limits["tail"]
        return [(item.node, ns) for item, ns in chosen
                if ns > 0 and self.step.cost[item.node] > 0 and heads[item.node] >= least_head and
                tails[item.node] >= least_tail]

    def _bounds_of_branches(self, graph):
        if len(graph["branches"]) != 2:
            raise Refused("a split has two branches")
        for branch in graph["branches"]:
            if not graph["bound_ns"] <= branch["bound_ns"]:
                raise Refused(f"the bound is {graph['bound_ns']} ns, and that of a branch {branch['bound_ns']} ns")
        return graph["branches"]

    def _cases(self, split):
        """The steps in which one of two tasks of a queue comes first."""
        number, first, second = split["class"], split["first"], split["second"]
        if first == second or not self.step.served_one_at_a_time(number, first, second):
            raise Refused(f"tasks {first} and {second} of class {number} may run at once")
        return self.step.in_order(number, first, second), self.step.in_order(number, second, first)

    def adjust(self, adjustment):
        side = "head" if "head_ns" in adjustment else "tail"
        claimed = adjustment[side + "_ns"]
        target = self.step.node_of[adjustment["class"]][adjustment["task"]]
        distance = self._distances(side, target)
        value = {node: self.limits[side][node] for node in distance}
        limits = (value, distance) if side == "head" else (distance, value)
        found = self.proved(adjustment["window"], limits)
        if not claimed <= found:
            raise Refused(f"the {side} of task {adjustment['task']} of class {adjustment['class']} is {claimed} ns, and "
                          f"its window proves {found} ns")
        self.raised[side][target] = max(self.raised[side].get(target, 0.0), claimed)
        self.limits[side] = self._longest(side)

    def check(self, graph):
        """A proof by a window, or by two cases of a split."""
        if "split" in graph:
            for case, bound in zip(self._cases(graph["split"]), self._bounds_of_branches(graph)):
                Checker(case).check(bound)
            return
        for adjustment in graph["adjustments"]:
            self.adjust(adjustment)
        if "milestones" in graph:
            found = self.priced(graph["milestones"])
        else:
            found = self.proved(graph["window"], (self.limits["head"], self.limits["tail"]))
        if not graph["bound_ns"] <= found:
            raise Refused(f"the bound is {graph['bound_ns']} ns, and its argument proves {found} ns")


def shown(text):
    """Text for a terminal, which would obey control characters of a file's name or content."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in str(text))


def read(path):
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
        return json.load(file)


def check_certificate(certificate, graphs):
    try:
        check_form_and_bounds(certificate, graphs)
    except (json.JSONDecodeError, UnicodeDecodeError):  # of a graph's file
        raise
    except FORM_ERRORS as error:
        raise Refused(f"its form is wrong ({type(error).__name__}: {error})") from None


def check_form_and_bounds(certificate, graphs):
    if not isinstance(certificate, dict):
        raise Refused("it is no object")
    if certificate.get("format") != "weft-bounds" or certificate.get("version") not in VERSIONS:
        raise Refused(f"not of format weft-bounds, version {' or '.join(map(str, VERSIONS))}")
    if not certificate["graphs"]:
        raise Refused("it names no graph")
    for graph in certificate["graphs"]:
        if not re.fullmatch("0x[0-9a-f]{16}", graph["graph"]):
            raise Refused(f"{graph['graph']!r} is no fingerprint of a graph")
        step = Step(read(graphs / f"{graph['graph']}.graph.json.gz"))
        if step.fingerprint() != graph["graph"]:
            raise Refused(f"graph {graph['graph']}: the file is of another graph, {step.fingerprint()}")
        try:
            Checker(step).check(graph)
        except Refused as reason:
            raise Refused(f"graph {graph['graph']}: {reason}") from None
    least = min(graph["bound_ns"] for graph in certificate["graphs"])
    if not certificate["bound_ns"] <= least:
        raise Refused(f"the bound is {certificate['bound_ns']} ns, and that of one of its graphs {least} ns")


def check_instance(certificate, weft, instances):
    """Refuses a certificate of graphs that Weft doesn't make of its instance."""
    name = certificate["instance"]
    policies = {min(graph["policies"], key=lambda each: QUICK.index(each) if each in QUICK else len(QUICK),
                    default="")
                for graph in certificate["graphs"]}
    # They become words of a command line. A policy that is a file would be run.
    for word in (name, *policies):
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", word) or word.endswith((".so", ".py")):
            raise Refused(f"its graphs can't be made again: {word!r} is no instance and no policy of Weft's own")
    with tempfile.TemporaryDirectory() as folder:
        made = subprocess.run([weft, "bench", name, "--instances", instances, "--policies", *sorted(policies),
                               "--certify", folder], capture_output=True, text=True, check=False)
        if made.returncode != 0:
            raise Refused(f"its graphs can't be made again: {ascii(made.stderr.strip().splitlines()[0])}")
        graphs = {path.name.split(".")[0] for path in (pathlib.Path(folder) / "graphs").iterdir()}
        step = read(pathlib.Path(folder) / f"{name}.json")["step"]
    for graph in certificate["graphs"]:
        if graph["graph"] not in graphs:
            raise Refused(f"graph {graph['graph']} isn't one of instance {name}, whose graphs are "
                          f"{', '.join(sorted(graphs))}")
    if certificate["step"] != step:
        raise Refused(f"it is about step {certificate['step']}, and instance {name} is step {step}")


def check_best(certificate, row):
    """How far the best known step is above the bound, as text."""
    if row["step"] != certificate["step"]:
        raise Refused(f"best.csv is about step {row['step']}, and the certificate about {certificate['step']}")
    bound, step = certificate["bound_ns"], float(row["step_ms"]) * 1e6
    if float(row["bound_ms"]) * 1e6 > bound * (1 + 1e-9):
        raise Refused(f"best.csv has a bound of {row['bound_ms']} ms, and the certificate one of {bound / 1e6} ms")
    if step < bound * (1 - 1e-9):
        raise Refused(f"a step of {row['step_ms']} ms is below the bound of {bound / 1e6} ms")
    gap = step / bound - 1
    return "proved optimal" if gap <= PROVED else f"gap {gap:.2%}"


def main():
    parser = argparse.ArgumentParser(description="Checks certificates of lower bounds.")
    parser.add_argument("certificates", nargs="+", type=pathlib.Path, help="files of weft bench --certify")
    parser.add_argument("--graphs", type=pathlib.Path, help="folder of their graphs (default: graphs beside each)")
    parser.add_argument("--weft", help="the program weft, which makes the graphs of each instance again")
    parser.add_argument("--instances", default=pathlib.Path(__file__).parent, help="folder of the instances, for --weft")
    parser.add_argument("--best", type=pathlib.Path, help="best.csv, whose steps and bounds are compared")
    options = parser.parse_args()
    refused = 0
    try:
        best = {}
        if options.best:
            with open(options.best, encoding="utf-8", newline="") as file:
                best = {row["instance"]: row for row in csv.DictReader(file)}
        for path in options.certificates:
            certificate = read(path)
            try:
                check_certificate(certificate, options.graphs or path.parent / "graphs")
                if options.weft:
                    check_instance(certificate, options.weft, options.instances)
                told = f"{certificate['bound_ns'] / 1e6:.6g} ms, {len(certificate['graphs'])} graphs"
                if certificate["instance"] in best:
                    told += ", " + check_best(certificate, best[certificate["instance"]])
                if not options.weft:
                    told += " (that they are of this instance: --weft build/weft)"
                print(f"{shown(path.name)}: holds, {told}", flush=True)
            except Refused as reason:
                refused += 1
                print(f"{shown(path.name)}: refused: {shown(reason)}", flush=True)
            except (KeyError, TypeError) as error:
                refused += 1
                print(f"{shown(path.name)}: refused: its form is wrong ({type(error).__name__}: {shown(error)})", flush=True)
    except FileNotFoundError as error:
        print(f"error: {shown(error.filename)} is not there; expected a certificate, its graph or best.csv\n"
              "  fix: write them by build/weft bench --certify bench/overlap/certificates -o bench/overlap/results", file=sys.stderr)
        return 2
    except (OSError, EOFError, RecursionError, ValueError) as error:
        print(f"error: {shown(error)}", file=sys.stderr)
        return 2
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
