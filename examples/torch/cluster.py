"""What a step of 64 GPUs would take, captured in one process without a network and without weights.

PATH=build:$PATH python examples/torch/cluster.py
"""

import torch
import weft_torch
from transformers import LlamaConfig, LlamaForCausalLM

with torch.device("meta"):
    model = LlamaForCausalLM(
        LlamaConfig(
            hidden_size=2048,
            intermediate_size=5632,
            num_hidden_layers=22,
            num_attention_heads=32,
            num_key_value_heads=4,
            vocab_size=32000,
            use_cache=False,
        )
    )
graph = weft_torch.capture(
    lambda model, ids: model(input_ids=ids, labels=ids).loss,
    model,
    torch.zeros(2, 2048, dtype=torch.long),
    world=64,
    parallel="fsdp",
    machine="perlmutter",
)
print(graph.collectives())
print(graph.compare())
print(graph.explain())
