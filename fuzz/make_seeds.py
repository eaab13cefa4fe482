#!/usr/bin/env python3
"""Writes the first inputs of the fuzz targets into fuzz/corpus; what a fuzzer found beside them stays.

Usage: make_seeds.py [SATFORMER]   (with the program, a run's event file and a tokenizer are made too)
"""

import glob
import gzip
import json
import os
import pathlib
import pickle
import struct
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE.parent / "tests" / "data"


def put(target, name, content):
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)


def safetensors(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def make_safetensors():
    two = {"__metadata__": {"format": "pt"}, "a": entry("F32", [2, 3], 0, 24), "b.bias": entry("BF16", [4], 24, 32)}
    put("safetensors", "two", safetensors(two, bytes(range(32))))
    put("safetensors", "empty", safetensors({}))
    put("safetensors", "scalar", safetensors({"s": entry("F64", [], 0, 8), "none": entry("U8", [0, 7], 8, 8)}, bytes(8)))
    put("safetensors", "gap", safetensors({"a": entry("U8", [1], 0, 1), "b": entry("U8", [1], 2, 3)}, bytes(3)))
    put("safetensors", "overflow", safetensors({"a": entry("F32", [1 << 62, 4], 0, 16)}, bytes(16)))
    put("safetensors", "escaped", safetensors(b'{"a\\u00e9\\n":{"dtype":"I16","shape":[1],"data_offsets":[0,2]}}   ', bytes(2)))
    put("safetensors", "twice", safetensors(b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8",'
                                            b'"shape":[1],"data_offsets":[0,1]}}', bytes(1)))


def make_config():
    put("config", "all", json.dumps({"flag": True, "steps": 7, "factor": 1e-3, "kind": "two", "inner": {
        "count": None, "rate": 0.5, "name": "x", "list": [1, -2], "size": "auto"}}))
    put("config", "wrong", '{"steps": 0.5, "stepz": 1, "inner": []}')
    put("config", "deep", "[" * 300 + "]" * 300)
    put("config", "numbers", '{"steps": 1e400, "factor": -0, "inner": {"size": 1E2, "list": [9223372036854775808]}}')
    for name, text in (("override", "-steps=12"), ("json", "-inner.list=[1,2]"), ("bare", "-kind=two"), ("short", "-rate=1")):
        put("config", name, text)


def make_jsonl():
    lines = '{"text": "a b"}\n{"text": ""}\n{"other": 1, "text": "\\u00e9\\ud83d\\ude00"}\n\n{"text": null}\n{"text": 3}\n{bad\n'
    for choice in (0, 128, 64):
        put("jsonl", "lines%d" % choice, bytes([choice]) + lines.encode())
    put("jsonl", "gzip", bytes([4 | 128]) + gzip.compress(lines.encode(), mtime=0))
    plain = "\ufeffone two\r\nthree\n--\n\nfour\n\n\xe9".encode() + b"\xff\n"
    for choice in (1, 1 | 8, 1 | 16, 1 | 32 | 8):
        put("jsonl", "plain%d" % choice, bytes([choice]) + plain)
    put("jsonl", "long", bytes([1]) + b"word " * 200)
    try:
        packed = subprocess.run(["zstd", "-q", "-c"], input=lines.encode(), capture_output=True, check=True).stdout
        put("jsonl", "zstd", bytes([6]) + packed)
    except (OSError, subprocess.CalledProcessError):
        pass


def make_shards():
    ids = struct.pack("<6H", 1, 2, 999, 0, 5, 2)
    manifest = {"format": "satformer-shards", "version": 1, "bytes_per_id": 2, "tokenizer": {"sha256": ""},
                "files": [{"name": "train_00000.bin", "tokens": 6}]}
    put("shards", "plain", json.dumps(manifest).encode() + b"\0" + ids)
    manifest["files"][0]["marks"] = {"name": "train_00000.marks"}
    manifest["kinds"] = ["noise", "key"]
    manifest["example_tokens"] = 3
    put("shards", "marks", json.dumps(manifest).encode() + b"\0" + ids + b"MARK" + bytes([0, 1, 0x81, 0x80, 0, 1]))
    manifest["bytes_per_id"] = 4
    manifest["files"][0]["tokens"] = 3
    put("shards", "wide", json.dumps(manifest).encode() + b"\0" + ids)
    put("shards", "odd", b"{}\0" + ids + b"x")


def make_torch():
    for path in sorted((DATA / "torch").rglob("*")):
        if path.is_file() and zipfile.is_zipfile(path) and path.stat().st_size < 40000:
            put("torch_archive", path.name, path.read_bytes())
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    if name.endswith("data.pkl"):
                        put("pickle", path.name, archive.read(name))
    for protocol in (2, 4):
        put("pickle", "protocol%d" % protocol, pickle.dumps({"step": 3, "list": [1, (2.5, None)], "s": "x"}, protocol))
    put("pickle", "system", b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00lsR.")
    put("pickle", "self", b"\x80\x02]q\x00h\x00a.")
    put("torch_archive", "no-zip", b"PK\x03\x04" + bytes(40))


def make_jinja():
    for path in sorted((DATA / "jinja").glob("*.jinja")):
        put("jinja", path.stem, path.read_text(encoding="utf-8"))
    lines = (DATA / "jinja" / "expected.jsonl").read_text(encoding="utf-8").splitlines()
    good = [case["template"] for case in map(json.loads, lines) if "template" in case and "text" in case]
    variables = {"n": 7, "s": "Some", "l": [3, 1], "d": {"b": 1, "deep": {"x": [1]}}, "yes": True}
    for first in range(0, len(good), 10):
        put("jinja", "expressions%d" % first, "\n".join(good[first:first + 10]) + "\0" + json.dumps(variables))


def make_tokenizer_json():
    added = [{"id": 5, "content": "</s>", "special": True}, {"id": 6, "content": "<m>", "lstrip": True, "normalized": True}]
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "t": 3, "\u0120": 4}, "merges": [["a", "b"]]}
    level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
    put("tokenizer_json", "byte_level", json.dumps(
        {"added_tokens": added, "normalizer": {"type": "NFC"}, "pre_tokenizer": level, "decoder": level, "model": model}))
    mark = "\u2581"
    vocab = {mark: 0, "a": 1, "</s>": 2, mark + "a": 3, "<unk>": 4, "<0x0A>": 7}
    normalizers = [{"type": "Prepend", "prepend": mark}, {"type": "Replace", "pattern": {"String": " "}, "content": mark},
                   {"type": "Lowercase"}, {"type": "Strip", "strip_left": True, "strip_right": False}]
    put("tokenizer_json", "characters", json.dumps(
        {"added_tokens": [{"id": 2, "content": "</s>", "special": True}],
         "normalizer": {"type": "Sequence", "normalizers": normalizers}, "pre_tokenizer": None,
         "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": mark}, "content": " "},
                                                      {"type": "ByteFallback"}, {"type": "Fuse"}]},
         "model": {"type": "BPE", "unk_token": "<unk>", "byte_fallback": True, "fuse_unk": True, "vocab": vocab,
                   "merges": [mark + " a"]}}))
    steps = [{"type": "Split", "pattern": {"Regex": r"\p{N}|[^\s\p{N}]+|\s+"}, "behavior": "Isolated"},
             {"type": "Digits", "individual_digits": True}, {"type": "Punctuation"}, {"type": "Metaspace"}]
    put("tokenizer_json", "steps", json.dumps(
        {"added_tokens": added, "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps}, "model": model}))


def make_requests():
    complete = [{"prompt": "The sea", "max_tokens": 5, "temperature": 0, "logprobs": 2, "stop": [".", "</s>"], "seed": -3},
                {"prompt": [[1, 5], [258]], "echo": True, "max_tokens": 0, "logit_bias": {"5": -100}, "n": 2, "best_of": 2},
                {"prompt": ["a", ""], "stream": True, "stream_options": {"include_usage": True}, "top_p": 0, "top_k": -1,
                 "gates": True, "intervention": "zero@layers=0"}]
    for i, body in enumerate(complete):
        put("request", "completion%d" % i, b"\0" + json.dumps(body).encode())
    call = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": '{"x": [1]}'}}]}
    chat = {"messages": [{"role": "developer", "content": "S"}, {"role": "user", "content": [{"type": "text", "text": "U"}]}, call,
                         {"role": "tool", "content": "5", "name": "f"}], "tools": [{"type": "function"}], "tool_choice": "auto",
            "chat_template_kwargs": {"enable_thinking": False}, "max_completion_tokens": 4, "logprobs": True, "top_logprobs": 3}
    for choice in (1, 3, 5, 7, 9, 11):
        put("request", "chat%d" % choice, bytes([choice]) + json.dumps(chat).encode())
    del chat["tools"], chat["messages"][2:], chat["chat_template_kwargs"]
    for choice in (1, 3, 5, 7, 9, 11):
        put("request", "plain%d" % choice, bytes([choice]) + json.dumps(chat).encode())


def make_gguf():
    text = lambda s: struct.pack("<Q", len(s)) + s.encode()
    values = [text("general.architecture") + struct.pack("<I", 8) + text("llama"), text("f") + struct.pack("<If", 6, 1e-6),
              text("b") + struct.pack("<IB", 7, 1), text("u") + struct.pack("<II", 4, 7),
              text("l") + struct.pack("<IIQ", 9, 8, 2) + text("x") + text(""), text("i") + struct.pack("<IIQii", 9, 5, 2, 1, -1)]
    tensors = [text("a") + struct.pack("<IQIQ", 1, 3, 0, 0), text("q") + struct.pack("<IQQIQ", 2, 32, 2, 8, 32)]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values)) + b"".join(values) + b"".join(tensors)
    head += bytes(-len(head) % 32)
    put("gguf", "two", head + bytes(32) + bytes(range(68)) + bytes(28))
    put("gguf", "empty", b"GGUF" + struct.pack("<IQQ", 3, 0, 0) + bytes(8))


def make_with_program(satformer):
    with tempfile.TemporaryDirectory() as folder:
        text = os.path.join(folder, "text.txt")
        with open(text, "w") as out:
            out.write("the cat sat on the mat and the dog ran to the cat\n" * 40)
        subprocess.run([satformer, "prepare", text, "--output", folder + "/data", "--train-tokenizer", "280",
                        "--val-fraction", "0"], capture_output=True, check=False)
        for path in glob.glob(folder + "/data/tokenizer.model"):
            put("tokenizer", "bpe", pathlib.Path(path).read_bytes())
        sys.path.insert(0, str(HERE.parent / "tests" / "faults"))
        from tiny_run import Workplace
        with Workplace(satformer) as place:
            place.train("run", "--max-steps", "4", window_log=False)
            for path in glob.glob(place.path("run", "events.out.*")):
                put("events", "run", pathlib.Path(path).read_bytes())


def main():
    make_safetensors()
    make_config()
    make_jsonl()
    make_shards()
    make_torch()
    make_jinja()
    make_tokenizer_json()
    make_requests()
    make_gguf()
    put("events", "empty", b"")
    put("tokenizer", "nothing", b"\x0a\x03\x0a\x01a")
    if len(sys.argv) > 1:
        make_with_program(os.path.abspath(sys.argv[1]))


if __name__ == "__main__":
    main()
