"""The results that a command of weft leaves, without measured values, and the differences between two such results."""

import hashlib
import json
import re
import struct

# Files that hold a run's times or belong to one run only; and graph.svg, because Graphviz numbers its sections by
# address: its content is in graph.dot.
NOT_COMPARED = {"timeline.svg", "report.html", "log.txt", ".lock", "graph.svg"}

# Measured fields, by the file or the command whose JSON they are in.
MEASURED = {
    "metrics.jsonl": {"step_ms", "tokens_per_s", "model_tflops", "exposed_comm_ms", "peak_memory_bytes", "wall_time"},
    "manifest.json": {"versions"},  # of the compiler, the libraries and weft
    "comparison.json": {"planning_ms"},
    "compare": {"planning_ms"},
    "generate": {"tokens_per_s"},
    "train": {
        "planning_ms",
        "seconds",
        "first_step_seconds",
        "step_ms",
        "tokens_per_s",
        "communication_ms",
        "exposed_comm_ms",
        "overlap_fraction",
        "peak_memory_bytes",
        "program_memory_bytes",
    },
}

# Values are counted by the first entry that matches a field's name.
FIGURES = (("losses", ("loss",)), ("gradient norms", ("grad_norm",)), ("plan fingerprints", ("fingerprint",)))


def without(value, names):
    """JSON without the fields `names` at any depth."""
    if isinstance(value, dict):
        return {key: without(item, names) for key, item in value.items() if key not in names}
    if isinstance(value, list):
        return [without(item, names) for item in value]
    return value


def _trace(document):
    """The plan in a trace, and its events without times, in an order that doesn't depend on times."""
    plan = without(document["weft"], {"origin_ns"})
    for rank in plan["ranks"]:
        rank["steps"] = [number for number, _begin, _end in rank["steps"]]
    # The bytes in flight at a moment depend on times, and so do the flow events that bind to them.
    events = [without(event, {"ts", "dur", "grown_ns"}) for event in document["traceEvents"] if event["ph"] in "XM"]
    return {"weft": plan, "traceEvents": sorted(json.dumps(event, ensure_ascii=False) for event in events)}


def content(name, data):
    """A file's bytes; or its JSON, if some of its fields are measured or times."""
    measured = MEASURED.get(name)
    if name == "trace.json" or name.startswith("trace.stage"):
        return _trace(json.loads(data))
    if name == "config.toml":  # a folder that weft named has the time in its name
        return re.sub(rb'(?m)^run-dir = "[^"]*-\d{8}-\d{6}"$', b"", data)
    if measured is None:
        return data
    text = data.decode("utf-8")
    if name == "metrics.jsonl":
        return [without(json.loads(line), measured) for line in text.splitlines()]
    return without(json.loads(text), measured)


def printed(command, text):
    """The output of a command: JSON without measured fields, or text."""
    try:
        return without(json.loads(text), MEASURED.get(command, set()))
    except ValueError:
        return text.encode("utf-8")


def results_in(folder):
    """The results in a case's folder, by path."""
    results = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name not in NOT_COMPARED and not path.match("log.rank*.txt"):
            results[str(path.relative_to(folder))] = content(path.name, path.read_bytes())
    return results


def count(results):
    """How many values of each kind were compared."""
    counts = {}

    def add(kind):
        counts[kind] = counts.get(kind, 0) + 1

    def figures(value, name=""):
        if isinstance(value, dict):
            for key, item in value.items():
                figures(item, key)
        elif isinstance(value, list):
            for item in value:
                figures(item, name)
        else:
            add(next((kind for kind, parts in FIGURES if any(part in name for part in parts)), "other figures"))

    for path, value in results.items():
        if "checkpoints/" in path:
            add("files of checkpoints")
        elif isinstance(value, bytes) and b'"weft-plan"' in value[:100]:
            add("plan files")
            add("plan fingerprints")
        elif isinstance(value, bytes):
            add("other files and texts")
        if not isinstance(value, bytes):
            figures(value)
    return counts


def short(value, most=60):
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= most else text[: most - 1] + "…"


def first_difference(one, other):
    return next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))


def from_difference(one, other):
    """The parts of two texts from their first difference on."""
    begin = max(0, first_difference(one, other) - 20)
    return short(one[begin:]), short(other[begin:])


def _json_differences(place, before, after, found):
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            inner = f"{place}.{key}" if place else key
            if key not in after:
                found.append((inner, short(before[key]), "missing"))
            elif key not in before:
                found.append((inner, "missing", short(after[key])))
            else:
                _json_differences(inner, before[key], after[key], found)
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            found.append((f"length of {place or 'the list'}", str(len(before)), str(len(after))))
        for index, (one, other) in enumerate(zip(before, after)):
            _json_differences(f"{place}[{index}]", one, other, found)
    elif isinstance(before, str) and isinstance(after, str):
        if before != after:
            found.append((place, *from_difference(before, after)))
    elif before != after or type(before) is not type(after):
        found.append((place, short(before), short(after)))


def _tensor_at(data, offset):
    """The entry of a safetensors file that contains a byte; "" in other files."""
    try:
        (length,) = struct.unpack_from("<Q", data)
        for name, entry in json.loads(data[8 : 8 + length]).items():
            first, end = entry.get("data_offsets", (0, 0))
            if first <= offset - 8 - length < end:
                return f", in {name}"
    except (ValueError, struct.error, AttributeError, TypeError):
        pass
    return ""


def _byte_difference(before, after):
    same = first_difference(before, after)
    try:
        texts = [data.decode("utf-8").splitlines() for data in (before, after)]
        line = before[:same].count(b"\n")
        one, other = (text[line] if line < len(text) else "end of file" for text in texts)
        return f"line {line + 1}", *from_difference(one, other)
    except UnicodeDecodeError:
        place = f"byte {same} of {len(before)}{_tensor_at(before, same)}"
        return place, *(
            f"{data[same : same + 8].hex()} ({hashlib.sha256(data).hexdigest()[:8]})" for data in (before, after)
        )


def differences(before, after):
    """(file, place, before, after) for every difference between two results."""
    rows = []
    for path in sorted(before.keys() | after.keys()):
        one, other = before.get(path), after.get(path)
        if one is None or other is None:
            rows.append((path, "", "missing" if one is None else "there", "missing" if other is None else "there"))
        elif isinstance(one, bytes) and isinstance(other, bytes):
            if one != other:
                rows.append((path, *_byte_difference(one, other)))
        elif isinstance(one, bytes) or isinstance(other, bytes):
            rows.append((path, "", *("text" if isinstance(value, bytes) else "JSON" for value in (one, other))))
        else:
            found = []
            _json_differences("", one, other, found)
            rows += [(path, *row) for row in found]
    return rows
