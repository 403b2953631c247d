"""GPT-2, Llama, Mistral, Qwen2 and Qwen3, written plainly over dictionaries of tensors with Hugging Face's names and
layouts.

`sizes` is the content of a Hugging Face config.json. The functions compute in the dtype of the parameters; in bfloat16
they follow Hugging Face's models: softmax, RMSNorm and rotary angles in float32, everything else in bfloat16.
"""

import math

import torch
import torch.nn.functional as F


def parameter_shapes(sizes):
    """name -> shape, in the order of the forward pass."""
    return _gpt2_shapes(sizes) if sizes["model_type"] == "gpt2" else _llama_shapes(sizes)


def logits(sizes, parameters, tokens):
    """tokens [batch, seq] -> [batch, seq, vocab]."""
    forward = _gpt2 if sizes["model_type"] == "gpt2" else _llama
    return forward(sizes, parameters, tokens)


def _gpt2_shapes(sizes):
    width, inner = sizes["n_embd"], sizes["n_inner"]
    shapes = {"wte.weight": (sizes["vocab_size"], width), "wpe.weight": (sizes["n_positions"], width)}
    for layer in range(sizes["n_layer"]):
        name = f"h.{layer}."
        shapes[name + "ln_1.weight"] = shapes[name + "ln_1.bias"] = (width,)
        for matrix, rows, cols in (("attn.c_attn", width, 3 * width), ("attn.c_proj", width, width)):
            shapes[f"{name}{matrix}.weight"], shapes[f"{name}{matrix}.bias"] = (rows, cols), (cols,)
        shapes[name + "ln_2.weight"] = shapes[name + "ln_2.bias"] = (width,)
        for matrix, rows, cols in (("mlp.c_fc", width, inner), ("mlp.c_proj", inner, width)):
            shapes[f"{name}{matrix}.weight"], shapes[f"{name}{matrix}.bias"] = (rows, cols), (cols,)
    shapes["ln_f.weight"] = shapes["ln_f.bias"] = (width,)
    return shapes


def _head_size(sizes):
    return sizes.get("head_dim") or sizes["hidden_size"] // sizes["num_attention_heads"]


def _biased(sizes, matrix):
    if matrix == "mlp":
        return sizes.get("mlp_bias", False)
    return sizes.get("attention_bias", False) or (matrix == "qkv" and sizes["model_type"] == "qwen2")


def _window(sizes, layer):
    """Positions that a query of the layer sees, or None for all."""
    if sizes["model_type"] == "mistral":
        return sizes.get("sliding_window")
    used = sizes.get("use_sliding_window", False) and layer >= sizes["max_window_layers"]
    return sizes["sliding_window"] if used else None


def _llama_shapes(sizes):
    width, inner = sizes["hidden_size"], sizes["intermediate_size"]
    queries = _head_size(sizes) * sizes["num_attention_heads"]
    keys = _head_size(sizes) * sizes["num_key_value_heads"]
    shapes = {"model.embed_tokens.weight": (sizes["vocab_size"], width)}
    for layer in range(sizes["num_hidden_layers"]):
        name = f"model.layers.{layer}."
        shapes[name + "input_layernorm.weight"] = (width,)
        shapes[name + "self_attn.q_proj.weight"] = (queries, width)
        shapes[name + "self_attn.k_proj.weight"] = (keys, width)
        shapes[name + "self_attn.v_proj.weight"] = (keys, width)
        shapes[name + "self_attn.o_proj.weight"] = (width, queries)
        for kind, projections in (("qkv", "qkv"), ("out", "o")):
            for p in projections if _biased(sizes, kind) else "":
                shapes[f"{name}self_attn.{p}_proj.bias"] = shapes[f"{name}self_attn.{p}_proj.weight"][:1]
        if sizes["model_type"] == "qwen3":
            shapes[name + "self_attn.q_norm.weight"] = shapes[name + "self_attn.k_norm.weight"] = (_head_size(sizes),)
        shapes[name + "post_attention_layernorm.weight"] = (width,)
        shapes[name + "mlp.gate_proj.weight"] = (inner, width)
        shapes[name + "mlp.up_proj.weight"] = (inner, width)
        shapes[name + "mlp.down_proj.weight"] = (width, inner)
        for p in ("gate", "up", "down") if _biased(sizes, "mlp") else ():
            shapes[f"{name}mlp.{p}_proj.bias"] = shapes[f"{name}mlp.{p}_proj.weight"][:1]
    shapes["model.norm.weight"] = (width,)
    if not sizes["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (sizes["vocab_size"], width)
    return shapes


def _at_least_float32(x):
    return x.float() if x.dtype == torch.bfloat16 else x


def _split_heads(x, heads):
    batch, seq, width = x.shape
    return x.view(batch, seq, heads, width // heads).transpose(1, 2)  # [batch, heads, seq, head size]


def _causal_attention(q, k, v, window=None):
    seq, head_size = q.shape[-2:]
    scores = q @ k.transpose(-1, -2) / math.sqrt(head_size)
    distance = torch.arange(seq)[:, None] - torch.arange(seq)
    hidden = (distance < 0) | (distance >= (window or seq))
    weights = _at_least_float32(scores).masked_fill(hidden, -math.inf).softmax(-1).to(v.dtype)
    out = weights @ v
    return out.transpose(1, 2).flatten(2)  # [batch, seq, heads * head size]


def _gpt2(sizes, p, tokens):
    width, heads = sizes["n_embd"], sizes["n_head"]

    def norm(x, name):
        return F.layer_norm(x, (width,), p[name + ".weight"], p[name + ".bias"], sizes["layer_norm_epsilon"])

    def linear(x, name):
        return x @ p[name + ".weight"] + p[name + ".bias"]

    x = p["wte.weight"][tokens] + p["wpe.weight"][: tokens.shape[1]]
    for layer in range(sizes["n_layer"]):
        name = f"h.{layer}."
        q, k, v = linear(norm(x, name + "ln_1"), name + "attn.c_attn").split(width, -1)
        mixed = _causal_attention(_split_heads(q, heads), _split_heads(k, heads), _split_heads(v, heads))
        x = x + linear(mixed, name + "attn.c_proj")
        inner = F.gelu(linear(norm(x, name + "ln_2"), name + "mlp.c_fc"), approximate="tanh")
        x = x + linear(inner, name + "mlp.c_proj")
    return norm(x, "ln_f") @ p["wte.weight"].T


def _yarn_bounds(head_size, theta, scaling):
    """The pairs between which yarn blends kept and divided frequencies."""

    def pair_of(turns):
        context = scaling["original_max_position_embeddings"]
        return head_size * math.log(context / (turns * 2 * math.pi)) / (2 * math.log(theta))

    kept, divided = pair_of(scaling.get("beta_fast", 32)), pair_of(scaling.get("beta_slow", 1))
    if scaling.get("truncate", True):
        kept, divided = math.floor(kept), math.ceil(divided)
    kept, divided = max(kept, 0), min(divided, head_size - 1)
    return kept, divided + 0.001 if kept == divided else divided


def _rotary_factor(sizes):
    """The factor of rotated queries and keys."""
    scaling = sizes.get("rope_scaling") or {}
    if scaling.get("rope_type") != "yarn":
        return 1.0
    return scaling.get("attention_factor") or 0.1 * math.log(scaling["factor"]) + 1


def _rotary_frequencies(sizes):
    head_size = _head_size(sizes)
    frequencies = sizes["rope_theta"] ** (-torch.arange(0, head_size, 2, dtype=torch.float64) / head_size)
    scaling = sizes.get("rope_scaling")
    if scaling is None:
        return frequencies
    if scaling["rope_type"] == "linear":
        return frequencies / scaling["factor"]
    if scaling["rope_type"] == "yarn":
        first, last = _yarn_bounds(head_size, sizes["rope_theta"], scaling)
        part = ((torch.arange(head_size // 2, dtype=torch.float64) - first) / (last - first)).clamp(0, 1)
        return (1 - part) * frequencies + part * frequencies / scaling["factor"]
    # Llama 3: long wavelengths are stretched by `factor`, short ones are kept, those between are blended.
    low, high, factor = scaling["low_freq_factor"], scaling["high_freq_factor"], scaling["factor"]
    turns = scaling["original_max_position_embeddings"] * frequencies / (2 * math.pi)
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return kept * frequencies + (1 - kept) * frequencies / factor


def _rotate(x, frequencies, factor):
    angles = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * frequencies
    cos, sin = (angles.cos() * factor).to(x.dtype), (angles.sin() * factor).to(x.dtype)
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def _llama(sizes, p, tokens):
    heads, kv_heads = sizes["num_attention_heads"], sizes["num_key_value_heads"]
    frequencies, factor = _rotary_frequencies(sizes), _rotary_factor(sizes)

    def linear(x, name):
        out = x @ p[name + ".weight"].T
        return out + p[name + ".bias"] if name + ".bias" in p else out

    def norm(x, name):
        exact = _at_least_float32(x)
        scale = torch.rsqrt(exact.pow(2).mean(-1, keepdim=True) + sizes["rms_norm_eps"])
        return (exact * scale).to(x.dtype) * p[name + ".weight"]

    x = p["model.embed_tokens.weight"][tokens]
    for layer in range(sizes["num_hidden_layers"]):
        name = f"model.layers.{layer}."
        normed = norm(x, name + "input_layernorm")
        q = _split_heads(linear(normed, name + "self_attn.q_proj"), heads)
        k = _split_heads(linear(normed, name + "self_attn.k_proj"), kv_heads)
        v = _split_heads(linear(normed, name + "self_attn.v_proj"), kv_heads)
        if sizes["model_type"] == "qwen3":
            q, k = norm(q, name + "self_attn.q_norm"), norm(k, name + "self_attn.k_norm")
        q, k = _rotate(q, frequencies, factor), _rotate(k, frequencies, factor)
        k, v = (t.repeat_interleave(heads // kv_heads, 1) for t in (k, v))
        x = x + linear(_causal_attention(q, k, v, _window(sizes, layer)), name + "self_attn.o_proj")
        normed = norm(x, name + "post_attention_layernorm")
        gate, up = linear(normed, name + "mlp.gate_proj"), linear(normed, name + "mlp.up_proj")
        x = x + linear(F.silu(gate) * up, name + "mlp.down_proj")
    head = "model.embed_tokens.weight" if sizes["tie_word_embeddings"] else "lm_head.weight"
    return norm(x, "model.norm") @ p[head].T
