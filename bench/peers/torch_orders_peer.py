#!/usr/bin/env python3
"""Times one step of PyTorch in several orders, in turns, on two hosts of tools/netlab; rank 0 prints one JSON line.

The same transformer trains as captured by weft_torch, in the captured order and in all that weft_torch tries, and in the
orders of PyTorch's pass for overlap with several limits, of which the fastest stays; and eagerly by
DistributedDataParallel with several sizes of buckets and by fully_shard (FSDP2). A round gives each one a warm-up step
and a few timed ones; its figure is the median of the timed ones, of the slower rank.

  tools/netlab --pin 1gbit 2 -- .venv/bin/python bench/peers/torch_orders_peer.py --rounds 9
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

from overlap_peer import join, only_link

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python/torch"))


def make_model(options):
    import torch
    from torch import nn

    class Transformer(nn.Module):
        def __init__(self):
            super().__init__()
            width = options.hidden
            self.table = nn.Embedding(options.vocab, width)
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * options.layers + 1))
            self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(options.layers))
            self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(options.layers))
            self.up = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(options.layers))
            self.down = nn.ModuleList(nn.Linear(4 * width, width) for _ in range(options.layers))
            self.head = nn.Linear(width, options.vocab)

        def forward(self, ids):
            x = self.table(ids)
            for layer in range(options.layers):
                mixed = self.qkv[layer](self.norms[2 * layer](x))
                q, k, v = mixed.unflatten(-1, (3, 8, -1)).permute(2, 0, 3, 1, 4)
                attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
                x = x + self.out[layer](attended.transpose(1, 2).flatten(2))
                x = x + self.down[layer](nn.functional.gelu(self.up[layer](self.norms[2 * layer + 1](x))))
            return self.head(self.norms[-1](x))

    torch.manual_seed(0)
    return Transformer()


def loss_of(model, ids):
    from torch import nn

    return nn.functional.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def eager(model):
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(ids):
        loss_of(model, ids).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def fully_sharded(model):
    """Layer by layer, the next one gathered ahead, without waiting for a gather where it begins: gloo has no streams."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    layers = list(zip(model.qkv, model.out, model.up, model.down))
    for layer in layers:
        fully_shard(list(layer), mesh=mesh, reshard_after_forward=False)
    fully_shard(model, mesh=mesh, reshard_after_forward=False)
    first = [layer[0] for layer in layers]
    for module, ahead in zip([model, *first], first):
        module.set_modules_to_forward_prefetch([ahead])
    for module in (model, *first):
        module._set_unshard_async_op(True)
    return model


def graphs_of(choices):
    """By the buckets of an order: the graph that was ordered."""
    return {name.partition(", ")[2] or "no buckets": choice.graph for name, choice in choices.items()}


def bound(graph):
    """Milliseconds that no order of the graph can beat, by its measured costs."""
    return json.loads(graph.run("compare", "--policies", "program", "--json"))["bound_ms"]


def tuned_pass(choices, in_order, ids):
    """The fastest of the overlap pass's orders, by two steps each; and their times in ms."""
    import torch.distributed as dist
    import torch_overlap_pass
    from weft_torch import orders

    found, times = {}, {}
    for label, graph in graphs_of(choices).items():
        for limit, settings in torch_overlap_pass.limits().items():
            order = torch_overlap_pass.order_of(graph.module, graph.costs, settings)
            orders.check(graph.module.graph, order)
            name = f"{label}; {limit}"
            found[name] = in_order(orders.reordered(graph.module, order))
            every = [None] * dist.get_world_size()
            dist.all_gather_object(every, statistics.median(timed(found[name], ids) for _ in range(2)))
            times[name] = max(every)
    best = min(times, key=times.get)
    return found[best], {"chosen": best, "ms": times}


def timed(step, ids):
    """Milliseconds of a step that all ranks begin together."""
    import torch.distributed as dist

    dist.barrier()
    begin = time.perf_counter()
    step(ids)
    return 1e3 * (time.perf_counter() - begin)


def contestants(options):
    """By name: a function that does a step on a batch; and a report on what was simulated and chosen."""
    import torch
    import weft_torch
    from torch.nn.parallel import DistributedDataParallel

    model = make_model(options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    step = weft_torch.compile(
        model,
        optimizer,
        loss_of,
        parallel=options.parallel,
        policy=tuple(options.policies),
        weft=str(options.weft),
    )
    ids = torch.zeros(options.batch, options.seq, dtype=torch.int64)
    begin = time.perf_counter()
    for _ in range(2):
        step(ids)
    report = {"seconds_of_capture": time.perf_counter() - begin}
    current = step._current()
    while len(step.times()) < len(current.choices) or min(len(c.times) for c in current.choices.values()) < 3:
        step(ids)
    report["chosen"] = step.order()
    report["simulated_ms"] = {name: 1e3 * choice.predicted for name, choice in current.choices.items()}
    report["bound_ms"] = {label: bound(graph) for label, graph in graphs_of(current.choices).items()}
    report["collectives"] = {name: choice.graph.collectives() for name, choice in current.choices.items()}

    def in_order(module):
        def run(ids):
            inputs = step._inputs(current.traced, ids, current.numbers.next())
            with torch.no_grad():
                module(*inputs)

        return run

    found = {name: in_order(choice.module) for name, choice in current.choices.items()}
    found["torch's overlap pass"], report["overlap_pass"] = tuned_pass(current.choices, in_order, ids)
    for megabytes in options.bucket_mb:
        ddp = DistributedDataParallel(make_model(options), bucket_cap_mb=megabytes, gradient_as_bucket_view=True)
        found[f"eager DDP, {megabytes:g} MB"] = eager(ddp)
    found["eager FSDP2"] = eager(fully_sharded(make_model(options)))
    return found, report


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", type=Path, default=ROOT / "build/weft", help="default: %(default)s")
    parser.add_argument("--parallel", choices=("ddp", "fsdp"), default="fsdp", help="default: %(default)s")
    parser.add_argument("--policies", nargs="+", default=["portfolio", "lhs"])
    parser.add_argument("--bucket-mb", nargs="+", type=float, default=[25, 5, 1], help="default: 25 5 1")
    for name, default in (
        ("layers", 5),
        ("hidden", 512),
        ("vocab", 512),
        ("batch", 4),
        ("seq", 96),
        ("rounds", 9),
        ("steps", 3),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default: {default}")
    return parser.parse_args()


def main():
    options = parse_arguments()
    link = only_link()
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    join(link)
    load = [Path("/proc/loadavg").read_text().split()[0]]
    steps, report = contestants(options)
    times = {name: [] for name in steps}
    draw = torch.Generator().manual_seed(1 + dist.get_rank())
    for turn in range(options.rounds):
        names = list(steps)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            mine = []
            for number in range(1 + options.steps):
                ids = torch.randint(0, options.vocab, (options.batch, options.seq), generator=draw)
                took = timed(steps[name], ids)
                if number > 0:
                    mine.append(took)
            every = [None] * dist.get_world_size()
            dist.all_gather_object(every, statistics.median(mine))
            times[name].append(max(every))
    if dist.get_rank() == 0:
        ratios = {
            name: statistics.median(a / b for a, b in zip(times["captured"], some)) for name, some in times.items()
        }
        print(
            json.dumps(
                {
                    "torch": torch.__version__,
                    "parallel": options.parallel,
                    "parameters": sum(p.numel() for p in make_model(options).parameters()),
                    "median_ms": {name: statistics.median(some) for name, some in times.items()},
                    "spread_ms": {name: [min(some), max(some)] for name, some in times.items()},
                    "times_as_fast_as_captured": ratios,
                    "load": [*load, Path("/proc/loadavg").read_text().split()[0]],
                    **report,
                }
            ),
            flush=True,
        )
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
