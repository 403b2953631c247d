"""Shows that bench/same_results can fail: compares weft with a program that changes one of weft's results."""

import json
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import result_cases

# A program that replaces a weft whose results differ in one place. It changes the result after the first command that
# can change it. Without a pattern, it changes the file's last bit.
CHANGING_PROGRAM = """#!/usr/bin/env python3
import json, pathlib, re, subprocess, sys
change = json.loads(pathlib.Path(__file__).with_suffix(".json").read_text())
done = subprocess.run([change["weft"], *sys.argv[1:]], capture_output=True)
output, exit_code = done.stdout, done.returncode
def changed(data):
    if change["pattern"] is None:
        return data[:-1] + bytes([data[-1] ^ 1])
    text, number = re.subn(change["pattern"].encode(), change["replacement"].encode(), data, count=1)
    assert number == 1 and text != data, change
    return text
place, marker = pathlib.Path(change["place"]), pathlib.Path(__file__).with_suffix(".done")
in_file = change["place"] not in ("printed", "exit code") and change["replacement"] != "added"
if sys.argv[1] == change["command"] and not marker.exists() and (place.exists() or not in_file):
    marker.touch()
    if change["place"] == "exit code":
        exit_code = 7
    elif change["place"] == "printed":
        output = changed(output)
    elif change["replacement"] == "removed":
        place.unlink()
    elif change["replacement"] == "added":
        place.write_text("more")
    else:
        place.write_bytes(changed(place.read_bytes()))
sys.stdout.buffer.write(output)
sys.stderr.buffer.write(done.stderr)
sys.exit(exit_code)
"""


@dataclass
class Change:
    what: str
    case: str
    command: str
    place: str  # a file, "printed" or "exit code"
    pattern: str | None = None
    replacement: str = ""
    found: tuple = ()  # the places reported as different; (): a measured value, which may differ


# The command of the case whose result is changed.
_TRAINED = ("gpt, fp32, x=2,z=2", "train")
_DRY_RUN = ("dry run: llama, bf16, z=2", "train")
_PLANNED = ("plans after every rewrite: gpt, data=2", "plan")
_SIMULATED = ("simulate: gpt, data=2", "simulate")
_COMPARED = ("compare: gpt, data=2", "compare")
_IN_STAGES = ("pipeline pipe=2: trained by 1f1b", "train")
_STAGES_SIMULATED = ("pipeline pipe=2: 1f1b", "simulate")
_USED = "eval, generate, export: gpt, fp32, x=1"

_STEP = "run/checkpoints/step_00000003"
_METRICS = "run/metrics.jsonl"
_STAGE = "run/trace.stage1.json"


def _in_file(what, place, file, pattern=None, replacement="", also=()):
    return Change(what, *place, file, pattern, replacement, (file, *also))


def _printed(what, place, pattern, replacement):
    return Change(what, *place, "printed", pattern, replacement, (f"weft {place[1]}",))


def _measured(what, place, file, pattern, replacement):
    return Change(what, *place, file, pattern, replacement)


CHANGES = [
    _in_file("the last bit of a weight", _TRAINED, f"{_STEP}/model-00002.safetensors"),
    _in_file("the last bit of AdamW's state", _TRAINED, f"{_STEP}/optimizer-00001.safetensors"),
    _in_file("a range in a manifest", _TRAINED, f"{_STEP}/manifest.json", r'"range":\[0,', '"range":[1,'),
    _in_file("a digit of a loss", _TRAINED, _METRICS, r'("loss":\d\.\d{6})\d', r"\g<1>"),
    _in_file("a digit of a gradient norm", _TRAINED, _METRICS, r'("grad_norm":\d\.\d{6})\d', r"\g<1>"),
    _in_file("a step left out of the metrics", _TRAINED, _METRICS, r"^[^\n]*\n", ""),
    _in_file("a task's bytes in a trace", _TRAINED, "run/trace.json", r'"bytes": (\d)', r'"bytes": 1\g<1>'),
    _in_file("a configuration's key", _TRAINED, "run/config.toml", "seed = 42", "seed = 43"),
    _in_file("a file of a checkpoint missing", _TRAINED, f"{_STEP}/config.json", replacement="removed"),
    _in_file("a file more", _TRAINED, "run/more.txt", replacement="added"),
    Change("an exit code", *_TRAINED, "exit code", found=("weft train",)),
    _printed("a fingerprint that is printed", _DRY_RUN, '"fingerprint":"', '"fingerprint":"f'),
    _in_file(
        "a fingerprint in a plan file",
        _PLANNED,
        "plan3.json",
        r'"plan":\{"fingerprint":"0x',
        '"plan":{"fingerprint":"0xf',
    ),
    _in_file("a reason in a plan file", _PLANNED, "plan3.json", '"reason":"p', '"reason":"q'),
    _printed("a held-out loss", (_USED, "eval"), '"val_loss":', '"val_loss":1'),
    _printed("a generated text", (_USED, "generate"), '"text":"', '"text":"+'),
    _in_file("an exported weight", (_USED, "export"), "hf/model.safetensors", also=("weft eval",)),
    _printed("a simulated step", _SIMULATED, '"step_seconds":', '"step_seconds":1'),
    _printed("a compared policy's step", _COMPARED, '"step_ms": ', '"step_ms": 1'),
    _in_file("a task's bytes in a stage's trace", _IN_STAGES, _STAGE, r'"bytes": (\d)', r'"bytes": 1\g<1>'),
    _printed("a simulated step of stages", _STAGES_SIMULATED, '"step_seconds":', '"step_seconds":1'),
    _measured("the time of a step", _TRAINED, _METRICS, '"step_ms":', '"step_ms":1'),
    _measured("the time of a task", _TRAINED, "run/trace.json", '"ts": ', '"ts": 1'),
    _measured("the time of a task of a stage", _IN_STAGES, _STAGE, '"ts": ', '"ts": 1'),
    _measured("a library's version", _TRAINED, f"{_STEP}/manifest.json", '"oneDNN":"', '"oneDNN":"1'),
    _measured("the time of planning", _DRY_RUN, "printed", '"planning_ms":', '"planning_ms":1'),
]


def changed_results(weft, change, case, folder, results_of):
    """The results of a case of which one is changed."""
    changing = folder / "weft"
    folder.mkdir()
    changing.write_text(CHANGING_PROGRAM)
    changing.chmod(0o755)
    changing.with_suffix(".json").write_text(json.dumps({**asdict(change), "weft": str(weft)}))
    (folder / "inputs").symlink_to(folder.parent / "inputs")
    return results_of(changing, case, folder / "after" / case.folder)


def self_test(weft, results_of, rows_between, jobs):
    """Exit code 0 if each change is found in its place, and no other difference is found."""
    cases = {case.name: case for case in result_cases.all_cases()}
    failed = 0
    with tempfile.TemporaryDirectory(prefix="weft-same-test-") as name, ThreadPoolExecutor(jobs) as pool:
        root = Path(name)
        result_cases.write_inputs(weft, root / "inputs")
        names = sorted({change.case for change in CHANGES})
        unchanged = dict(
            zip(names, pool.map(lambda name: results_of(weft, cases[name], root / "before" / cases[name].folder), names))
        )
        changed = pool.map(
            lambda pair: changed_results(weft, pair[1], cases[pair[1].case], root / f"change{pair[0]}", results_of),
            enumerate(CHANGES),
        )
        for number, (change, results) in enumerate(zip(CHANGES, changed), start=1):
            rows = rows_between(unchanged[change.case], results)
            places = {file.split(" (")[0] for file, *_ in rows}  # a command's name without its number
            verdict = "found" if change.found else "left out, as it is measured"
            if places != set(change.found):
                verdict = f"WRONG: differences in {sorted(places)}, expected {sorted(change.found)}"
                failed += 1
            print(f"[{number:2}/{len(CHANGES)}] {change.what}: {verdict}", flush=True)
    print(f"{failed} of {len(CHANGES)} changes are judged wrong." if failed else "Every change is judged right.")
    return 1 if failed else 0
