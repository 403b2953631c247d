"""Tests of bench/overlap_step that need no network: its refusals, each with its fix, and its arithmetic."""

import importlib.machinery
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

# Words of bench/overlap_step, and what its message has to say. {weft} is a file that exists, {missing} isn't there.
REFUSALS = [
    (["--weft", "{missing}"], "--weft"),
    (["--weft", "{weft}", "--config", "{missing}"], "weft train"),
    (["--weft", "{weft}", "--rate", "fast"], "for example 1gbit"),
    (["--weft", "{weft}", "--rate", "0gbit"], "for example 1gbit"),
    (["--weft", "{weft}", "--pytorch-run", "ddp many"], '"ddp 25"'),
    (["--weft", "{weft}", "--pytorch-run", "fsdp"], '"fsdp2 reshard"'),
    (["--weft", "{weft}", "--pytorch-run", ""], '"fsdp2 reshard"'),
    (["--weft", "{weft}", "--weft-run", "program"], '"data=2 program"'),
    (["--weft", "{weft}", "--rounds", "0"], "at least 1"),
    (["--weft", "{weft}", "--profile-steps", "-1"], "at least 0"),
    (["--weft", "{weft}"], "pip install torch"),
    (["--weft", "{weft}", "--python", "OMP_NUM_THREADS=1"], "NAME=VALUE PATH"),
]


def loaded(script):
    loader = importlib.machinery.SourceFileLoader("overlap_step", str(script))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("overlap_step", loader))
    loader.exec_module(module)
    return module


def wrong_refusals(script):
    wrong = []
    with tempfile.TemporaryDirectory(prefix="weft-overlap-test-") as name:
        weft = Path(name) / "weft"
        weft.touch()
        for words, part in REFUSALS:
            words = [word.format(weft=weft, missing=weft / "missing") for word in words]
            done = subprocess.run([sys.executable, script, *words], capture_output=True, text=True)
            lines = done.stderr.splitlines()
            named = len(lines) == 2 and lines[0].startswith("error: ") and lines[1].startswith("  fix: ")
            if done.returncode != 2 or done.stdout or not named or part not in lines[1]:
                wrong.append(f"{' '.join(words)}: exit code {done.returncode}, {done.stderr.strip()}")
    return wrong


def contestant(step, name, engine, rounds):
    """A contestant whose median steps are `rounds`, in ms."""
    made = step.Contestant(name, engine, None, 1)
    made.runs = [
        {"step_ms": [ms - 1, ms, ms + 50], "losses": [6.0, 5.0], "peak_memory_bytes": 2**20, "sent_bytes": 2**20}
        for ms in rounds
    ]
    return made


def wrong_sums(step):
    """Two rounds; the machine is half as fast in the second, and the wire as fast as before."""
    weft = [contestant(step, "Weft a", "Weft", [100, 200]), contestant(step, "Weft b", "Weft", [120, 190])]
    alone = {"Weft": contestant(step, "Weft alone", "Weft", [80, 160])}
    alone["PyTorch"] = contestant(step, "PyTorch alone", "PyTorch", [100, 200])
    peer = contestant(step, "PyTorch ddp", "PyTorch", [150, 240])
    best = step.best_of(weft)
    row, own = step.summaries([peer, best], alone, best, 60)
    found = {
        "bits": step.bits_per_second("2.5gbit"),
        "no rate": step.bits_per_second("1gbyte"),
        "wire": step.wire_ms(1_000_000, 1e9),
        "best": best.name,
        "step": row["step_ms"],
        "fastest": row["fastest_ms"],
        "times": row["times_best_weft"],
        "hidden": row["hidden"],
        "bound": own["times_bound"]["median"],
        "ddp": step.pytorch_words("ddp 5"),
        "fsdp2": step.pytorch_words("fsdp2 reshard"),
    }
    expected = {
        "bits": 2.5e9,
        "no rate": None,
        "wire": 32.0,
        "best": "Weft a",
        "step": {"median": 195, "least": 150, "most": 240},
        "fastest": 149,
        "times": {"median": 1.35, "least": 1.2, "most": 1.5},
        "hidden": {"median": 0.25, "least": 10 / 60, "most": 20 / 60},
        "bound": 1.25,
        "ddp": ["--parallel", "ddp", "--bucket-mb", "5"],
        "fsdp2": ["--parallel", "fsdp2", "--reshard"],
    }
    wrong = [
        f"{key}: {found[key]}, expected {expected[key]}" for key in expected if not same(found[key], expected[key])
    ]
    wrong += [
        f"a table without {part}"
        for part in ("195", "1.35 (1.20–1.50)", "6.00 → 5.00")
        if part not in step.table([row])
    ]
    return wrong


def same(found, expected):
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(same(found[key], expected[key]) for key in expected)
    return abs(found - expected) < 1e-9 if isinstance(expected, float) else found == expected


def wrong_judgements(step):
    """Losses that rise or aren't finite, and models of two sizes, end the script."""
    wrong = []
    for name, losses, ends in (
        ("falling", [6, 5.9, 5.8, 5.7, 5.6, 5.5], False),
        ("rising", [6, 6.1, 6.2, 6.3, 6.4, 6.5], True),
        ("not finite", [6, float("nan")], True),
    ):
        made = step.Contestant(name, "PyTorch", lambda: {"step_ms": [1], "losses": losses})
        if ended(made.run) != ends:
            wrong.append(f"losses that are {name} {'are accepted' if ends else 'end the script'}")
    for count, ends in ((10, False), (11, True)):
        pair = [step.Contestant(name, name, None) for name in ("Weft", "PyTorch")]
        pair[0].parameters, pair[1].runs = 10, [{"parameters": count}]
        if ended(lambda: step.check_parameters(pair)) != ends:
            wrong.append(f"10 and {count} parameters {'are accepted' if ends else 'end the script'}")
    return wrong


def ended(call):
    try:
        call()
    except SystemExit:
        return True
    return False


def self_test(script):
    """Exit code 0 if nothing is wrong."""
    step = loaded(script)
    wrong = [*wrong_refusals(script), *wrong_sums(step), *wrong_judgements(step)]
    for line in wrong:
        print(f"WRONG: {line}")
    print(f"{len(wrong)} results are wrong." if wrong else "Every refusal and every sum is right.")
    return 1 if wrong else 0
