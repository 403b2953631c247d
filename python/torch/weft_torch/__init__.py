"""Weft schedules a training step of PyTorch: captures it as one graph, explains it, orders it, runs it.

import weft_torch
step = weft_torch.compile(model, optimizer, lambda model, batch: model(**batch).loss, parallel="fsdp")
for batch in batches:
    loss = step(batch)
print(step.explain())
"""

from ._private import TRIED_VERSIONS, Unsupported
from .step import Step, capture, compile
from .step_graph import StepGraph

__all__ = ["TRIED_VERSIONS", "Step", "StepGraph", "Unsupported", "capture", "compile"]
