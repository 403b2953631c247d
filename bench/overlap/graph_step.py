"""A graph file of a step as nodes, edges and resources, read without Weft: the step that a certificate is about."""
import copy
import struct


class Refused(Exception):
    """A certificate that doesn't hold, and why."""


class Fingerprint:
    """64-bit FNV-1a."""

    def __init__(self):
        self.state = 0xCBF29CE484222325

    def data(self, data):
        state = self.state
        for byte in data:
            state = ((state ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
        self.state = state

    def text(self, text):
        data = text.encode()
        self.data(struct.pack("<Q", len(data)) + data)

    def integer(self, value):
        self.data(struct.pack("<q", value))

    def number(self, value):
        self.data(struct.pack("<d", value))


class Item:
    """A node's use of a resource: for `ns`, in which computations lose this part of their speed."""

    def __init__(self, node, ns, loss):
        self.node, self.ns, self.loss = node, ns, loss


class Step:
    """A graph file as nodes, edges and resources. The halves of a message are one node, as are the members of a
    collective of several classes."""

    def __init__(self, document):
        if document.get("format") != "weft-graph" or document.get("version") != 1:
            raise Refused("the graph is no file of format weft-graph, version 1")
        self.channels = document.get("channels", [])
        self.classes = document["classes"]
        contention = document.get("contention", {})
        self.streams = contention.get("compute_streams", 1)
        self.cores = contention.get("shared_cores")
        self.slowdowns = contention.get("slowdowns", [])
        for one in self.classes:
            if one.get("edges_from_accesses", True):
                raise Refused("the graph leaves edges to accesses; a certificate is about one that lists all edges")
        self.between = self._channels_between_classes()
        self._make_nodes()
        self._make_edges()
        self._make_resources()

    def _channels_between_classes(self):
        class_of = {rank: k for k, one in enumerate(self.classes) for rank in one.get("ranks", [])}
        return [any(len({class_of[rank] for rank in group if rank in class_of}) > 1
                    for group in channel.get("groups", [])) for channel in self.channels]

    def _make_nodes(self):
        self.node_of, self.cost, self.link_ns = [], [], []
        shared = {}
        for one in self.classes:
            numbers = []
            for task in one.get("tasks", []):
                kind, key = task.get("kind", "compute"), None
                message = task.get("message", -1)
                if message >= 0:
                    key = ("message", message)
                elif kind == "collective" and self.between[task["channel"]]:
                    key = ("collective", task["channel"], task["name"])
                node = len(self.cost) if key is None else shared.setdefault(key, len(self.cost))
                if node == len(self.cost):
                    self.cost.append(0.0)
                    self.link_ns.append(0.0)
                numbers.append(node)
                if (kind == "send") if message >= 0 else (self.cost[node] == 0):
                    self.cost[node] = float(task.get("ns", 0))
                    self.link_ns[node] = float(task.get("link_ns", task.get("ns", 0)))
            self.node_of.append(numbers)

    def served_one_at_a_time(self, number, first, second):
        """Whether a queue serves both: one compute stream, a channel, or a local stream."""
        tasks = self.classes[number]["tasks"]
        queues = []
        for task in (tasks[first], tasks[second]):
            kind = task.get("kind", "compute")
            if kind == "compute":
                queues.append(("computations", -1))
            elif kind in ("host", "copy"):
                queues.append(("local", task["stream"]))
            else:
                queues.append(("channel", task["channel"]))
        return queues[0] == queues[1] and (queues[0][0] != "computations" or self.streams == 1)

    def queues_of(self, node):
        """The queues that serve a node, and no other node at the same time."""
        return self._queues.get(node, ())

    def in_order(self, number, first, second):
        """This step with one more edge."""
        step = copy.copy(self)
        step.classes = list(self.classes)
        step.classes[number] = dict(self.classes[number])
        step.classes[number]["edges"] = self.classes[number].get("edges", []) + [{"from": first, "to": second}]
        step._make_edges()
        return step

    def _make_edges(self):
        count = len(self.cost)
        self.after, self.before = [[] for _ in range(count)], [[] for _ in range(count)]
        for numbers, one in zip(self.node_of, self.classes):
            for edge in one.get("edges", []):
                if edge.get("kind", "completes_before") != "completes_before":
                    continue
                source, target = numbers[edge["from"]], numbers[edge["to"]]
                self.after[source].append(target)
                self.before[target].append(source)
        missing = [len(sources) for sources in self.before]
        self.order = [node for node in range(count) if missing[node] == 0]
        for node in self.order:
            for target in self.after[node]:
                missing[target] -= 1
                if missing[target] == 0:
                    self.order.append(target)
        if len(self.order) != count:
            raise Refused("the graph has a cycle")

    def _slowdown(self, compute, collective):
        for each in self.slowdowns:
            if each.get("compute", "") in ("", compute) and each.get("collective", "") in ("", collective):
                return each["factor"]
        return 1.0

    def _make_resources(self):
        messages = any(task.get("message", -1) >= 0 for one in self.classes for task in one.get("tasks", []))
        first_of_link = {}
        for number, channel in enumerate(self.channels):
            if channel.get("link"):
                first_of_link.setdefault(channel["link"], number)
        self.resources = {}
        for k, one in enumerate(self.classes):
            computing = {task.get("operation", "") for task in one.get("tasks", [])
                         if task.get("kind", "compute") == "compute" and task.get("ns", 0) > 0}
            losses = {}

            def add(kind, number, item):
                self.resources.setdefault((k, kind, number), []).append(item)

            for task, node in zip(one.get("tasks", []), self.node_of[k]):
                kind = task.get("kind", "compute")
                if kind == "compute":
                    add("computations", -1, Item(node, self.cost[node] / self.streams, 0.0))
                    continue
                if kind in ("host", "copy"):
                    add("local", task["stream"], Item(node, self.cost[node], 0.0))
                    continue
                operation, number = task.get("operation", ""), task["channel"]
                if operation not in losses:
                    least = min((self._slowdown(each, operation) for each in computing), default=1.0)
                    losses[operation] = 1 - 1 / least
                loss = losses[operation]
                add("channel", number, Item(node, self.cost[node], loss))
                link = first_of_link.get(self.channels[number].get("link", ""), number)
                on_link = Item(node, min(self.link_ns[node], self.cost[node]), loss)
                if not messages:
                    add("link", link, on_link)
                else:
                    if kind != "receive":
                        add("link_out", link, on_link)
                    if kind != "send":
                        add("link_in", link, on_link)
                if self.cores:
                    add("cores", -1, Item(node, task.get("cpu_ns", 0) / self.cores, 1.0))

        queues = {}
        for key, items in sorted(self.resources.items()):
            if key[1] in ("channel", "local") or (key[1] == "computations" and self.streams == 1):
                for item in items:
                    queues.setdefault(item.node, []).append(key)
        self._queues = {node: tuple(keys) for node, keys in queues.items()}

    def fingerprint(self):
        """Of all that a bound rests on."""
        mark = Fingerprint()
        mark.integer(self.streams)
        mark.number(self.cores or 0)
        for each in self.slowdowns:
            mark.text(each.get("compute", ""))
            mark.text(each.get("collective", ""))
            mark.number(each["factor"])
        for channel, between in zip(self.channels, self.between):
            mark.text(channel.get("link", ""))
            mark.integer(1 if between else 0)
        for one in self.classes:
            mark.integer(len(one.get("tasks", [])))
            for task in one.get("tasks", []):
                kind, ns = task.get("kind", "compute"), task.get("ns", 0)
                mark.text(kind)
                mark.text(task.get("operation", ""))
                mark.integer(task.get("stream" if kind in ("host", "copy") else "channel", -1))
                mark.integer(task.get("message", -1))
                if kind == "collective" and self.between[task["channel"]]:
                    mark.text(task["name"])
                mark.number(ns)
                mark.number(task.get("link_ns", ns))
                mark.number(task.get("cpu_ns", 0))
            for edge in one.get("edges", []):
                if edge.get("kind", "completes_before") == "completes_before":
                    mark.integer(edge["from"])
                    mark.integer(edge["to"])
        return f"0x{mark.state:016x}"
