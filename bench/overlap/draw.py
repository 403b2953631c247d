#!/usr/bin/env python3
"""Draws instances of OverlapBench by a rule, so that no policy had a part in choosing them.

A step is a model, a machine, a grid, a batch and options. Every combination of the lists below that is a step of
ordinary use has a hash, SHA-256 of its values, and of each list's combinations the one with the least hash is drawn. The
files in bench/overlap/drawn are what this program writes; --check compares them.
"""

import argparse
import hashlib
import itertools
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent / "drawn"
# Instance, model, (layers, hidden, heads, key and value heads, vocabulary), ranks of ordinary use, tokens of a sequence.
LISTS = [
    ("124m", "gpt2-124m", (12, 768, 12, 12, 50257), (4, 8, 16), (1024,)),
    ("350m", "gpt2-350m", (24, 1024, 16, 16, 50257), (8, 16, 32), (1024,)),
    ("774m", "gpt2-774m", (36, 1280, 20, 20, 50257), (8, 16, 32), (1024,)),
    ("1558m", "gpt2-1558m", (48, 1600, 25, 25, 50257), (16, 32, 64), (1024,)),
    ("llama-1b", "llama-1b", (16, 2048, 32, 8, 128256), (8, 16, 32), (2048, 8192)),
    ("llama-3b", "llama-3b", (28, 3072, 24, 8, 128256), (8, 16, 32), (2048, 8192)),
    ("llama-8b", "llama-8b", (32, 4096, 32, 8, 128256), (16, 32, 64), (2048, 8192)),
    ("llama-8b-long", "llama-8b", (32, 4096, 32, 8, 128256), (16, 32, 64), (32768,)),
    ("5b", "gpt-5b", (24, 4096, 32, 32, 51200), (16, 32, 64), (2048,)),
    ("10b", "gpt-10b", (32, 5120, 40, 40, 51200), (32, 64, 128), (2048,)),
    ("20b", "gpt-20b", (32, 7168, 56, 56, 51200), (64, 128, 256), (2048,)),
    ("llama-70b-256", "llama-70b", (80, 8192, 64, 8, 128256), (256,), (8192,)),
    ("llama-70b-long", "llama-70b", (80, 8192, 64, 8, 128256), (512,), (32768,)),
    ("80b", "gpt-80b", (42, 12288, 96, 96, 51200), (256, 512, 1024), (2048,)),
]
RECOMPUTED = ("llama-70b", "gpt-20b", "gpt-80b")  # and any with long sequences
MACHINES = {"dgx-h100": (8, 80e9), "perlmutter": (4, 40e9), "tpu-v4": (4, 32e9), "alps": (4, 96e9)}  # a node's, memory
SIZES = (1, 2, 4, 8, 16, 32, 64)
MICRO_BATCHES = (1, 2, 4)  # a rank takes
ROWS = (1, 2)  # of a micro-batch
MOST_TASKS = 30_000  # roughly, of all rank classes: policies that search take minutes


def recomputes(model, seq_len):
    return model in RECOMPUTED or seq_len > 8192


def fits(model, sizes, memory, grid, rows, seq_len):
    """Roughly: weights, moments and gradients, what layers keep (Korthikanti et al. 2022), and logits, in 62 %."""
    layers, hidden, _, _, vocabulary = sizes
    x, y, z, _, pipe = grid
    tensor, tokens = x * y, rows * seq_len
    state = 16 * (12 * layers * hidden * hidden + vocabulary * hidden) / (tensor * z * pipe)
    a_layer = tokens * hidden * (10 + 24 / tensor)
    kept = (2 * tokens * hidden * layers + a_layer) if recomputes(model, seq_len) else a_layer * layers
    return state + kept + 6 * tokens * vocabulary / tensor <= 0.62 * memory


def is_ordinary(model, sizes, ranks, machine, grid, micro_batches, rows, seq_len):
    """What a person would try: tensor axes within a node, a pipeline that has work, a step that fits."""
    layers, _, heads, kv_heads, _ = sizes
    x, y, z, data, pipe = grid
    node, memory = MACHINES[machine]
    if x * y * z * data * pipe != ranks or x * y > node or x > y or heads % y != 0 or kv_heads % y != 0:
        return False
    if pipe > 1 and (layers % (2 * pipe) != 0 or micro_batches < pipe or x > 1):  # two chunks a rank fit
        return False
    tasks = layers * micro_batches * 60 * (1 if pipe == 1 else 1.5)
    return tasks <= MOST_TASKS and fits(model, sizes, memory, grid, rows, seq_len)


def combinations(model, sizes, rank_counts, lengths):
    for machine, ranks, seq_len, micro_batches, rows in itertools.product(
            MACHINES, rank_counts, lengths, MICRO_BATCHES, ROWS):  # fmt: skip
        for grid in itertools.product((1, 2), (1, 2, 4, 8), SIZES, SIZES, (1, 2, 4)):
            if not is_ordinary(model, sizes, ranks, machine, grid, micro_batches, rows, seq_len):
                continue
            axes = ",".join(f"{axis}={size}" for axis, size in zip(("x", "y", "z", "data", "pipe"), grid) if size > 1)
            yield {"model": model, "machine": machine, "grid": axes, "seq-len": seq_len,
                   "micro-batch": rows, "global-batch": rows * micro_batches * grid[2] * grid[3]}  # fmt: skip


def drawn(model, *lists):
    def digest(step):
        return hashlib.sha256(repr(sorted(step.items())).encode()).hexdigest()

    return min(combinations(model, *lists), key=digest)


def file_of(step):
    size = 'recompute = "block"\n' if recomputes(step["model"], step["seq-len"]) else ""
    text = f"# {step['model']} on {step['machine']}, drawn by bench/overlap/draw.py.\n"
    for key in ("model", "grid"):
        text += f'{key} = "{step[key]}"\n'
    for key in ("seq-len", "global-batch", "micro-batch"):
        text += f"{key} = {step[key]}\n"
    return text + size + f'dtype = "bf16"\nmachine = "overlap/{step["machine"]}"\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="compare the files, and write nothing")
    check = parser.parse_args().check
    FOLDER.mkdir(exist_ok=True)
    wanted = {f"drawn-{name}.toml": file_of(drawn(*lists)) for name, *lists in LISTS}
    different = {path.name for path in FOLDER.glob("drawn-*.toml")} ^ wanted.keys()
    for name, text in wanted.items():
        path = FOLDER / name
        if not check:
            path.write_text(text)
        elif path.exists() and path.read_text() != text:
            different.add(name)
    if check and different:
        print(f"draw.py: error: {', '.join(sorted(different))} isn't as drawn\n  fix: bench/overlap/draw.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
