"""A case: a small model with random weights, one batch, and PyTorch's results for it. Both make_golden and compare
write cases; a case is a folder that the C++ side (parity.h) reads:

    config.json, model.safetensors   the model as Hugging Face stores it
    case.safetensors                 tokens and targets [batch, seq]; in its metadata: steps, lr, beta1, beta2, eps,
                                     weight_decay, clip
    expected.safetensors             what PyTorch computed, see expected_results()
"""

import json
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F

import models
import tensor_file


@dataclass
class Training:
    steps: int = 10
    lr: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-8
    weight_decay: float = 0.1  # for tensors with at least two dimensions
    clip: float = 1.0  # limit of the global gradient norm


@dataclass
class Case:
    sizes: dict  # the content of config.json
    parameters: dict  # name -> float32 array
    tokens: np.ndarray  # int32 [batch, seq]
    targets: np.ndarray  # int32 [batch, seq]; -1: ignored
    training: Training


def gpt2_sizes(layers, heads, width, vocab, context):
    return {
        "model_type": "gpt2",
        "n_layer": layers,
        "n_head": heads,
        "n_embd": width,
        "n_inner": 4 * width,
        "vocab_size": vocab,
        "n_positions": context,
        "layer_norm_epsilon": 1e-5,
        "activation_function": "gelu_new",
        "tie_word_embeddings": True,
    }


def llama_sizes(layers, heads, kv_heads, width, inner, vocab, context, tied, scaling=None):
    """`scaling`: the factor by which Llama 3 stretches long rotary wavelengths, or None."""
    sizes = {
        "model_type": "llama",
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "hidden_size": width,
        "intermediate_size": inner,
        "vocab_size": vocab,
        "max_position_embeddings": context,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": tied,
    }
    if scaling is not None:
        # The original context is so short that small models have wavelengths of all three kinds.
        sizes["rope_scaling"] = {
            "rope_type": "llama3",
            "factor": scaling,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        }
    return sizes


def with_parts(sizes, rng):
    """The sizes of a Llama, or of the Mistral, Qwen2 or Qwen3 of these sizes, with random parts that it may have."""

    def maybe():
        return bool(rng.random() < 0.5)

    kind = str(rng.choice(["llama", "mistral", "qwen2", "qwen3"]))
    sizes, context = {**sizes, "model_type": kind}, sizes["max_position_embeddings"]
    if maybe() or kind == "qwen3":
        sizes["head_dim"] = 2 * int(rng.integers(1, 12))
    if kind in ("llama", "qwen3"):
        sizes["attention_bias"] = maybe()
    if kind == "llama":
        sizes["mlp_bias"] = maybe()
    elif kind == "mistral":
        sizes["sliding_window"] = int(rng.integers(1, context + 1)) if maybe() else None
    elif maybe():
        layers = sizes["num_hidden_layers"]
        sizes |= {"use_sliding_window": True, "sliding_window": int(rng.integers(1, context + 1)),
                  "max_window_layers": int(rng.integers(0, layers + 1))}
    if maybe():
        factor = float(rng.choice([2.0, 4.0]))
        linear = {"rope_type": "linear", "factor": factor}
        # The original context is so short that small models have wavelengths of all kinds.
        yarn = {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": 64, "truncate": maybe()}
        sizes["rope_scaling"] = linear if maybe() else yarn
    return sizes


def random_case(sizes, batch, seq, ignored, seed, clip=1.0):
    """Weights well above usual initial values, including biases and norms, so that every term shows in the results:
    attention is far from uniform, activations are far from linear. Logits stay near 1: if a loss fell steeply, the
    rounding errors of ten AdamW steps would grow beyond the tolerance of any fp32 program. `ignored` targets are -1."""
    rng = np.random.default_rng(seed)
    scale = 1 / np.sqrt(sizes["n_embd"] if sizes["model_type"] == "gpt2" else sizes["hidden_size"])
    parameters = {}
    for name, shape in models.parameter_shapes(sizes).items():
        center = 1.0 if len(shape) == 1 and name.endswith("weight") else 0.0
        spread = 0.2 if len(shape) == 1 else scale
        parameters[name] = (center + spread * rng.standard_normal(shape)).astype(np.float32)
    tokens = rng.integers(0, sizes["vocab_size"], (batch, seq), dtype=np.int32)
    targets = rng.integers(0, sizes["vocab_size"], (batch, seq), dtype=np.int32)
    targets.reshape(-1)[rng.permutation(batch * seq)[:ignored]] = -1
    return Case(sizes, parameters, tokens, targets, Training(clip=clip))


def results(case, dtype):
    """Results of PyTorch's model for this case, as NumPy float64 arrays: "logits" [batch, seq, vocab]; "grad.<name>" of
    the mean loss, unclipped; "losses" [steps] before each AdamW step; all steps use the same batch.

    If `dtype` is bfloat16, the optimizer keeps float32 weights and the model gets their rounded values, as in Weft."""
    master_dtype = torch.float32 if dtype == torch.bfloat16 else dtype
    masters = {n: torch.tensor(a, dtype=master_dtype, requires_grad=True) for n, a in case.parameters.items()}
    tokens, targets = torch.tensor(case.tokens).long(), torch.tensor(case.targets).long()

    def forward_backward():
        leaves = {n: m.detach().to(dtype).requires_grad_() for n, m in masters.items()}
        logits = models.logits(case.sizes, leaves, tokens)
        exact = logits.float() if dtype == torch.bfloat16 else logits
        loss = F.cross_entropy(exact.flatten(0, 1), targets.flatten(), ignore_index=-1)
        loss.backward()
        for name, master in masters.items():
            master.grad = leaves[name].grad.to(master_dtype)
        return logits.detach(), float(loss)

    out, losses = {}, []
    logits, _ = forward_backward()
    out["logits"] = logits.double().numpy()
    for name, master in masters.items():
        out["grad." + name] = master.grad.double().numpy()

    t = case.training
    groups = [
        {"params": [m for m in masters.values() if m.dim() >= 2], "weight_decay": t.weight_decay},
        {"params": [m for m in masters.values() if m.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=t.lr, betas=(t.beta1, t.beta2), eps=t.eps)
    for _ in range(t.steps):
        losses.append(forward_backward()[1])
        torch.nn.utils.clip_grad_norm_(list(masters.values()), t.clip)
        optimizer.step()
    out["losses"] = np.array(losses)
    return out


def distance(got, reference):
    """max|difference| / max|reference|, and the cosine of the angle between the two."""
    got, reference = got.astype(np.float64).ravel(), reference.astype(np.float64).ravel()
    largest = np.abs(reference).max()
    norms = np.linalg.norm(got) * np.linalg.norm(reference)
    return np.abs(got - reference).max() / largest, float(got @ reference) / norms


def relative(got, reference):
    """The largest relative difference of an element; used for losses."""
    return float(np.max(np.abs(got - reference) / np.abs(reference)))


def l2_error(got, reference):
    """|difference| / |reference|, Euclidean norms over all elements."""
    got, reference = got.astype(np.float64).ravel(), reference.astype(np.float64).ravel()
    return float(np.linalg.norm(got - reference) / np.linalg.norm(reference))


def error(name, got, reference):
    return relative(got, reference) if name == "losses" else distance(got, reference)[0]


def neighbour(case, rng):
    """The case with each weight changed by less than bfloat16's precision: another sample of the same rounding
    errors."""
    moved = {
        name: (array * (1 + rng.uniform(-(2.0**-9), 2.0**-9, array.shape))).astype(np.float32)
        for name, array in case.parameters.items()
    }
    return replace(case, parameters=moved)


def bf16_errors(case, exact, rng, draws=8):
    """name -> the worst error() of PyTorch's bfloat16 results against its float64 results, over the case, whose float64
    results are `exact`, and neighbours of the case. One sample would say little: a single sensitive row of logits, or a
    dozen gradients of a norm, can double an error or halve it."""
    worst = {}
    for draw in range(draws):
        other = case if draw == 0 else neighbour(case, rng)
        reference = exact if draw == 0 else results(other, torch.float64)
        half = results(other, torch.bfloat16)
        for name in reference:
            worst[name] = max(worst.get(name, 0.0), error(name, half[name], reference[name]))
    return worst


def expected_results(case):
    """The content of expected.safetensors, all float32: PyTorch's results() in float64, and two numbers for each
    tensor: "bf16.<name>", its bf16_errors(), and "bf16_l2.<name>", the l2_error() of PyTorch's bfloat16 results for
    this case."""
    exact, half = results(case, torch.float64), results(case, torch.bfloat16)
    errors = bf16_errors(case, exact, np.random.default_rng(0))
    named_errors = {"bf16." + name: np.float64(value) for name, value in errors.items()}
    named_errors |= {"bf16_l2." + name: np.float64(l2_error(half[name], exact[name])) for name in exact}
    return {name: np.asarray(array, np.float32) for name, array in {**exact, **named_errors}.items()}


def write_case(folder, case):
    """Writes a case without expected.safetensors."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(case.sizes, indent=2) + "\n")
    tensor_file.write(folder / "model.safetensors", case.parameters, {"format": "pt"})
    metadata = {key: repr(value) for key, value in asdict(case.training).items()}
    tensor_file.write(folder / "case.safetensors", {"tokens": case.tokens, "targets": case.targets}, metadata)
