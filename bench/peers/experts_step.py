#!/usr/bin/env python3
"""Times training steps of a small Mixtral of transformers on the CPU in fp32; prints one JSON line.

The peer of bench/train_step --family mixtral: the same sizes, tokens a step and AdamW, with fused attention and a fused
optimizer if this version has them, and with one of transformers' ways to compute experts. No clipping: Weft runs
without it too.
"""

import argparse
import json

import torch
import transformers

from pytorch_step import timed_steps


def make_model(options):
    config = transformers.MixtralConfig(
        num_hidden_layers=options.layers, hidden_size=options.hidden, num_attention_heads=options.heads,
        num_key_value_heads=options.heads, intermediate_size=options.ffn, vocab_size=options.vocab,
        max_position_embeddings=options.context, num_local_experts=options.experts,
        num_experts_per_tok=options.experts_per_token, tie_word_embeddings=options.tied, use_cache=False)
    return transformers.AutoModelForCausalLM.from_config(
        config, attn_implementation="sdpa", experts_implementation=options.implementation).float().train()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--implementation", choices=("eager", "grouped_mm", "batched_mm"), default="grouped_mm",
                        help="how experts are computed (default: %(default)s)")
    for name, default, help_text in (
        ("layers", 4, "blocks"),
        ("hidden", 256, "width of the residual stream"),
        ("heads", 8, "attention heads"),
        ("ffn", 512, "width of an expert"),
        ("experts", 8, "experts of a layer"),
        ("experts-per-token", 2, "experts that a token takes"),
        ("vocab", 50304, "tokens of the vocabulary"),
        ("context", 1024, "the longest sequence"),
        ("batch", 4, "sequences a step"),
        ("seq", 256, "tokens a sequence"),
        ("threads", 2, "threads to compute with"),
        ("steps", 5, "steps to time"),
        ("warmup", 2, "steps before them"),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{help_text} (default: {default})")
    parser.add_argument("--untied", dest="tied", action="store_false", help="an untied LM head")
    options = parser.parse_args()
    options.bf16 = False

    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    result = {
        "name": f"transformers {transformers.__version__}, {options.implementation}",
        "attention": "sdpa",
        **timed_steps(make_model(options), options, lambda model, tokens: model(tokens).logits),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
