#!/usr/bin/env python3
"""Times training steps of a GPT-2 that PyTorch trains over gloo, on hosts of tools/netlab; rank 0 prints one JSON line.

The peer of bench/overlap_step, in idiomatic PyTorch: fused attention, AdamW that decays matrices only, clipping by the
global norm. `ddp` reduces gradients in buckets during the backward pass. `fsdp2` shards each block and the root, gathers
the next block's weights ahead, and asks for asynchronous gathers, without which gloo, which has no streams, overlaps
none. FSDP2 waits for each of its reduce-scatters over gloo, and gloo (2.15) sends twice as much in them as is needed.
`alone` communicates nothing: each rank trains a model of its own on its share of the batch.
"""

import argparse
import json
import os
import re
import resource
import socket
import sys
import time
from pathlib import Path

# gloo takes its link when a process group is made; MPI's variables tell the rank. mpirun runs on rank 0's host.
RANK = int(os.environ.get("OMPI_COMM_WORLD_RANK", "0"))
RANKS = int(os.environ.get("OMPI_COMM_WORLD_SIZE", "1"))


def only_link():
    """The one network interface of a host of tools/netlab."""
    links = [name for _, name in socket.if_nameindex() if name != "lo"]
    if len(links) != 1:
        sys.exit(f"error: interfaces {', '.join(links)}; expected one. Fix: run this by tools/netlab RATE RANKS -- …")
    return links[0]


def address_of_rank_0():
    found = re.search(r"tcp://([0-9.]+)", os.environ.get("OMPI_MCA_orte_hnp_uri", ""))
    if not found:
        sys.exit("error: no OMPI_MCA_orte_hnp_uri names mpirun's host. Fix: run this by tools/netlab RATE RANKS -- …")
    return found[1]


def join(link):
    import torch.distributed as dist

    os.environ.update(RANK=str(RANK), WORLD_SIZE=str(RANKS), GLOO_SOCKET_IFNAME=link)
    os.environ.setdefault("MASTER_ADDR", address_of_rank_0())
    os.environ.setdefault("MASTER_PORT", "29500")
    dist.init_process_group("gloo")


def sent_bytes(link):
    """Bytes that the link has sent so far, with the headers that the kernel counts."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == link:
            return int(counts.split()[8])
    return 0


def make_model(options):
    import torch
    from pytorch_step import Gpt2

    torch.manual_seed(1)
    model = Gpt2(options)
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, std=options.init_std)
        elif name.endswith("bias"):
            torch.nn.init.zeros_(parameter)
    model.head.weight = model.tokens.weight
    return model


def sharded(model, reshard):
    """The model under FSDP2, its blocks and its root; each gathers the next one's weights ahead."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (RANKS,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh, reshard_after_forward=reshard)
    fully_shard(model, mesh=mesh, reshard_after_forward=False)
    blocks = list(model.blocks)
    for module, ahead in zip([model, *blocks], blocks):
        module.set_modules_to_forward_prefetch([ahead])
    if reshard:
        for module, ahead in zip([model, *blocks[::-1]], blocks[::-1]):
            module.set_modules_to_backward_prefetch([ahead])
    for module in (model, *blocks):
        for name in ("set_unshard_async_op", "_set_unshard_async_op"):
            if hasattr(module, name):
                getattr(module, name)(True)
                break
        else:
            raise RuntimeError("this PyTorch has no asynchronous gathers; give one of 2.6 or newer")
    return model


def parallel(model, options):
    if options.parallel == "ddp":
        from torch.nn.parallel import DistributedDataParallel

        return DistributedDataParallel(model, bucket_cap_mb=options.bucket_mb, gradient_as_bucket_view=True)
    return sharded(model, options.reshard) if options.parallel == "fsdp2" else model


def make_optimizer(model, options):
    """AdamW, fused if this version supports it here; and whether it is fused."""
    import torch

    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": options.weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    settings = {"lr": options.lr, "betas": (options.beta1, options.beta2), "eps": options.eps}
    try:
        return torch.optim.AdamW(groups, fused=True, **settings), True
    except (TypeError, RuntimeError):
        return torch.optim.AdamW(groups, **settings), False


class Batches:
    """Sequences of a token file in llm.c's format, at places drawn from a rank's own seed."""

    def __init__(self, path, sequences, length):
        import torch

        ids = torch.frombuffer(bytearray(path.read_bytes()[1024:]), dtype=torch.uint16)
        self.ids = ids[: len(ids) * 9 // 10].to(torch.int64)  # Weft holds out the last tenth
        self.sequences, self.length = sequences, length
        self.generator = torch.Generator().manual_seed(1000 + RANK)

    def next(self):
        import torch

        last = len(self.ids) - self.length - 1
        starts = torch.randint(last, (self.sequences,), generator=self.generator)
        rows = torch.stack([self.ids[start : start + self.length + 1] for start in starts.tolist()])
        return rows[:, :-1], rows[:, 1:]


def train(model, options, link):
    """Times of all steps in ms, their losses over all ranks, and the bytes that this rank sent in a timed step."""
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F

    optimizer, fused = make_optimizer(model, options)
    batches = Batches(options.data, options.batch, options.seq)
    parameters = list(model.parameters())
    milliseconds, losses, sent_before = [], [], 0
    for step in range(options.skip + options.steps):
        if step == options.skip:
            sent_before = sent_bytes(link)
        begin = time.perf_counter()
        tokens, targets = batches.next()
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(tokens).view(-1, options.vocab), targets.reshape(-1))
        loss.backward()
        if options.clip > 0:
            torch.nn.utils.clip_grad_norm_(parameters, options.clip)
        optimizer.step()
        losses.append(loss.item())
        milliseconds.append(1e3 * (time.perf_counter() - begin))
    sent = (sent_bytes(link) - sent_before) / options.steps
    mean = torch.tensor(losses, dtype=torch.float64)
    dist.all_reduce(mean)
    return milliseconds, (mean / RANKS).tolist(), sent, fused


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parallel", choices=("ddp", "fsdp2", "alone"), default="ddp", help="default: %(default)s")
    parser.add_argument("--bucket-mb", type=float, default=25, help="ddp: MiB of a bucket (default: 25)")
    parser.add_argument("--reshard", action="store_true", help="fsdp2: gather again for the backward pass")
    parser.add_argument("--data", type=Path, required=True, help="a .bin file of 16-bit tokens")
    for name, default, help_text in (
        ("layers", 6, "blocks"),
        ("hidden", 512, "width of the residual stream"),
        ("heads", 8, "attention heads"),
        ("ffn", 2048, "width of the MLP"),
        ("vocab", 512, "tokens of the vocabulary"),
        ("context", 96, "learned positions"),
        ("batch", 4, "sequences of a rank"),
        ("seq", 96, "tokens a sequence"),
        ("threads", 1, "threads of a rank"),
        ("steps", 5, "steps to time"),
        ("skip", 3, "steps before them"),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{help_text} (default: {default})")
    for name, default in (("lr", 1e-3), ("beta1", 0.9), ("beta2", 0.95), ("eps", 1e-8), ("weight-decay", 0.1),
                          ("clip", 1.0), ("init-std", 0.02)):  # fmt: skip
        parser.add_argument(f"--{name}", type=float, default=default, help=f"default: {default}")
    return parser.parse_args()


def main():
    options = parse_arguments()
    link = only_link()
    import torch
    import torch.distributed as dist

    torch.set_num_threads(options.threads)
    join(link)
    model = make_model(options)
    parameters = sum(parameter.numel() for parameter in model.parameters())  # whole, before it is sharded
    milliseconds, losses, sent, fused = train(parallel(model, options), options, link)
    if RANK == 0:
        result = {
            "name": f"PyTorch {torch.__version__.split('+')[0]}",
            "fused_adamw": fused,
            "parameters": parameters,
            "step_ms": milliseconds[options.skip :],
            "losses": losses,
            "sent_bytes": sent,
            "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
        print(json.dumps(result), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
