#!/usr/bin/env python3
"""Writes configs/ARCHITECTURE/SCALE.json: the same recipe for all six architectures at each scale, so that a comparison
differs in nothing but the architecture; configs/ablations/NAME/SCALE.json: one option of an architecture changed; and
configs/synthetic/TASK/ARCHITECTURE.json: small models on generated tasks.
`--check` only tells whether the files are up to date."""

import argparse
import json
import pathlib
import sys

CONFIGS = pathlib.Path(__file__).resolve().parent.parent / "configs"

# Class name, and the options that only this architecture has.
ARCHITECTURES = {
    "transformer": ("TransformerForCausalLM", {}),
    "resformer": (
        "ResFormerForCausalLM",
        {"use_value_residual": True, "value_residual_last_k": None, "value_residual_lambda2_init": 0.5},
    ),
    "satformer": (
        "SATFormerForCausalLM",
        {
            "use_value_residual": True,
            "value_residual_last_k": None,
            "value_residual_gate": "relu",
            "value_residual_proj_bias": False,
        },
    ),
    "denseformer": ("DenseFormerForCausalLM", {"dwa_dilation": 1, "dwa_period": 1}),
    "muddformer": ("MUDDFormerForCausalLM", {"num_ways": 4, "param_realloc": True, "use_pre_post_da_norm": True}),
    "hyperconnections": (
        "HyperConnectionsForCausalLM",
        {"expansion_rate": 4, "use_dynamic_hc": True, "use_tanh": True, "hc_norm_type": "rms"},
    ),
}

# Warm-up and total are billions of tokens.
SCALES = {
    # For two CPU cores and the data of `make demo`: 300 steps of 2048 tokens.
    "tiny": {
        "shape": (128, 6, 4, 384), "vocab": 4096, "seq": 256, "batch": (8, 1), "lr": (3e-3, 3e-4),
        "tokens": (0.00006144, 0.0006144), "dtype": "float32", "data": "demo/data",
        "checkpoint_interval": 100,
        "logging": {"log_interval": 10, "eval_interval": 100, "eval_iters": 2, "sample_interval": 100,
                    "sample_prompt": "Light", "sample_tokens": 48},
    },
    "small": {"shape": (768, 11, 12, 3072), "batch": (64, 1), "lr": (2e-3, 2e-4), "tokens": (0.05, 5.0)},
    "medium": {"shape": (1024, 18, 16, 4096), "batch": (32, 2), "lr": (1.5e-3, 1.5e-4), "tokens": (0.1, 10.0)},
    "large": {"shape": (1536, 19, 24, 6144), "batch": (16, 4), "lr": (1e-3, 1e-4), "tokens": (0.2, 20.0)},
    "xl": {"shape": (2048, 24, 32, 5632), "batch": (8, 8), "lr": (8e-4, 8e-5), "tokens": (0.3, 30.0)},
}  # fmt: skip

# Architecture, model options that differ from its own, training options that differ. docs/value-paths.md has the equations.
SOFTMAX = {"value_residual_gate": "softmax"}
SIGMOID = {"value_residual_gate": "sigmoid"}
ABLATIONS = {
    # What shares a gate.
    "gate-token": ("satformer", {"value_gate_granularity": "token"}),
    "gate-head": ("satformer", {"value_gate_granularity": "head"}),
    "gate-layer": ("satformer", {"value_gate_granularity": "layer"}),
    "gate-static": ("satformer", {"value_gate_granularity": "static", "value_residual_gate": "identity"}),
    "gate-factorised": ("satformer", {"value_gate_granularity": "factorised", **SIGMOID}),
    # The gate's function and map.
    "gate-sigmoid": ("satformer", SIGMOID),
    "gate-sigmoid-closed": ("satformer", {**SIGMOID, "value_residual_proj_bias": True, "value_gate_bias_init": -3.0}),
    "gate-tanh": ("satformer", {"value_residual_gate": "tanh"}),
    "gate-identity": ("satformer", {"value_residual_gate": "identity"}),
    "gate-softmax": ("satformer", SOFTMAX),
    "gate-softmax-sigmoid": ("satformer", {"value_residual_gate": "softmax_sigmoid"}),
    "gate-ffn": ("satformer", {"value_gate_ffn": 64}),
    "gate-bias": ("satformer", {"value_residual_proj_bias": True}),
    "gate-init-auto": ("satformer", {"value_gate_init_std": "auto"}),
    "gate-fast": ("satformer", {}, {"gate_lr_scale": 4.0}),
    "gate-decay": ("satformer", {}, {"gate_decay": 0.1}),
    # Which values, in which layers, where.
    "sources-3": ("satformer", {"value_sources": [0, 1, 2]}),
    "last-half": ("satformer", {"value_residual_last_k": lambda layers: layers // 2}),
    "every-other": ("satformer", {"value_layers": lambda layers: list(range(1, layers, 2))}),
    "output": ("satformer", {"value_place": "output"}),
    # Published relatives.
    "fixed": ("satformer", {"value_path": "fixed"}),
    "svformer": ("satformer", {"value_path": "svformer"}),
    "neutreno": ("satformer", {"value_path": "neutreno", "neutreno_values": "own", "neutreno_lambda": 0.4}),
    "neutreno-fixed": ("satformer", {"value_path": "neutreno"}),
    "lime": ("satformer", {"value_path": "lime"}),
    "lime-values": ("satformer", {"value_path": "lime", "lime_keys": False}),
    # Variants of the routings, and gated values on them.
    "mudd-w1-sqrt": ("muddformer", {"mudd_w1_init": "1/sqrt(d)"}),
    "mudd-post-residual": ("muddformer", {"mudd_post_norm": "residual"}),
    "mudd-pre-shared": ("muddformer", {"mudd_pre_norm": "shared"}),
    "mudd-satformer": ("muddformer", {"value_path": "satformer"}),
    "hc-layer": ("hyperconnections", {"hc_norm_type": "layer"}),
    "hc-layer-plain": ("hyperconnections", {"hc_norm_type": "layer_plain"}),
    "hc-l2": ("hyperconnections", {"hc_norm_type": "l2"}),
    "mhc": ("hyperconnections", {"hc_weights": "manifold", "use_tanh": False}),
    "hc-satformer": ("hyperconnections", {"value_path": "satformer"}),
    "scalar-fast": ("resformer", {}, {"scalar_lr_scale": 10.0}),
}
ABLATION_SCALES = ("tiny", "small")

# Generated tasks (docs/synthetic.md), for one CPU core. Weights of a model this narrow start larger, and its positions
# turn faster: on mqar the loss after 500 steps is 3.6, and 4.2 with the usual 0.02 and 10000.
SYNTHETIC_MODEL = {
    "hidden_size": 64, "num_hidden_layers": 4, "num_heads": 2, "intermediate_size": 128,
    "initializer_range": 0.1, "rope_theta": 100,
}
SYNTHETIC = {
    "mqar": {"vocab": 512, "seq": 64, "pairs": 8, "batch": 32, "lr": (3e-3, 3e-4), "steps": 4000, "eval": 50},
    "mixed_recall": {"vocab": 152, "seq": 24, "pairs": 4, "batch": 64, "lr": (3e-3, 3e-4), "steps": 2000, "eval": 25},
}  # fmt: skip


def synthetic(architecture, task):
    result = config(architecture, "tiny")
    s = SYNTHETIC[task]
    step_tokens = s["batch"] * s["seq"]
    result["model"]["config_overrides"].update(
        vocab_size=s["vocab"], max_position_embeddings=s["seq"], **SYNTHETIC_MODEL
    )
    if architecture == "muddformer":  # its reallocation makes no feed-forward narrower than 256
        result["model"]["config_overrides"]["param_realloc"] = False
    result["data"] = {
        "seq_length": s["seq"],
        "synthetic": {"task": task, "pairs": s["pairs"], "examples": 1000000, "val_examples": 512, "example_seed": 42},
    }
    del result["tokenizer"]
    result["training"].update(
        batch_size=s["batch"],
        learning_rate=s["lr"][0],
        min_lr=s["lr"][1],
        warmup_tokens=100 * step_tokens / 1e9,
        max_tokens=s["steps"] * step_tokens / 1e9,
        target_accuracy=0.9,
    )
    result["checkpointing"] = {"checkpoint_dir": f"checkpoints/synthetic/{task}/{architecture}", "checkpoint_interval": 0}
    result["logging"] = {"log_interval": 50, "eval_interval": s["eval"], "eval_iters": 8}
    return result


def ablation(name, scale):
    architecture, options, *training = ABLATIONS[name]
    result = config(architecture, scale)
    overrides = result["model"]["config_overrides"]
    if options.get("value_path", architecture) not in ("satformer", "resformer"):  # such keys would have no effect
        for key in [key for key in overrides if key.startswith("value_residual_gate") or key.endswith("proj_bias")]:
            del overrides[key]
    layers = overrides["num_hidden_layers"]
    overrides.update({key: value(layers) if callable(value) else value for key, value in options.items()})
    for section in training:
        result["training"].update(section)
    result["checkpointing"]["checkpoint_dir"] = f"checkpoints/ablations/{name}/{scale}"
    return result


def config(architecture, scale):
    class_name, own = ARCHITECTURES[architecture]
    s = SCALES[scale]
    hidden, layers, heads, intermediate = s["shape"]
    assert hidden % heads == 0, f"{scale}: {heads} heads do not divide {hidden}"
    seq_length = s.get("seq", 4096)
    return {
        "model": {
            "class_name": class_name,
            "config_overrides": {
                "vocab_size": s.get("vocab", 32000),
                "hidden_size": hidden,
                "num_hidden_layers": layers,
                "num_heads": heads,
                "num_kv_heads": None,
                "intermediate_size": intermediate,
                "max_position_embeddings": seq_length,
                "qk_norm": True,
                "tie_word_embeddings": True,
                **own,
            },
        },
        "tokenizer": {"save_with_model": True},
        "data": {"data_dir": s.get("data", "data"), "seq_length": seq_length},
        "training": {
            "batch_size": s["batch"][0],
            "gradient_accumulation_steps": s["batch"][1],
            "learning_rate": s["lr"][0],
            "min_lr": s["lr"][1],
            "lr_decay_style": "cosine",
            "warmup_tokens": s["tokens"][0],
            "max_tokens": s["tokens"][1],
            "weight_decay": 0.1,
            "decay": "matrices",
            "beta1": 0.9,
            "beta2": 0.95,
            "grad_clip": 1.0,
            "dtype": s.get("dtype", "bfloat16"),
        },
        "checkpointing": {
            "checkpoint_dir": f"checkpoints/{architecture}/{scale}",
            "checkpoint_interval": s.get("checkpoint_interval", 2000),
            "keep_last": 2,
        },
        "logging": s.get("logging", {"log_interval": 10, "eval_interval": 500, "eval_iters": 100}),
        "system": {"seed": 42},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    configs = {
        CONFIGS / architecture / f"{scale}.json": config(architecture, scale)
        for architecture in ARCHITECTURES
        for scale in SCALES
    }
    configs.update(
        (CONFIGS / "ablations" / name / f"{scale}.json", ablation(name, scale))
        for name in ABLATIONS
        for scale in ABLATION_SCALES
    )
    configs.update(
        (CONFIGS / "synthetic" / task / f"{architecture}.json", synthetic(architecture, task))
        for task in SYNTHETIC
        for architecture in ARCHITECTURES
    )
    wanted = {path: json.dumps(content, indent=2) + "\n" for path, content in configs.items()}
    if check:
        found = set(CONFIGS.rglob("*.json"))
        wrong = sorted(path for path in found | set(wanted) if not path.exists() or path.read_text() != wanted.get(path))
        for path in wrong:
            print(f"{path.relative_to(CONFIGS.parent)} is not what tools/make_configs.py writes: run it")
        return 1 if wrong else 0
    for path, text in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
