"""Writes the files of tests/data/torch with torch.save. Needs numpy and torch. Usage: make_torch_files.py FOLDER"""
import collections
import json
import os
import sys

import numpy as np
import torch

FOLDER = sys.argv[1]


def save(value, name, **options):
    torch.save(value, os.path.join(FOLDER, name), **options)


def tensors():
    """Every type, contiguous and not, in storages of their own and shared ones."""
    base = torch.arange(30, dtype=torch.float32)
    block = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4) / 8
    return collections.OrderedDict(
        contiguous=block, transposed=block.permute(2, 0, 1), offset=base[7:13].view(2, 3), strided=base[3::5],
        scalar=torch.tensor(2.5), empty=torch.zeros(0, 3), bf16=torch.tensor([1.5, -2.0, 3.25], dtype=torch.bfloat16),
        f16=torch.tensor([0.5, -0.25], dtype=torch.float16), f64=torch.tensor([1e300], dtype=torch.float64),
        i64=torch.tensor([-5, 2**40]), u8=torch.tensor([0, 255], dtype=torch.uint8), bool=torch.tensor([True, False]),
        parameter=torch.nn.Parameter(torch.tensor([4.0])))


def training_state():
    """The keys of the SATFormer authors' training_state.pt; the state of torch's generator is cut to stay small."""
    parameters = [torch.nn.Parameter(torch.ones(2, 2)), torch.nn.Parameter(torch.ones(2))]
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    (parameters[0].sum() * 2 + parameters[1].sum()).backward()
    optimizer.step()
    return {
        "step": 500, "epoch": 0, "tokens_processed": 131072000, "optimizer_state_dict": optimizer.state_dict(),
        "scaler_state_dict": {},
        "config": {"seq_length": 4096, "wandb_project": None, "learning_rate": 2e-3, "pin_memory": True},
        "rng_state": {"torch": torch.get_rng_state()[:64].clone(), "numpy": np.random.RandomState(42).get_state(),
                      "cuda": None}}


def model():
    """A tied SATFormer of two layers in bfloat16. Element i of a tensor is i mod 97 - 48 plus the length of its name mod 7."""
    width, ffn, vocabulary, kv_width, head = 8, 16, 16, 4, 4
    shapes = {"model.embeddings.weight": (vocabulary, width)}
    for i in range(2):
        layer = f"model.layers.{i}."
        shapes |= {layer + "attn_norm.weight": (width,), layer + "attn.q_proj.weight": (width, width),
                   layer + "attn.k_proj.weight": (kv_width, width), layer + "attn.v_proj.weight": (kv_width, width),
                   layer + "attn.o_proj.weight": (width, width), layer + "attn.q_norm.weight": (head,),
                   layer + "attn.k_norm.weight": (head,)}
        if i > 0:
            shapes[layer + "attn.value_residual_mixing.alpha_proj.weight"] = (1, width)
        shapes |= {layer + "mlp_norm.weight": (width,), layer + "mlp.gate_proj.weight": (ffn, width),
                   layer + "mlp.up_proj.weight": (ffn, width), layer + "mlp.down_proj.weight": (width, ffn)}
    shapes["model.norm.weight"] = (width,)
    state = collections.OrderedDict()
    for name, shape in shapes.items():
        values = torch.arange(int(np.prod(shape))) % 97 - 48 + len(name) % 7
        state[name] = values.to(torch.bfloat16).reshape(shape)
        if name.endswith("o_proj.weight"):
            state[name] = state[name].t().contiguous().t()
    state["lm_head.weight"] = state["model.embeddings.weight"]
    state._metadata = collections.OrderedDict([("", {"version": 1})])
    config = {"architectures": ["SATFormerForCausalLM"], "model_type": "satformer", "vocab_size": vocabulary,
              "hidden_size": width, "num_hidden_layers": 2, "num_heads": 2, "num_kv_heads": 1, "qk_norm": True,
              "intermediate_size": ffn, "max_position_embeddings": 32, "tie_word_embeddings": True, "dtype": "bfloat16",
              "transformers_version": "4.57.1"}
    return state, config


class CallsACommand:
    def __reduce__(self):
        return os.system, ("touch /tmp/satformer-pickle-was-executed",)


def main():
    os.makedirs(os.path.join(FOLDER, "latest"), exist_ok=True)
    torch.manual_seed(0)
    save(tensors(), "tensors.bin")
    save({"weight": torch.ones(3)}, "legacy.pt", _use_new_zipfile_serialization=False)
    save({"a": torch.ones(2), "b": CallsACommand()}, "malicious.pt")
    save(training_state(), "latest/training_state.pt")
    state, config = model()
    save(state, "latest/pytorch_model.bin")
    with open(os.path.join(FOLDER, "latest/config.json"), "w") as file:
        json.dump(config, file, indent=2)


if __name__ == "__main__":
    main()
