"""GPT-2 and Llama, written plainly over dictionaries of tensors with Hugging Face's names and layouts.

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


def _llama_shapes(sizes):
    width, inner = sizes["hidden_size"], sizes["intermediate_size"]
    keys = width // sizes["num_attention_heads"] * sizes["num_key_value_heads"]
    shapes = {"model.embed_tokens.weight": (sizes["vocab_size"], width)}
    for layer in range(sizes["num_hidden_layers"]):
        name = f"model.layers.{layer}."
        shapes[name + "input_layernorm.weight"] = (width,)
        shapes[name + "self_attn.q_proj.weight"] = (width, width)
        shapes[name + "self_attn.k_proj.weight"] = (keys, width)
        shapes[name + "self_attn.v_proj.weight"] = (keys, width)
        shapes[name + "self_attn.o_proj.weight"] = (width, width)
        shapes[name + "post_attention_layernorm.weight"] = (width,)
        shapes[name + "mlp.gate_proj.weight"] = (inner, width)
        shapes[name + "mlp.up_proj.weight"] = (inner, width)
        shapes[name + "mlp.down_proj.weight"] = (width, inner)
    shapes["model.norm.weight"] = (width,)
    if not sizes["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (sizes["vocab_size"], width)
    return shapes


def _at_least_float32(x):
    return x.float() if x.dtype == torch.bfloat16 else x


def _split_heads(x, heads):
    batch, seq, width = x.shape
    return x.view(batch, seq, heads, width // heads).transpose(1, 2)  # [batch, heads, seq, head size]


def _causal_attention(q, k, v):
    seq, head_size = q.shape[-2:]
    scores = q @ k.transpose(-1, -2) / math.sqrt(head_size)
    future = torch.ones(seq, seq, dtype=torch.bool).triu(1)
    weights = _at_least_float32(scores).masked_fill(future, -math.inf).softmax(-1).to(v.dtype)
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


def _rotary_frequencies(sizes):
    head_size = sizes["hidden_size"] // sizes["num_attention_heads"]
    frequencies = sizes["rope_theta"] ** (-torch.arange(0, head_size, 2, dtype=torch.float64) / head_size)
    scaling = sizes.get("rope_scaling")
    if scaling is None:
        return frequencies
    # Llama 3: long wavelengths are stretched by `factor`, short ones are kept, those between are blended.
    low, high, factor = scaling["low_freq_factor"], scaling["high_freq_factor"], scaling["factor"]
    turns = scaling["original_max_position_embeddings"] * frequencies / (2 * math.pi)
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return kept * frequencies + (1 - kept) * frequencies / factor


def _rotate(x, frequencies):
    angles = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * frequencies
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def _llama(sizes, p, tokens):
    heads, kv_heads = sizes["num_attention_heads"], sizes["num_key_value_heads"]
    frequencies = _rotary_frequencies(sizes)

    def norm(x, name):
        exact = _at_least_float32(x)
        scale = torch.rsqrt(exact.pow(2).mean(-1, keepdim=True) + sizes["rms_norm_eps"])
        return (exact * scale).to(x.dtype) * p[name + ".weight"]

    x = p["model.embed_tokens.weight"][tokens]
    for layer in range(sizes["num_hidden_layers"]):
        name = f"model.layers.{layer}."
        normed = norm(x, name + "input_layernorm")
        q = _split_heads(normed @ p[name + "self_attn.q_proj.weight"].T, heads)
        k = _split_heads(normed @ p[name + "self_attn.k_proj.weight"].T, kv_heads)
        v = _split_heads(normed @ p[name + "self_attn.v_proj.weight"].T, kv_heads)
        q, k = _rotate(q, frequencies), _rotate(k, frequencies)
        k, v = (t.repeat_interleave(heads // kv_heads, 1) for t in (k, v))
        x = x + _causal_attention(q, k, v) @ p[name + "self_attn.o_proj.weight"].T
        normed = norm(x, name + "post_attention_layernorm")
        gate, up = normed @ p[name + "mlp.gate_proj.weight"].T, normed @ p[name + "mlp.up_proj.weight"].T
        x = x + (F.silu(gate) * up) @ p[name + "mlp.down_proj.weight"].T
    head = "model.embed_tokens.weight" if sizes["tie_word_embeddings"] else "lm_head.weight"
    return norm(x, "model.norm") @ p[head].T
