"""Models of transformers in float64 and what they compute: the reference of `families` and `make_hf_folders`.

Names are those of tensors in files, where each expert has tensors of its own and the model has them stacked."""

import logging

import numpy as np
import torch
from transformers import AutoModelForCausalLM
from transformers.core_model_loading import revert_weight_conversion

EAGER = {"attn_implementation": "eager", "experts_implementation": "eager"}  # which take float64
logging.disable(logging.WARNING)


def random_model(config, seed):
    """Weights as in cases.random_case(), in float64, each of them a float32 number."""
    model = AutoModelForCausalLM.from_config(config, **EAGER).double().eval()
    random = np.random.default_rng(seed)
    from_one = 0.0 if config.model_type.startswith("gemma") else 1.0  # gemma's norms multiply by 1 + weight
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            vector = parameter.dim() == 1
            center = from_one if vector and name.endswith("weight") else 0.0
            spread = 0.2 if vector else 1 / np.sqrt(config.hidden_size)
            values = center + spread * random.standard_normal(tuple(parameter.shape))
            parameter.copy_(torch.tensor(values.astype(np.float32)).double())
    return model


def mean_loss(model, tokens, targets):
    return torch.nn.functional.cross_entropy(model(tokens).logits.flatten(0, 1), targets.flatten())


def logits_of(model, tokens):
    with torch.no_grad():
        return model(tokens).logits


def gradients_of(model, tokens, targets):
    """Of the mean loss, by name."""
    model.zero_grad()
    mean_loss(model, tokens, targets).backward()
    gradients = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()
    stored = revert_weight_conversion(model, gradients)
    return {name.removeprefix("transformer."): value.numpy() for name, value in stored.items()}


def losses_of(model, tokens, targets, training):
    """As cases.results(): losses before each AdamW step on the same batch, and the least margin of all steps. Changes the
    model."""
    parameters = list(model.parameters())
    groups = [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": training.weight_decay},
              {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=training.lr, betas=(training.beta1, training.beta2), eps=training.eps)
    losses, margins = [], []
    for _ in range(training.steps):
        margins.append(least_margin(model, tokens))
        loss = mean_loss(model, tokens, targets)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, training.clip)
        optimizer.step()
        losses.append(float(loss.detach()))
    return np.array(losses), None if None in margins else min(margins)


def least_margin(model, tokens):
    """The least gap, in logits of the router, between the last expert that a token takes and the first that it leaves out:
    a rounding error of that size takes another expert. None: a model without experts."""
    taken = getattr(model.config, "num_experts_per_tok", None)
    if taken is None:
        return None
    with torch.no_grad():
        routers = model(tokens, output_router_logits=True).router_logits
    gaps = []
    for logits in routers:
        best = logits.topk(min(taken + 1, logits.shape[-1]), -1).values
        if best.shape[-1] > taken:
            gaps.append(float((best[:, taken - 1] - best[:, taken]).min()))
    return min(gaps, default=float("inf"))
