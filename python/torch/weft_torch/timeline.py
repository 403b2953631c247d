"""When what ran in a few steps, as PyTorch's profiler recorded it on every rank and Weft reads it."""

import tempfile
from pathlib import Path

from torch.profiler import ProfilerActivity, profile, schedule

from . import orders, ranks
from ._private import Unsupported

_LEAST_STEPS = 3  # one warms up, the one before the last is read


def recorded(step, batches, path, weft: str | None) -> str:
    """See Step.timeline()."""
    batches = list(batches)
    if len(batches) < _LEAST_STEPS:
        raise Unsupported(f"a timeline of {len(batches)} batches. Fix: {_LEAST_STEPS} or more; each trains a step")
    with tempfile.TemporaryDirectory(prefix="weft-torch-") as folder:
        mine = Path(folder) / "trace.json.gz"
        with profile(
            activities=[ProfilerActivity.CPU],
            record_shapes=True,
            schedule=schedule(wait=0, warmup=1, active=len(batches) - 1),
            on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(mine)),
        ) as profiler:
            for batch in batches:
                step.trained(batch, may_try=False)
                profiler.step()
        every = ranks.of_all(mine.read_bytes())
        return ranks.from_rank_0(lambda: _drawn(every, Path(folder), Path(path), weft))


def _drawn(traces: list[bytes], folder: Path, path: Path, weft: str | None) -> str:
    files = [folder / f"rank_{rank}.json.gz" for rank in range(len(traces))]
    for file, trace in zip(files, traces, strict=True):
        file.write_bytes(trace)
    graph = path.with_suffix(".graph.json.gz")
    told = orders.run(weft, "trace", "import", *files, "-o", graph)
    orders.run(weft, "timeline", graph, "-o", path)
    return told
