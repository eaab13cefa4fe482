"""Writes tests/data/authors_order.json: the windows that the SATFormer authors' own loader hands out, for small shards.
Needs numpy and torch. Usage: make_authors_order.py TRAIN_PY OUTPUT, where TRAIN_PY is their trainer"""
import ast
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

TRAIN_PY, OUTPUT = sys.argv[1:]
# The loader alone: the rest of the file needs more packages.
wanted = {"ShardedTokenDataset", "create_dataloader"}
body = [node for node in ast.parse(Path(TRAIN_PY).read_text()).body if getattr(node, "name", None) in wanted]
exec(compile(ast.Module(body, []), TRAIN_PY, "exec"))

FIVE = [101, 57, 3, 210, 5]  # one shard has no window
CASES = [
    dict(shard_tokens=[101], seq_length=4, batch_size=2, ranks=1, workers=1, seed=42, epoch=0),
    dict(shard_tokens=FIVE, seq_length=4, batch_size=2, ranks=1, workers=3, seed=42, epoch=0),
    dict(shard_tokens=FIVE, seq_length=4, batch_size=2, ranks=1, workers=3, seed=42, epoch=1),
    dict(shard_tokens=[301, 157, 230, 90], seq_length=3, batch_size=3, ranks=2, workers=2, seed=42, epoch=0),
    # Ranks with different numbers of batches.
    dict(shard_tokens=[2000, 1001, 1500, 700, 900], seq_length=5, batch_size=4, ranks=3, workers=4, seed=7, epoch=2),
    # Workers with different numbers of batches, a seed of more than 32 bits.
    dict(shard_tokens=list(range(65, 75)), seq_length=8, batch_size=1, ranks=1, workers=7, seed=2**33 + 5, epoch=0),
    dict(shard_tokens=[400, 300, 500], seq_length=4, batch_size=2, ranks=1, workers=16, seed=42, epoch=0),
    dict(shard_tokens=[400, 300, 500], seq_length=4, batch_size=3, ranks=2, workers=0, seed=0, epoch=3),
]


def first_ids(case, rank, folder):
    """The first id of each window, a list a batch."""
    loader = create_dataloader(folder, "train", case["seq_length"], case["batch_size"], case["ranks"], rank,
                               seed=case["seed"], epoch=case["epoch"], num_workers=case["workers"], pin_memory=False,
                               persistent_workers=case["workers"] > 0)
    return [batch[0][:, 0].tolist() for batch in loader]


def main():
    lines = []
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            first = 0  # ids count up over all shards, so that a window's first id is its place
            for number, tokens in enumerate(case["shard_tokens"]):
                np.arange(first, first + tokens).astype(np.uint16).tofile(f"{folder}/train_{number:05d}.bin")
                first += tokens
            starts = [first_ids(case, rank, folder) for rank in range(case["ranks"])]
        lines.append(json.dumps(dict(case, starts=starts), separators=(",", ":")))
    Path(OUTPUT).write_text('{"cases": [\n' + ",\n".join(lines) + "\n]}\n")


if __name__ == "__main__":
    main()
