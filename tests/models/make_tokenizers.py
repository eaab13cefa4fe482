#!/usr/bin/env python3
"""Trains small tokenizers in the published forms with the `tokenizers` package, and records ids of texts.

usage: make_tokenizers.py OUT [--vocab-size N] [--lines N]

OUT/NAME/tokenizer.json and OUT/NAME/expected.jsonl ({"text", "ids"} of that package, without special tokens around).
The training text is drawn from Python's standard library and a fixed seed; nothing is downloaded.
"""

import argparse
import json
import pathlib
import random
import sysconfig

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
OTHER = r"\p{N}|[^\s\p{N}]+|\s+"
MARK = "\u2581"


def byte_level(pattern=None, normalizer=None, prefix=False, ignore_merges=False):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pattern:
        split = pre_tokenizers.Split(Regex(pattern), "isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return tokenizer, pre_tokenizers.ByteLevel.alphabet(), ["<|endoftext|>"]


def sentencepiece_like(metaspace):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if metaspace:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(MARK, prepend_scheme="first", split=False)
        tokenizer.decoder = decoders.Sequence(
            [decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        )
    else:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)])
        tokenizer.decoder = decoders.Sequence(
            [decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        )
    special = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    return tokenizer, [], special


FORMS = {
    "gpt2": lambda: byte_level(),
    "gpt2_prefix": lambda: byte_level(prefix=True),
    "llama3": lambda: byte_level(LLAMA3, ignore_merges=True),
    "qwen2": lambda: byte_level(QWEN2, normalizers.NFC()),
    "other": lambda: byte_level(OTHER, normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])),
    "llama2": lambda: sentencepiece_like(False),
    "mistral": lambda: sentencepiece_like(True),
}


def corpus(lines):
    root = pathlib.Path(sysconfig.get_paths()["stdlib"])
    text = []
    for path in sorted(root.glob("*.py")) + sorted(root.glob("pydoc_data/*.py")):
        text += path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    random.Random(1).shuffle(text)
    return text[:lines]


def strings(count):
    """Prose, code, many scripts, signs, white space and what is hard to cut."""
    rng = random.Random(7)
    words = (
        "the gate of Value residual don't WE'LL it's I'M they'd 's 'S '\u017f x_1 naïve Straße ǅ İ ﬁ e\u0301 Å".split()
    )
    words += [
        "日本語",
        "Привет",
        "مرحبا",
        "עברית",
        "हिन्दी",
        "ไทย",
        "한국어",
        "😀",
        "👍🏽",
        "👩‍👩‍👧",
        "𝔘𝔫𝔦",
        "½",
        "²",
        "Ⅷ",
        "١٢٣",
        "一二",
    ]
    words += [
        "3.14159",
        "1234567",
        "0x1F",
        "a-b",
        "==",
        "...",
        "—",
        "“q”",
        "</s>",
        "<s>",
        "<|endoftext|>",
        "\x00",
        "\x1f",
        "\x7f",
        "\ufeff",
    ]
    spaces = [
        " ",
        " ",
        " ",
        "",
        "  ",
        "\n",
        "\t",
        "\r\n",
        "\n\n",
        " \n ",
        "   ",
        "\u00a0",
        "\u2003",
        "\u3000",
        "\u200b",
        "\u0085",
        "\x0b",
        "\x1c",
        "\u2028",
    ]
    result = [
        "",
        " ",
        "  ",
        "\n",
        "a",
        MARK,
        MARK + "a " + MARK,
        "a" * 300,
        " " * 70,
        "ab" * 200,
        "\U0010ffff",
        "\ue000",
        "\u0378",
    ]
    result += [
        "'" * 5 + "s",
        " 's",
        "a'S b",
        "x\u0301\u0300",
        "\u1112\u1161\u11ab",
        "aaa aaaa aaaaa",
        "!" * 40 + "\n\n",
    ]
    while len(result) < count:
        kind = rng.random()
        if kind < 0.7:
            result.append("".join(rng.choice(words) + rng.choice(spaces) for _ in range(rng.randint(1, 12))))
        elif kind < 0.85:
            result.append("".join(chr(rng.randint(1, 0x2FF)) for _ in range(rng.randint(1, 30))))
        else:
            ranges = [(1, 0x7F), (0x80, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x1FFFF)]
            result.append("".join(chr(rng.randint(*rng.choice(ranges))) for _ in range(rng.randint(1, 20))))
    return result[:count]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--vocab-size", type=int, default=800)
    parser.add_argument("--lines", type=int, default=400)
    parser.add_argument("--train-lines", type=int, default=20000)
    options = parser.parse_args()
    text = corpus(options.train_lines)
    texts = strings(options.lines) + text[: options.lines // 4]
    for name, form in FORMS.items():
        tokenizer, alphabet, special = form()
        trainer = trainers.BpeTrainer(
            vocab_size=options.vocab_size,
            initial_alphabet=alphabet,
            special_tokens=special,
            show_progress=False,
            limit_alphabet=1000 if alphabet else 100,
        )
        tokenizer.train_from_iterator(text, trainer)
        folder = options.out / name
        folder.mkdir(parents=True, exist_ok=True)
        if name in ("llama2", "mistral"):  # bytes are tokens of the model, not added ones
            saved = json.loads(tokenizer.to_str())
            saved["added_tokens"] = [t for t in saved["added_tokens"] if not t["content"].startswith("<0x")]
            tokenizer = Tokenizer.from_str(json.dumps(saved))
        if name == "gpt2":
            tokenizer.add_tokens([AddedToken("<mask>", lstrip=True), AddedToken("Value", single_word=True)])
            tokenizer.add_tokens([AddedToken("of  it", rstrip=True, normalized=True)])
        tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
        with open(folder / "expected.jsonl", "w", encoding="utf-8") as file:
            for line in texts:
                ids = tokenizer.encode(line, add_special_tokens=False).ids
                file.write(json.dumps({"text": line, "ids": ids}) + "\n")


main()
