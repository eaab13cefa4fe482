"""Writes fixtures of tests/eval as Parquet in the layouts in which the sets are published: lists, structs of lists,
classes of labels as integers. Needs pyarrow. Usage: make_eval_parquet.py FIXTURES FOLDER"""
import json
import os
import sys

import pyarrow as pa
import pyarrow.parquet as pq

fixtures, folder = sys.argv[1:]
TABLES = {
    "hellaswag_val.jsonl": "hellaswag/data/validation-00000-of-00001.parquet",
    "ARC-Challenge/test-00000-of-00001.jsonl": "ARC-Challenge/test-00000-of-00001.parquet",
    "boolq_validation.jsonl": "boolq/data/validation-00000-of-00001.parquet",
    "drop_validation.jsonl": "drop/data/validation-00000-of-00001.parquet",
    "trivia_qa/rc.nocontext/validation-00000-of-00001.jsonl": "trivia_qa/rc.nocontext/validation-00000-of-00001.parquet",
}
for source, target in TABLES.items():
    with open(os.path.join(fixtures, source), encoding="utf-8") as file:
        rows = [json.loads(line) for line in file if line.strip()]
    path = os.path.join(folder, target)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path, compression="snappy", row_group_size=5)
