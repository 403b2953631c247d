"""Builds of a commit, measured runs of `weft train`, and the times in their traces by kind of task. For the scripts in
this folder."""

import json
import os
import re
import shlex
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# Turns off everything that a measured run doesn't need, such as checkpoints during the run. Tokens come from a short
# file, so that evaluations are short and the run ends without writing a sample.
QUIET_RUN = ["--save-every", "0", "--warmup", "0", "--quiet"]


def fail(message):
    sys.exit(f"error: {message}")


def run(words, under=(), **options):
    """Runs a command to its end and returns what it printed; ends the script with its errors if it fails."""
    done = subprocess.run([*under, *words], capture_output=True, text=True, **options)
    if done.returncode != 0:
        fail(f"{' '.join(map(str, words))}: exit code {done.returncode}\n{done.stderr.strip()}")
    return done.stdout


def git(*words):
    return run(["git", "-C", ROOT, *words]).strip()


def exported(commit, folder):
    """The commit's files below `folder`, by its hash. Files of an earlier call stay, with the builds made from them."""
    source = folder / git("rev-parse", "--verify", commit + "^{commit}")[:16] / "source"
    if source.exists():
        return source
    source.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=source.parent))
    archive = subprocess.Popen(["git", "-C", ROOT, "archive", commit], stdout=subprocess.PIPE)
    unpacked = subprocess.run(["tar", "-x", "-C", unfinished], stdin=archive.stdout)
    if archive.wait() != 0 or unpacked.returncode != 0:
        shutil.rmtree(unfinished)
        fail(f"commit {commit} can't be exported")
    unfinished.chmod(0o755)
    unfinished.rename(source)
    return source


def built(commit, folder, jobs, cpu_only=False):
    """The path of a weft built from `commit`, or, for ".", from the working tree as it is; builds are below
    `folder`."""
    source = ROOT if commit == "." else exported(commit, folder)
    build = (folder / "working-tree" if commit == "." else source.parent) / ("build-cpu" if cpu_only else "build")
    print(f"building {commit} in {build}", file=sys.stderr)
    flags = (["-G", "Ninja"] if shutil.which("ninja") else []) + (["-DGPU=OFF"] if cpu_only else [])
    if shutil.which("ccache"):
        flags.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    # Paths below the source count as relative, so that ccache recognises a file in another folder.
    environment = {**os.environ, "CCACHE_BASEDIR": str(source), "CCACHE_NOHASHDIR": "1"}
    configure = ["cmake", "-S", source, "-B", build, "-DCMAKE_BUILD_TYPE=Release", "-DWEFT_TESTS=OFF", *flags]
    run(configure, env=environment)
    run(["cmake", "--build", build, "--target", "weft", "-j", str(jobs)], env=environment)
    return build / "weft"


def refuse_assertions(weft):
    """Ends the script if the program checks invariants while it runs: its times say nothing about other builds."""
    if ", assertions," in run([weft, "--version"]):
        fail(f"{weft} is built with WEFT_ASSERTIONS, which takes time; build another with -DWEFT_ASSERTIONS=OFF")


def write_token_file(path, vocab, ids):
    """A token file in llm.c's format."""
    narrow = vocab <= 2**16
    header = (20240520, 1, len(ids)) if narrow else (20240801, 7, len(ids))
    body = struct.pack(f"<{len(ids)}{'H' if narrow else 'I'}", *ids)
    path.write_bytes(struct.pack("<256i", *header, *([0] * 253)) + body)


def random_numbers(below, count):
    """Pseudo-random numbers, the same on every call."""
    numbers, state = [], 1
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        numbers.append((state >> 33) % below)
    return numbers


def write_tokens(path, vocab, count):
    """A token file with pseudo-random ids, the same on every call: there is nothing to learn."""
    write_token_file(path, vocab, random_numbers(vocab, count))


def interpreter_words(text):
    """The words of "[NAME=VALUE…] PATH", an interpreter preceded by environment variables; None if it has no PATH."""
    words = shlex.split(text)
    return words if any("=" not in word for word in words) else None


class TrainRun:
    """Measurements of one `weft train`: times of its steps in ms, its memory, and a step's time by kind of task."""

    def __init__(self, metrics, events):
        self.step_ms = [line["step_ms"] for line in metrics]
        self.losses = [line["loss"] for line in metrics]
        self.peak_memory_bytes = metrics[-1]["peak_memory_bytes"]
        last = metrics[-1]
        self.model_flops = last["model_tflops"] * last["step_ms"] * 1e9  # of a step, without recomputation
        self.kinds = kinds_of(events)


def train(weft, words, under=(), folder=None):
    """One run of `weft train` with `words`; its files are removed afterwards. `folder`: the parent of the run
    folder."""
    run_dir = Path(tempfile.mkdtemp(prefix="weft-bench-", dir=folder))
    try:
        run([weft, "train", *words, *QUIET_RUN, "--run-dir", run_dir], under)
        metrics = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
        trace = json.loads((run_dir / "trace.json").read_text())
    finally:
        shutil.rmtree(run_dir, ignore_errors=True)
    return TrainRun(metrics, trace["traceEvents"])


def kind_of(event):
    """The kind of a task: "gemm mlp.up dx" for matrix products, which differ by their place in the model; else
    "adamw"."""
    category = event["cat"]
    if category != "gemm":
        return category
    place = re.sub(r"^(mb\d+\.)?(L\d+\.)?", "", event["name"])
    return "gemm " + re.sub(r"\.(fwd|refwd|bwd)\.gemm(_?)", r" \1 ", place).replace(" bwd ", " ").strip()


def kinds_of(events):
    """By kind, over all ranks: tasks, flops and bytes of a step, and the time of each traced step in ms."""
    steps = sorted({e["args"]["step"] for e in events if e["ph"] == "X"})
    kinds = {}
    for event in events:
        if event["ph"] != "X" or event["cat"] == "user_annotation":
            continue
        kind = kinds.setdefault(
            kind_of(event), {"tasks": 0, "flops": 0.0, "bytes": 0.0, "ms": dict.fromkeys(steps, 0.0)}
        )
        arguments = event["args"]
        kind["ms"][arguments["step"]] += event["dur"] / 1e3
        if arguments["step"] == steps[0]:
            kind["tasks"] += 1
            kind["flops"] += arguments["flops"]
            kind["bytes"] += arguments["bytes"]
    for kind in kinds.values():
        kind["ms"] = statistics.median(kind["ms"].values())
    return kinds


def markdown_table(header, rows):
    """The first column is text, the others are numbers."""
    lines = [header, ["---"] + ["--:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


if __name__ == "__main__":
    if len(sys.argv) != 3 or not sys.argv[2].isdigit():
        sys.exit(
            "Usage: python3 bench/weft_runs.py FILE.bin VOCABULARY\nWrites 400,000 ids to train on for measurements."
        )
    write_tokens(Path(sys.argv[1]), int(sys.argv[2]), 400_000)
