"""Token shards with something to learn, and digests of files, for the tests that run the program."""

import array
import hashlib
import random
import sys

VOCAB = 48


def write_shard(path, tokens, seed):
    """`tokens` ids below VOCAB, seven of ten of which follow from the one before."""
    source = random.Random(seed)
    ids = array.array("H")
    previous = 0
    for _ in range(tokens):
        previous = (previous * 5 + 1) % VOCAB if source.random() < 0.7 else source.randrange(VOCAB)
        ids.append(previous)
    if sys.byteorder == "big":
        ids.byteswap()
    with open(path, "wb") as out:
        ids.tofile(out)


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()
