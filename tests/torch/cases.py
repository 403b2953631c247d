"""Models, batches and processes for the tests of weft_torch."""

import os
import sys
import tempfile
import traceback
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch import nn

ROOT = Path(__file__).resolve().parents[2]
WEFT = os.environ.get("WEFT", str(ROOT / "build/weft"))
sys.path.insert(0, str(ROOT / "python/torch"))

VOCABULARY = 128


def transformer(kind: str = "llama", layers: int = 4, seed: int = 0):
    """A small model of transformers: llama, qwen3 or gpt2, whose table of tokens is its head too."""
    import transformers

    torch.manual_seed(seed)
    sizes = {"vocab_size": VOCABULARY, "use_cache": False}
    if kind == "gpt2":
        config = transformers.GPT2Config(
            n_embd=32,
            n_layer=layers,
            n_head=4,
            n_positions=64,
            resid_pdrop=0.1,
            attn_pdrop=0.0,
            embd_pdrop=0.1,
            **sizes,
        )
        return transformers.GPT2LMHeadModel(config)
    shape = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
        "tie_word_embeddings": False,
    }
    if kind == "qwen3":
        return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(head_dim=8, **shape, **sizes))
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**shape, **sizes))


class Plain(nn.Module):
    """A causal transformer that does the same operations when it is traced, which models of transformers don't."""

    def __init__(self, width: int = 32, layers: int = 2, heads: int = 4):
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, width)
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width)) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY)
        self.heads = heads

    def forward(self, ids):
        x = self.table(ids)
        for qkv, mlp in zip(self.qkv, self.mlp, strict=True):
            q, k, v = qkv(self.norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            x = x + nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
            x = x + mlp(self.norm(x))
        return self.head(self.norm(x))


def plain():
    torch.manual_seed(0)
    return Plain()


def plain_loss(model, ids):
    return nn.functional.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def language_loss(model, ids):
    return model(input_ids=ids, labels=ids).loss


def batch(rank: int, step: int, rows: int = 2, length: int = 16):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randint(0, VOCABULARY, (rows, length), generator=generator)


def tensor_parallel(model, mesh):
    """Llama's layers, cut over the mesh by PyTorch's own plan."""
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    columns = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj")
    rows = ("self_attn.o_proj", "mlp.down_proj")
    for layer in model.model.layers:
        plan = {name: ColwiseParallel() for name in columns} | {name: RowwiseParallel() for name in rows}
        parallelize_module(layer, mesh, plan)
    return model


def whole(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def _process(rank, world, store, function, results):
    try:
        torch.set_num_threads(1)
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
        value = function(rank)
        torch.save(value, f"{results}/{rank}")
        dist.destroy_process_group()
    except BaseException:
        Path(f"{results}/error{rank}").write_text(traceback.format_exc())
        os._exit(1)


def on_ranks(function, world: int = 2) -> list:
    """function(rank) in `world` processes that gloo joins; what each gave back."""
    with tempfile.TemporaryDirectory() as folder:
        context = multiprocessing.get_context("spawn")
        processes = [
            context.Process(target=_process, args=(rank, world, f"{folder}/store", function, folder))
            for rank in range(world)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        errors = [path.read_text() for path in sorted(Path(folder).glob("error*"))]
        if errors:
            raise AssertionError("\n".join(errors))
        return [torch.load(f"{folder}/{rank}", weights_only=False) for rank in range(world)]
