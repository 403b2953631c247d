"""Trains a small Llama of transformers on two processes; Weft orders the step.

PATH=build:$PATH torchrun --nproc-per-node 2 examples/torch/train.py            # each parameter sharded
PATH=build:$PATH torchrun --nproc-per-node 2 examples/torch/train.py ddp        # copies, gradients summed
PATH=build:$PATH torchrun --nproc-per-node 2 examples/torch/train.py tp         # DTensors of PyTorch's own plan
"""

import sys

import torch
import torch.distributed as dist
import weft_torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from transformers import LlamaConfig, LlamaForCausalLM

way = sys.argv[1] if len(sys.argv) > 1 else "fsdp"
dist.init_process_group("gloo")
torch.manual_seed(0)
torch.set_num_threads(1)
model = LlamaForCausalLM(
    LlamaConfig(
        hidden_size=256,
        intermediate_size=768,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        vocab_size=2048,
        use_cache=False,
    )
)
if way == "tp":
    for layer in model.model.layers:
        columns = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj")
        rows = ("self_attn.o_proj", "mlp.down_proj")
        plan = {name: ColwiseParallel() for name in columns} | {name: RowwiseParallel() for name in rows}
        parallelize_module(layer, init_device_mesh("cpu", (dist.get_world_size(),)), plan)

optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / 5))
step = weft_torch.compile(model, optimizer, lambda model, ids: model(input_ids=ids, labels=ids).loss, parallel=way)

draw = torch.Generator().manual_seed(1 if way == "tp" else 1 + dist.get_rank())
for number in range(16):
    # Each row counts on from a number of its own.
    ids = (torch.randint(0, 2048, (4, 1), generator=draw) + torch.arange(128)) % 2048
    loss = step(ids)
    schedule.step()
    if dist.get_rank() == 0:
        print(f"step {number}: loss {loss.item():.3f}", flush=True)

if dist.get_rank() == 0:
    print(f"\ncollectives: {step.collectives()}; the {step.order()} order runs; seconds a step: {step.times()}\n")
    print(step.explain())
    print(step.compare())
    step.write_graph("step.graph.json.gz")
dist.destroy_process_group()
