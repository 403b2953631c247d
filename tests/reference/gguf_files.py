"""GGUF files made by the package gguf from models of transformers: names, orders of rows and metadata as llama.cpp's
converter makes them. Written without looking at Weft."""
import json

import gguf
import numpy
import torch

TYPES = gguf.GGMLQuantizationType
# Where blocks have fields of half precision.
HALVES = {TYPES.Q4_0: [0], TYPES.Q4_1: [0, 2], TYPES.Q8_0: [0], TYPES.Q4_K: [0, 2], TYPES.Q5_K: [0, 2],
          TYPES.Q6_K: [208]}
ARCHITECTURES = {"llama": gguf.MODEL_ARCH.LLAMA, "mistral": gguf.MODEL_ARCH.LLAMA, "qwen2": gguf.MODEL_ARCH.QWEN2,
                 "qwen3": gguf.MODEL_ARCH.QWEN3, "gpt2": gguf.MODEL_ARCH.GPT2}
CONV1D = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")


def random_blocks(kind, rows, cols, random, scale=None):
    """Bytes [rows, bytes of a row]; with `scale` the blocks' factors are as small as in models."""
    block, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (rows, cols // block, size), dtype=numpy.uint8)
    if scale is not None:
        for at in HALVES[kind]:
            halves = (scale * random.standard_normal((rows, cols // block))).astype(numpy.float16)
            blocks[:, :, at:at + 2] = halves[..., None].view(numpy.uint8)
    return blocks.reshape(rows, -1)


def permuted(rows, heads):
    """llama.cpp's order of the rows of Q and K."""
    shape = rows.shape
    return rows.reshape(heads, 2, shape[0] // heads // 2, *shape[1:]).swapaxes(1, 2).reshape(shape)


def unpermuted(rows, heads):
    shape = rows.shape
    return rows.reshape(heads, shape[0] // heads // 2, 2, *shape[1:]).swapaxes(1, 2).reshape(shape)


def heads_of(name, config):
    if config.model_type not in ("llama", "mistral"):
        return 0
    if ".q_proj." in name:
        return config.num_attention_heads
    return config.num_key_value_heads if ".k_proj." in name else 0


def rope_factors(config):
    """Of llama3 scaling, as in convert_hf_to_gguf.py; None without it."""
    rope = getattr(config, "rope_parameters", None) or {}
    if rope.get("rope_type") != "llama3":
        return None
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    frequencies = 1.0 / (rope["rope_theta"] ** (torch.arange(0, head, 2, dtype=torch.float32) / head))
    low, high, original = rope["low_freq_factor"], rope["high_freq_factor"], rope["original_max_position_embeddings"]
    factors = []
    for frequency in frequencies:
        length = 2 * torch.pi / frequency
        if length < original / high:
            factors.append(1)
        elif length > original / low:
            factors.append(rope["factor"])
        else:
            smooth = (original / length - low) / (high - low)
            factors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return numpy.array(factors, dtype=numpy.float32)


def add_sizes(writer, config):
    if config.model_type == "gpt2":
        writer.add_block_count(config.n_layer)
        writer.add_context_length(config.n_positions)
        writer.add_embedding_length(config.n_embd)
        writer.add_feed_forward_length(config.n_inner or 4 * config.n_embd)
        writer.add_head_count(config.n_head)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
        return
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_rope_dimension_count(head)
    if config.model_type == "qwen3":
        writer.add_key_length(head)
        writer.add_value_length(head)
    rope = config.rope_parameters
    writer.add_rope_freq_base(rope["rope_theta"])
    if rope.get("rope_type") in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
        writer.add_rope_scaling_factor(rope["factor"])
        if rope["rope_type"] == "yarn":
            writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])


def add_bpe(writer, tokenizer_json, pre, ids, size):
    """A byte-level tokenizer.json; `ids` are bos, eos and so on, `size` the model's vocabulary."""
    content = json.loads(tokenizer_json)
    tokens, types = [f"[PAD{i}]" for i in range(size)], [gguf.TokenType.UNUSED] * size
    for text, number in content["model"]["vocab"].items():
        tokens[number], types[number] = text, gguf.TokenType.NORMAL
    for added in content["added_tokens"]:
        tokens[added["id"]] = added["content"]
        types[added["id"]] = gguf.TokenType.CONTROL if added["special"] else gguf.TokenType.USER_DEFINED
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    merges = content["model"]["merges"]
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in merges])
    add_ids(writer, ids)


def add_sentencepiece(writer, processor, ids):
    tokens, scores, types = [], [], []
    for number in range(processor.vocab_size()):
        tokens.append(processor.id_to_piece(number))
        scores.append(processor.get_score(number))
        kind = gguf.TokenType.NORMAL
        if processor.is_unknown(number):
            kind = gguf.TokenType.UNKNOWN
        elif processor.is_control(number):
            kind = gguf.TokenType.CONTROL
        elif processor.is_byte(number):
            kind = gguf.TokenType.BYTE
        types.append(kind)
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(types)
    add_ids(writer, ids)


def add_ids(writer, ids):
    for name, number in ids.items():
        getattr(writer, f"add_{name}")(number)


def stored(name, values, kind, config, random):
    """A tensor's data as the file has them, and the values that they mean in the model's order."""
    conv = config.model_type == "gpt2" and name.endswith(CONV1D)
    heads = heads_of(name, config)
    rows = values.detach().float().numpy()
    rows = rows.T.copy() if conv else rows
    if values.ndim < 2 or ".wpe." in name:
        kind = TYPES.F32
    rows = permuted(rows, heads) if heads else rows
    if kind in (TYPES.Q4_K, TYPES.Q5_K, TYPES.Q6_K):
        data = random_blocks(kind, *rows.shape, random, scale=0.0005 if kind == TYPES.Q6_K else 0.0008)
    else:
        data = gguf.quantize(rows, kind)
    meant = gguf.dequantize(data, kind)
    meant = unpermuted(meant, heads) if heads else meant
    return data, kind, torch.from_numpy((meant.T if conv else meant).copy())


def write(path, model, kind_of, add_tokenizer=None, random=None):
    """Writes the model, whose weights become the ones that the file means. `kind_of(name)`: of a matrix."""
    config = model.config
    architecture = ARCHITECTURES[config.model_type]
    names = gguf.get_tensor_name_map(architecture, config.num_hidden_layers)
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[architecture])
    writer.add_type("model")
    add_sizes(writer, config)
    if add_tokenizer is not None:
        add_tokenizer(writer)
    factors = rope_factors(config)
    if factors is not None:
        writer.add_tensor("rope_freqs.weight", factors)
    with torch.no_grad():
        for name, values in model.named_parameters():
            if config.tie_word_embeddings and name == "lm_head.weight":
                continue
            data, kind, meant = stored(name, values, kind_of(name), config, random)
            writer.add_tensor(names.get_name(name, try_suffixes=(".weight", ".bias")), data,
                              raw_dtype=None if kind in (TYPES.F32, TYPES.F16) else kind)
            values.copy_(meant)
    write_metadata(writer, tensors=True)


def write_metadata(writer, tensors=False):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    if tensors:
        writer.write_tensors_to_file()
    else:
        writer.write_ti_data_to_file()
    writer.close()
