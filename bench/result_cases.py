"""The cases of bench/same_results: short runs on the tests' models, and planning commands, with each case's
commands."""

import os
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import weft_runs
from weft_runs import ROOT, fail

# Names of files that are made before the cases, relative to a case's folder.
INPUTS = "../../inputs"

POLICIES = [
    "serial",
    "program",
    "program:depth=2",
    "axonn",
    "axonn:oar=off,ors=off,oag=off",
    "axonn:oar=on,ors=off,oag=off",
    "axonn:oar=on,ors=on,oag=off",
    "axonn:lookahead=3",
    "ddp-bucket",
    "ddp-bucket:bucket-mb=0.01,first-mb=0.001",
    "fsdp",
    "fsdp:backward=post,reshard=off,forward-depth=2,backward-depth=0,max-gathered=3",
    "critical-path",
    "lhs",
    "lhs:rules=near+hide+communication+program",
    f"lhs:rules={INPUTS}/lhs_rules.toml",
    "random",
    "random:seed=3",
    "anneal:iterations=60",
    "anneal:iterations=40,seed=5",
    "portfolio",
    "portfolio:budget=50",
]

REWRITES = [
    "bucket=4KB",
    "split-collective=2KB",
    "ar-to-rs-ag",
    "reshard",
    "recompute=0-1",
    "recompute=1",
    "pack-weights=2",
    "fuse-gelu",
    "batch-split=2",
    "bucket=8KB;split-collective=4KB;ar-to-rs-ag;reshard;recompute=0",
]

GRIDS = [
    "x=1",
    "x=2",
    "y=2",
    "z=2",
    "data=2",
    "x=2,y=2",
    "x=2,z=2",
    "y=2,data=2",
    "z=2,data=2",
    "x=2,y=2,z=2",
    "pipe=2",
    "z=2,pipe=2",
]

PIPELINES = ["pipe=2", "x=2,pipe=2", "z=2,pipe=2", "pipe=4"]

PIPELINE_POLICIES = [
    "serial",
    "program",
    "1f1b",
    "gpipe",
    "interleaved",
    "zb-h1",
    "zb-v",
    "pipe-list",
    "pipe-search",
    "critical-path",
    "lhs",
    "random",
    "anneal:iterations=40",
    "portfolio:budget=40",
]

_SIZES = (
    "--model custom --model.layers 2 --model.hidden 32 --model.heads 4 --model.context 16 --model.vocab 257 ".split()
)
_LLAMA = [*_SIZES, "--model.family", "llama", "--model.ffn", "48"]
_GPT = [*_SIZES, "--model.ffn", "96"]

MODELS = {
    "gpt": [*_GPT, "--model.tied", "true"],
    "gpt untied": [*_GPT, "--model.tied", "false"],
    "llama": [*_LLAMA, "--model.kv-heads", "2", "--model.tied", "false"],
    "llama tied": [*_LLAMA, "--model.kv-heads", "2", "--model.tied", "true"],
    "llama one kv head": [*_LLAMA, "--model.kv-heads", "1", "--model.tied", "false"],
    "llama all kv heads": [*_LLAMA, "--model.kv-heads", "4", "--model.tied", "false"],
}

# Layers for two chunks on each of four stages.
PIPELINE_MODEL = [*_GPT, "--model.tied", "true", "--model.layers", "8", "--micro-batch", "1"]

# Options that choose by measuring could choose differently in each run: here nothing is measured.
STEP = ["--global-batch", "4"]
DTYPES = {"fp32": ["--dtype", "fp32"], "bf16": ["--dtype", "bf16", "--bf16-products", "fp32"]}
THREADS = ["--threads", "1"]  # of commands that run a step
DATA = ["--data", f"{INPUTS}/text.txt"]
TRAIN = ["train", *STEP, *THREADS, *DATA, "--steps", "3", "--warmup", "1", "--eval-sequences", "8", "--json"]


@dataclass
class Command:
    """One call of weft; with `mpi`, by that many processes."""

    words: list
    mpi: int = 0
    exit_code: int = 0


@dataclass
class Case:
    name: str
    commands: list = field(default_factory=list)
    quick: bool = False  # part of the set that takes a minute

    @property
    def folder(self):
        return re.sub(r"[^A-Za-z0-9=.-]+", "_", self.name)


def _train(name, *words, grid="x=1", model="gpt", run="run", quick=False, then=(), mpi=0):
    """A run into the folder `run`, followed by commands on it."""
    words = [*TRAIN, *MODELS[model], "--grid", grid, "--run-dir", run, *words]
    return Case(name, [Command(words, mpi), *(Command(list(more)) for more in then)], quick)


def _models_on_grids():
    for model in MODELS:
        for dtype in ("fp32", "bf16"):
            for grid in GRIDS:
                if model == "llama one kv head" and "y=" in grid:
                    continue  # y divides the heads of keys and values
                quick = (model, grid) in {("gpt", "x=1"), ("gpt", "x=2,z=2"), ("llama", "y=2,data=2")}
                yield _train(f"{model}, {dtype}, {grid}", *DTYPES[dtype], grid=grid, model=model, quick=quick)


def _options():
    """Each setting that changes what a step computes, on two models and grids."""
    settings = {
        "dropout": ["--dropout", "0.1"],
        "no clipping": ["--clip", "0"],
        "much clipping": ["--clip", "0.05"],
        "micro-batches": ["--micro-batch", "1"],
        "recompute": ["--recompute", "block"],
        "ZeRO-1": ["--zero-1", "true"],
        "reshard after forward": ["--reshard-after-forward", "true"],
        "gradients reduced each micro-batch": ["--gradient-reduction", "micro-batch", "--micro-batch", "1"],
        "gradients sent in bf16": ["--reduce-dtype", "bf16"],
        "two streams": ["--streams", "2"],
        "two threads": ["--threads", "2"],
        "weights packed": ["--pack-weights", "on", "--micro-batch", "1"],
        "weights not packed": ["--pack-weights", "off", "--micro-batch", "1"],
        "GELU fused": ["--fuse-gelu", "on"],
        "check for NaN": ["--check-nan", "true"],
        "linear schedule": ["--schedule", "linear", "--min-lr", "1e-5"],
        "wsd schedule": ["--schedule", "wsd"],
        "constant schedule": ["--schedule", "constant", "--lr", "0.01"],
        "other AdamW": ["--beta1", "0.8", "--beta2", "0.99", "--eps", "1e-6", "--weight-decay", "0"],
        "another seed": ["--seed", "7"],
        "order of axes": ["--axis-order", "data,z,y,x"],
        "planned for a machine": ["--machine", "dgx-h100", "--policy", "critical-path"],
        "planned from a profile": ["--profile", f"{INPUTS}/profile.json", "--policy", "critical-path"],
        "memory limit": ["--memory", "2MiB", "--policy", "lhs"],
        "evaluations and checkpoints": ["--eval-every", "1", "--save-every", "1", "--keep-last", "2"],
        "token file": ["--data", f"{INPUTS}/tokens.bin", "--val-data", f"{INPUTS}/held_out.bin"],
        "short sequences": ["--seq-len", "8"],
        "tuned products": ["--gemm-tuning", f"{INPUTS}/tuned.json"],
    }
    for name, words in settings.items():
        quick = name in {
            "dropout",
            "micro-batches",
            "recompute",
            "ZeRO-1",
            "weights packed",
            "GELU fused",
            "tuned products",
        }
        yield _train(f"{name}: gpt", *words, grid="z=2,data=2", quick=quick)
        yield _train(f"{name}: llama in bf16", *words, *DTYPES["bf16"], grid="x=2,data=2", model="llama")
    with open("/proc/cpuinfo", encoding="utf-8") as cpuinfo:
        flags = cpuinfo.read()
    for method, flag in (("pairs", "avx512_bf16"), ("amx", "amx_bf16")):
        if flag in flags:
            for model in ("gpt", "llama"):
                words = ["--dtype", "bf16", "--bf16-products", method, "--micro-batch", "1"]
                yield _train(f"bf16 products by {method}: {model}", *words, grid="x=2", model=model, quick=True)


def _orders():
    """Policies and rewrites that run, with dropout and clipping on."""
    both = ["--dropout", "0.1", "--micro-batch", "1"]
    for policy in POLICIES:
        quick = policy in {"serial", "axonn", "fsdp", "critical-path", "portfolio"}
        yield _train(f"policy {policy}: gpt", *both, "--policy", policy, grid="x=2,z=2", quick=quick)
        yield _train(f"policy {policy}: llama", "--policy", policy, "--streams", "2", grid="y=2,data=2", model="llama")
    for rewrite in REWRITES:
        # Micro-batches that can be halved.
        yield _train(f"rewrite {rewrite}: gpt", "--dropout", "0.1", "--rewrites", rewrite, grid="z=2", quick=True)
        words = [*DTYPES["bf16"], "--rewrites", rewrite]
        yield _train(f"rewrite {rewrite}: llama in bf16", *words, grid="x=2,data=2", model="llama")
    words = ["--policy", f"file:{INPUTS}/plan.json"]
    yield _train("a plan file of the program before", *words, grid="data=2", quick=True)


def _after_training():
    """Commands after a run: resuming, evaluating, generating, exporting."""
    generate = ["generate", "run", "--threads", "1", "--json", "--max-tokens", "24", "--prompt", "warp and"]
    chakra = ["export", "run", "--format", "chakra", "-o", "chakra"]
    checks = [["trace", "check", "run"], chakra, ["graph", "run/config.toml", "-o", "drawn.json"]]
    for model in MODELS:
        for grid, dtype in (("x=1", "fp32"), ("x=2,z=2", "bf16")):
            then = [
                ["eval", "run", "--json"],
                ["eval", "run", "--json", "--grid", "data=2", "--dtype", "fp32"],
                [*generate, "--temperature", "0"],
                [*generate, "--temperature", "0.9", "--top-k", "20", "--top-p", "0.9", "--seed", "3"],
                ["export", "run", "-o", "hf"],
                ["eval", "hf", "--json", "--data", f"{INPUTS}/text.txt", "--seq-len", "16"],
                *checks,
            ]
            name = f"eval, generate, export: {model}, {dtype}, {grid}"
            words = [*DTYPES[dtype], "--gemm-tuning", "none"]
            yield _train(name, *words, grid=grid, model=model, then=then, quick=model in ("gpt", "llama"))
    for model in ("gpt", "llama"):
        for dtype in ("fp32", "bf16"):
            for grid, other in (
                ("x=1", "data=2"),
                ("x=2,z=2", "x=2,z=2"),
                ("z=2,data=2", "y=2"),
                ("y=2", "x=1"),
                ("pipe=2", "data=2"),
                ("x=2", "z=2,pipe=2"),
            ):
                first = [*TRAIN, *MODELS[model], *DTYPES[dtype], "--dropout", "0.1", "--schedule", "constant"]
                more = ["--steps", "5", "--grid", other, "--resume", "run", "--run-dir", "resumed"]
                commands = [Command([*first, "--grid", grid, "--run-dir", "run"]), Command([*first, *more])]
                name = f"resume: {model}, {dtype}, {grid} to {other}"
                yield Case(name, commands, quick=grid == "x=2,z=2")
    resume = ["--steps", "5", "--resume", f"{INPUTS}/run"]
    yield _train("resume a run of the program before", *resume, grid="data=2", quick=True)
    yield _train("start from weights of the program before", "--init-from", f"{INPUTS}/run", grid="x=2", quick=True)
    yield _train("start from a Hugging Face folder", "--init-from", f"{INPUTS}/hf", grid="y=2", quick=True)


def _processes():
    for name, words, grid, model in (
        ("gpt", ["--dropout", "0.1"], "data=2", "gpt"),
        ("gpt, micro-batches and ZeRO-1", ["--micro-batch", "1", "--zero-1", "true"], "z=2,data=2", "gpt"),
        ("llama in bf16", [*DTYPES["bf16"], "--policy", "axonn"], "x=2,z=2", "llama"),
        ("gpt in stages", ["--micro-batch", "1", "--policy", "1f1b"], "x=2,pipe=2", "gpt"),
        (
            "llama, critical path and rewrites",
            ["--policy", "critical-path", "--rewrites", REWRITES[-1]],
            "y=2",
            "llama",
        ),
    ):
        ranks = 4 if "," in grid else 2
        yield _train(
            f"processes of MPI: {name}, {grid}", *words, grid=grid, model=model, mpi=ranks, quick=name == "gpt"
        )


def _plans():
    """Every policy's plan file, and the plans that training would make, without training."""
    for model in ("gpt", "llama"):
        for grid in ("x=1", "data=2", "x=2,z=2", "z=2,data=2", "x=2,y=2,z=2"):
            step = [*STEP, *MODELS[model], "--grid", grid, "--micro-batch", "1"]
            commands = [Command(["plan", *step, "--policy", p, "-o", f"plan{i}.json"]) for i, p in enumerate(POLICIES)]
            commands.append(Command(["diff", "plan0.json", "plan1.json", "--most", "0"]))
            yield Case(f"plans of every policy: {model}, {grid}", commands, quick=grid == "x=2,z=2")
        for grid in ("data=2", "z=2"):
            step = [*STEP, *MODELS[model], "--grid", grid]
            commands = [
                Command(["plan", *step, "--rewrites", r, "-o", f"plan{i}.json"]) for i, r in enumerate(REWRITES)
            ]
            yield Case(f"plans after every rewrite: {model}, {grid}", commands, quick=grid == "z=2")
        for grid in GRIDS:
            for dtype in ("fp32", "bf16"):
                words = ["train", *STEP, *THREADS, *MODELS[model], *DATA]
                words += ["--grid", grid, *DTYPES[dtype], "--dry-run", "--json"]
                yield Case(f"dry run: {model}, {dtype}, {grid}", [Command(words)], quick=True)
    for model, grid, machine in (
        ("gpt2-124m", "y=2,z=2", "dgx-h100"),
        ("gpt2-124m", "data=2", "laptop"),
        ("llama-1b", "x=2,y=2,z=2", "perlmutter"),
        ("llama-1b", "z=4,data=2", "frontier"),
        ("gpt-20b", "x=2,y=4,z=8", "alps"),
    ):
        step = ["--model", model, "--grid", grid, "--machine", machine, "--dtype", "bf16", "--global-batch", "64"]
        step += ["--seq-len", "256", "--recompute", "block", "--pack-weights", "off"]
        commands = [
            Command(["plan", *step, "--policy", p, "-o", f"{p}.json"]) for p in ("program", "critical-path", "fsdp")
        ]
        commands.append(Command(["simulate", *step, "--json"]))
        yield Case(f"large model: {model}, {grid}, {machine}", commands, quick=machine == "dgx-h100")


def _pipelines():
    """Commands that describe a step of several stages, and short trainings; also with less memory than it takes."""
    for grid in PIPELINES:
        step = [*STEP, *PIPELINE_MODEL, "--global-batch", "8", "--grid", grid]
        for policy in PIPELINE_POLICIES:
            ordered = [*step, "--policy", policy]
            commands = [
                ["simulate", *ordered, "--json", "--svg", "simulated.svg"],
                ["explain", *ordered, "--json"],
                ["timeline", *ordered, "--json"],
                ["timeline", *ordered, "--text"],
                ["memory", *ordered, "--grids", grid, "--json"],
                ["graph", *ordered, "-o", "ordered.dot"],
            ]
            quick = grid == "x=2,pipe=2" and policy in {"serial", "1f1b", "zb-v", "lhs"}
            yield Case(f"pipeline {grid}: {policy}", [Command(words) for words in commands], quick)
        noise = ["--noise", "0.2", "--simulated-steps", "3", "--slow-rank", "1.3"]
        profile = ["--profile", f"{INPUTS}/profile.json"]
        commands = [
            ["compare", *step, "--policies", *PIPELINE_POLICIES[:11], "--json", "--quiet"],
            ["compare", *step, *profile, "--policies", "1f1b", "lhs", "--json", "--quiet"],
            ["simulate", *step, *noise, "--machine", "perlmutter", "--policy", "1f1b", "--json"],
            ["simulate", *step, *profile, "--policy", "critical-path", "--json"],
            ["explain", *step, "--policy", "gpipe"],
            ["timeline", *step, "--compare", "serial", "1f1b", "zb-v", "-o", "compared.svg"],
            ["graph", *step, "-o", "step.graph.json"],
            ["graph", *step, "-o", "step.json"],
        ]
        yield Case(f"pipeline {grid}: compared and drawn", [Command(words) for words in commands], grid == "pipe=2")
        train = [*PIPELINE_MODEL, "--global-batch", "8", "--dropout", "0.1"]
        for policy in ("1f1b", "zb-v", "lhs"):
            words = [*train, "--policy", policy]
            quick = grid == "pipe=2" and policy == "1f1b"
            yield _train(f"pipeline {grid}: trained by {policy}", *words, grid=grid, quick=quick)
    long = [*PIPELINE_MODEL, "--model.context", "64"]
    for grid in ("pipe=2", "z=2,pipe=2"):
        for limit in ("1250KB", "1700KB"):  # less than each order takes without computing layers again; more
            commands = [
                Command(["simulate", *STEP, *long, "--grid", grid, "--memory", limit, "--policy", policy, "--json"])
                for policy in ("serial", "critical-path", "lhs", "anneal:iterations=10", "portfolio:budget=5")
                if limit != "1250KB" or ":" in policy
            ]
            yield Case(f"pipeline {grid}: memory of {limit}", commands, quick=grid == "pipe=2" and limit == "1700KB")
        words = [*long, "--memory", "1250KB", "--policy", "anneal:iterations=10"]
        yield _train(f"pipeline {grid}: trained in short memory", *words, grid=grid)


def _looking():
    """Commands that describe a step without running it."""
    for model, grid in (("gpt", "data=2"), ("llama", "x=2,z=2"), ("gpt untied", "x=2,y=2,z=2")):
        step = [*STEP, *MODELS[model], "--grid", grid, "--micro-batch", "1"]
        noise = ["--noise", "0.2", "--simulated-steps", "3", "--slow-rank", "1.3"]
        simulations = [
            ["simulate", *step, "--json", "-o", "simulated.json", "--svg", "simulated.svg"],
            ["simulate", *step, *noise, "--machine", "perlmutter", "--json"],
            ["simulate", *step, "--profile", f"{INPUTS}/profile.json", "--policy", "axonn", "--json"],
            ["simulate", *step, "--policy", "fsdp"],
            ["timeline", *step, "--text"],
            ["timeline", *step, "--compare", "serial", "program", "critical-path", "-o", "compared.svg"],
        ]
        explanations = [
            ["explain", *step, "--policy", policy, *more]
            for policy, more in (("program", ["--json"]), ("axonn", ["--json", "--most", "0"]), ("critical-path", []))
        ]
        comparisons = [
            ["compare", *step, "--policies", "all", "--json", "--quiet"],
            ["compare", *step, "--policies", *POLICIES[:6], "--noise", "0.2", "--json", "--quiet"],
            ["compare", *step, "--policies", "serial", "lhs", "portfolio:budget=40", "--pareto", "--json", "--quiet"],
            ["compare", *step, "--policies", "serial", "program", "--json", "--quiet", "-o", "kept"],
        ]
        memory = [["memory", *step, "--json", "--most", "0"], ["memory", *step, "--grids", "x=2,z=2", "data=4"]]
        graphs = [["graph", *step, "--kind", k, "-o", f"{k}.json"] for k in ("train", "eval", "prefill", "decode")]
        graphs += [
            ["graph", *step, "-o", "graph.dot"],
            ["graph", *step, "--critical-path", "--all-edges", "--next-step", "-o", "all.dot", "--collapse", "none"],
            ["graph", *step, "--around", "mb0.L1.mlp.up.bwd.gemm_dw", "--hops", "2", "-o", "near.dot"],
            ["graph", *step, "--layers", "0..0", "-o", "part.dot"],
        ]
        for name, commands in (
            ("simulate", simulations),
            ("explain", explanations),
            ("compare", comparisons),
            ("memory", memory),
            ("graph", graphs),
        ):
            yield Case(f"{name}: {model}, {grid}", [Command(words) for words in commands], quick=model == "gpt")


def _refusals():
    """Exit codes of refused input, and that nothing is written. Wording may change."""
    for name, words in {
        "a grid that doesn't divide": ["--grid", "x=3"],
        "an unknown policy": ["--policy", "fastest"],
        "a policy's unknown parameter": ["--policy", "axonn:oars=on"],
        "an unknown rewrite": ["--rewrites", "buckets=4KB"],
        "no such data": ["--data", "nowhere.txt"],
        "no such machine": ["--machine", "earth-simulator"],
        "a number out of range": ["--dropout", "1.5"],
        "a folder that holds a run": ["--run-dir", f"{INPUTS}/run"],
        "a broken plan file": ["--policy", f"file:{INPUTS}/text.txt"],
    }.items():
        command = Command([*TRAIN, *MODELS["gpt"], "--run-dir", "run", *words], exit_code=2)
        yield Case(f"refused: {name}", [command], quick=True)


def all_cases():
    """The whole set, quickest groups first."""
    groups = (_plans, _looking, _refusals, _pipelines, _models_on_grids, _options, _orders, _after_training, _processes)
    return [case for group in groups for case in group()]


def write_inputs(weft, folder, cases=None):
    """Files that both programs read. `weft` makes files once that come from measuring or from an older run; of these only
    the files that `cases` read, or all without `cases`."""
    words_read = [word for case in cases or all_cases() for command in case.commands for word in command.words]
    folder.mkdir(parents=True)
    words = ["warp", "and", "weft", "of", "a", "loom", "hold", "the", "yarn", "that", "threads", "cross"]
    (folder / "text.txt").write_text("".join(words[i * i * 7 % 12] + (" " if i % 9 else ".\n") for i in range(2000)))
    weft_runs.write_tokens(folder / "tokens.bin", 257, 4000)
    weft_runs.write_tokens(folder / "held_out.bin", 257, 600)
    shutil.copy(ROOT / "examples/lhs_rules.toml", folder / "lhs_rules.toml")
    step = [*STEP, *MODELS["gpt"]]
    data = ["--data", "text.txt"]
    weft = Path(weft).resolve()
    for command in (
        ["tune", *step, *THREADS, "--rounds", "1", "--quiet", "-o", "tuned.json"],
        [
            "profile",
            *step,
            *THREADS,
            "--grid",
            "z=2,data=2",
            "--profile-steps",
            "2",
            "--rounds",
            "1",
            "--quiet",
            "-o",
            "profile.json",
        ],
        ["plan", *step, "--grid", "data=2", "--policy", "critical-path", "-o", "plan.json"],
        [
            "train",
            *step,
            *THREADS,
            *data,
            "--grid",
            "z=2",
            "--steps",
            "3",
            "--schedule",
            "constant",
            "--run-dir",
            "run",
            "--quiet",
        ],
        ["export", "run", "-o", "hf"],
    ):
        made = command[-1] if command[-2] == "-o" else ""
        if not made or any(f"{INPUTS}/{made}" in word for word in words_read):
            weft_runs.run([weft, *command], cwd=folder)


def mpirun(ranks):
    """The words before a program's words that start it as `ranks` processes on this machine."""
    if not shutil.which("mpirun"):
        fail("mpirun isn't installed; leave its cases out with --only, or install openmpi-bin")
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return ["mpirun", *root, "--oversubscribe", "--bind-to", "none", "-np", str(ranks)]
