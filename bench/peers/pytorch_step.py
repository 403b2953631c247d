#!/usr/bin/env python3
"""Times training steps of GPT-2 124M, or of a Llama of that size, in PyTorch on the CPU; prints one JSON line.

The peer of bench/train_step: the same sizes, tokens a step and AdamW, in idiomatic PyTorch: fused attention and a fused
optimizer if this version has them, autocast for bf16. No clipping: Weft runs without it too.
"""

import argparse
import json
import resource
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

HAS_SDPA = hasattr(F, "scaled_dot_product_attention")


def causal_attention(q, k, v):
    """q, k, v [batch, heads, seq, head size]."""
    if HAS_SDPA:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    seq, size = q.shape[-2:]
    scores = (q @ k.transpose(-2, -1)) * size**-0.5
    future = torch.ones(seq, seq, dtype=torch.bool).triu(1)
    return scores.masked_fill(future, float("-inf")).softmax(-1) @ v


def split_heads(x, heads):
    batch, seq, width = x.shape
    return x.view(batch, seq, heads, width // heads).transpose(1, 2)


def merge_heads(x):
    batch, heads, seq, size = x.shape
    return x.transpose(1, 2).reshape(batch, seq, heads * size)


class Gpt2Block(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        width, self.heads = sizes.hidden, sizes.heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, sizes.ffn), nn.Linear(sizes.ffn, width)

    def forward(self, x, _):
        q, k, v = (split_heads(part, self.heads) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.out(merge_heads(causal_attention(q, k, v)))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.tokens = nn.Embedding(sizes.vocab, sizes.hidden)
        self.positions = nn.Embedding(sizes.context, sizes.hidden)
        self.blocks = nn.ModuleList(Gpt2Block(sizes) for _ in range(sizes.layers))
        self.norm = nn.LayerNorm(sizes.hidden)
        self.head = nn.Linear(sizes.hidden, sizes.vocab, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x, None)
        return self.head(self.norm(x))


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        if hasattr(F, "rms_norm"):
            return F.rms_norm(x, self.weight.shape, self.weight, 1e-5)
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(x) * self.weight


def rotate(x, angles):
    cos, sin = angles
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1).type_as(x)


class LlamaBlock(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        width, self.heads = sizes.hidden, sizes.heads
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate_up = nn.Linear(width, 2 * sizes.ffn, bias=False)
        self.down = nn.Linear(sizes.ffn, width, bias=False)

    def forward(self, x, angles):
        q, k, v = (split_heads(part, self.heads) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.out(merge_heads(causal_attention(rotate(q, angles), rotate(k, angles), v)))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.tokens = nn.Embedding(sizes.vocab, sizes.hidden)
        self.blocks = nn.ModuleList(LlamaBlock(sizes) for _ in range(sizes.layers))
        self.norm = RmsNorm(sizes.hidden)
        self.head = nn.Linear(sizes.hidden, sizes.vocab, bias=False)
        half = sizes.hidden // sizes.heads // 2
        frequencies = 10000.0 ** (-torch.arange(half) / half)
        angles = torch.arange(sizes.seq)[:, None] * frequencies
        self.angles = (angles.cos(), angles.sin())

    def forward(self, tokens):
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x, self.angles)
        return self.head(self.norm(x))


def make_model(sizes):
    model = (Gpt2 if sizes.family == "gpt2" else Llama)(sizes)
    for parameter in model.parameters():
        if parameter.dim() == 2:
            nn.init.normal_(parameter, std=0.02)
    if sizes.tied:
        model.head.weight = model.tokens.weight
    return model


def make_optimizer(parameters):
    """AdamW, fused if this version supports it on the CPU; and whether it is fused."""
    options = {"lr": 1e-4, "betas": (0.9, 0.95), "weight_decay": 0.1}
    try:
        return torch.optim.AdamW(parameters, fused=True, **options), True
    except (TypeError, RuntimeError):
        return torch.optim.AdamW(parameters, **options), False


def timed_steps(model, options, logits_of):
    """Trains on random tokens; returns the numbers of the printed line. `logits_of(model, tokens)` is the forward pass."""
    optimizer, fused = make_optimizer(model.parameters())
    tokens = torch.randint(options.vocab, (options.batch, options.seq))
    targets = torch.randint(options.vocab, (options.batch, options.seq))
    milliseconds, losses = [], []
    for _ in range(options.warmup + options.steps):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.bf16):
            logits = logits_of(model, tokens)
            loss = F.cross_entropy(logits.view(-1, options.vocab).float(), targets.view(-1))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        milliseconds.append(1e3 * (time.perf_counter() - begin))
    return {
        "fused_adamw": fused,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "step_ms": milliseconds[options.warmup :],
        "first_loss": losses[0],
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", choices=("gpt2", "llama"), default="gpt2")
    for name, default, help_text in (
        ("layers", 12, "blocks"),
        ("hidden", 768, "width of the residual stream"),
        ("heads", 12, "attention heads"),
        ("ffn", 0, "width of the MLP; 0: 4 times hidden (gpt2), 2048 (llama)"),
        ("vocab", 50304, "tokens of the vocabulary"),
        ("context", 1024, "learned positions (gpt2)"),
        ("batch", 4, "sequences a step"),
        ("seq", 256, "tokens a sequence"),
        ("threads", 2, "threads to compute with"),
        ("steps", 5, "steps to time"),
        ("warmup", 2, "steps before them"),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{help_text} (default: {default})")
    parser.add_argument("--untied", dest="tied", action="store_false", help="an untied LM head")
    parser.add_argument("--bf16", action="store_true", help="autocast to bf16")
    options = parser.parse_args()
    if options.ffn == 0:
        options.ffn = 4 * options.hidden if options.family == "gpt2" else 2048

    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    result = {
        "name": f"PyTorch {torch.__version__.split('+')[0]}",
        "attention": "sdpa" if HAS_SDPA else "explicit",
        **timed_steps(make_model(options), options, lambda model, tokens: model(tokens)),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
