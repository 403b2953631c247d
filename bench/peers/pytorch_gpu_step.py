#!/usr/bin/env python3
"""Times training steps of a GPT-2 in PyTorch on a GPU; prints one JSON line.

The peer of tools/gpu-check's training steps: bf16 by autocast, torch.compile, PyTorch's own choice of fused attention,
fused AdamW, no clipping. A step adds the gradients of --accumulate batches. Its time is the wall-clock time between synchronisations that are several steps apart,
divided by the steps.
"""

import argparse
import json
import time

import torch
import torch.nn.functional as F
from pytorch_step import Gpt2, make_optimizer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("layers", 12), ("hidden", 768), ("heads", 12), ("vocab", 50304), ("context", 1024),
                          ("batch", 16), ("accumulate", 1), ("seq", 1024), ("steps", 20), ("warmup", 10)):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--no-compile", dest="compile", action="store_false")
    options = parser.parse_args()
    options.ffn = 4 * options.hidden

    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda")
    model = Gpt2(options).to(device)
    for parameter in model.parameters():
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, std=0.02)
    model.head.weight = model.tokens.weight
    optimizer, fused = make_optimizer(model.parameters())

    def loss_of(tokens, targets):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(tokens)
            loss = F.cross_entropy(logits.view(-1, options.vocab).float(), targets.view(-1))
            return loss / options.accumulate

    step_loss = torch.compile(loss_of) if options.compile else loss_of
    shape = (options.accumulate, options.batch, options.seq)
    tokens = torch.randint(options.vocab, shape, device=device)
    targets = torch.randint(options.vocab, shape, device=device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        total = 0
        for part in range(options.accumulate):
            loss = step_loss(tokens[part], targets[part])
            loss.backward()
            total += loss.detach()
        optimizer.step()
        return total

    for _ in range(options.warmup):
        loss = step()
    torch.cuda.synchronize()
    milliseconds = []
    group = 5
    for _ in range(max(1, options.steps // group)):
        begin = time.perf_counter()
        for _ in range(group):
            loss = step()
        torch.cuda.synchronize()
        milliseconds.append(1e3 * (time.perf_counter() - begin) / group)
    print(
        json.dumps(
            {
                "name": f"PyTorch {torch.__version__}" + (", torch.compile" if options.compile else ""),
                "fused_adamw": fused,
                "step_ms": milliseconds,
                "last_loss": loss.item(),
                "peak_memory_bytes": torch.cuda.max_memory_allocated(),
            }
        )
    )


if __name__ == "__main__":
    main()
