"""Writes the Parquet files of tests/data/parquet. Needs pyarrow. Usage: make_parquet_files.py FOLDER"""
import os
import sys

import pyarrow as pa
import pyarrow.parquet as pq

folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)


def write(name, columns, **options):
    pq.write_table(pa.table(columns), os.path.join(folder, name), **options)


texts = [f"document {i}: " + "value " * (i % 7) for i in range(50)]
ids = list(range(50))
# The same texts in several layouts: row groups, dictionary or plain pages, compression, page checksums.
write("documents.parquet", {"id": ids, "text": texts}, row_group_size=20, compression="zstd", write_page_checksum=True)
write("plain.parquet", {"text": pa.array(texts, pa.large_string()), "id": ids}, use_dictionary=False, compression="none",
      data_page_size=256, data_page_version="2.0")
write("binary.parquet", {"text": pa.array([t.encode() for t in texts], pa.binary())}, compression="snappy")
write("nested.parquet", {"meta": [{"body": t, "n": i} for i, t in enumerate(texts)]})
# Null, empty, blank and not UTF-8, a byte order mark and CRLF.
odd = [b"first", None, b"", b" \n", b"\xef\xbb\xbfa\r\nb\rc", b"bad \xff", b"last"]
write("odd.parquet", {"text": pa.array(odd, pa.binary())})
write("empty.parquet", {"text": pa.array([], pa.string())})
write("kinds.parquet", {"txet": ["a"], "number": [1], "list": [["a"]], "struct": [{"a": "b"}], "decimal": pa.array([1], pa.decimal128(9, 2)),
                        "required": pa.array(["a"])})
