"""Decoders that reach back to early representations, from Python.

    import satformer
    model = satformer.load("runs/small")
    model.logits(model.tokenizer.encode_tensor("The lamp"))
    model.generate("The lamp", max_new_tokens=20, temperature=0)
    model.gates(ids)                       # {(layer, source layer): tensor [B, T, KV heads]}

Importing it registers the kernels as torch.ops.satformer.*.
"""
import json
import os
from typing import List, Optional, Sequence, Union

import torch  # before the module, which needs its libraries

from . import _satformer
from ._satformer import Error, __version__, set_num_threads

__all__ = ["Error", "Model", "Tokenizer", "load", "set_num_threads", "__version__"]


class Tokenizer(_satformer.Tokenizer):
    """'byte', a SentencePiece model, a tokenizer.json, or a folder that holds one."""

    def decode(self, ids: Sequence[int]) -> str:
        return self.decode_bytes([int(i) for i in ids]).decode("utf-8", errors="replace")

    def encode_tensor(self, text: str) -> torch.Tensor:
        """ids of shape [1, T]"""
        return torch.tensor([self.encode(text)], dtype=torch.long)


class Model(_satformer.Model):
    """A model folder, checkpoint or run folder. Weights are tensors that share the model's memory."""

    def __init__(self, path, device: str = "cpu", dtype: str = "float32", tokenizer=None):
        super().__init__(str(path), device, dtype)
        self._tokenizer = tokenizer
        files = [os.path.join(self.directory, name) for name in ("tokenizer.model", "tokenizer.json")]
        if tokenizer is None and any(os.path.exists(file) for file in files):
            self._tokenizer = Tokenizer(self.directory)

    @property
    def config(self) -> dict:
        return json.loads(self.config_json())

    @property
    def tokenizer(self) -> Optional[Tokenizer]:
        return self._tokenizer

    @property
    def num_parameters(self) -> int:
        return sum(tensor.numel() for tensor in self.parameters().values())

    def generate(
        self,
        prompts: Union[str, Sequence[str], Sequence[Sequence[int]]],
        *,
        max_new_tokens: int = 100,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        seed: int = 0,
        ignore_eos: bool = False,
    ) -> Union[str, List[str], List[List[int]]]:
        """Continuations of a text, of several, or of several lists of ids, without the prompts; in the same form."""
        single = isinstance(prompts, str)
        texts = [prompts] if single else list(prompts)
        as_text = all(isinstance(p, str) for p in texts)
        if as_text and self.tokenizer is None:
            raise Error(f"no tokenizer in '{self.directory}': give lists of ids, or load(..., tokenizer=...)")
        rows = [self._prompt(p) if as_text else [int(i) for i in p] for p in texts]
        stop = None if ignore_eos or self.tokenizer is None else self.tokenizer.eos_id
        ids = self.generate_ids(
            rows, max_new_tokens=max_new_tokens, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p,
            repetition_penalty=repetition_penalty, seed=seed, stop_token=stop)
        if not as_text:
            return ids
        # The prompt's ids come first, so that the first new piece joins them as in running text.
        results = []
        for row, new in zip(rows, ids):
            before = self.tokenizer.decode_bytes(row)
            results.append(self.tokenizer.decode_bytes(row + new)[len(before):].decode("utf-8", errors="replace"))
        return results[0] if single else results

    def _prompt(self, text: str) -> List[int]:
        return self.tokenizer.encode(text) or [self.tokenizer.eos_id]  # a document begins after another's end


def load(path, device: str = "cpu", dtype: str = "float32", tokenizer=None) -> Model:
    """The model in `path`. `dtype` is the type to compute in; `tokenizer` a Tokenizer instead of the folder's own."""
    return Model(path, device=device, dtype=dtype, tokenizer=tokenizer)
