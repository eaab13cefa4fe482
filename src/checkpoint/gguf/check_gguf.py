"""Loads an exported GGUF file with llama-cpp-python and compares it with what satformer computed. One line of JSON.

usage: check_gguf.py FILE.gguf CASES.json LOGITS.bin
"""

import json
import sys
import unicodedata

try:
    import llama_cpp
    import numpy
except (ImportError, OSError, RuntimeError) as error:
    print(json.dumps({"missing": str(error)}))
    sys.exit(0)


def evaluate(model, ids):
    """logits after each id"""
    model.reset()
    model.eval(ids)
    return model.scores[: len(ids)]


def main(path, cases, logits):
    with open(cases, encoding="utf-8") as file:
        case = json.load(file)
    model = llama_cpp.Llama(
        path, n_ctx=case["context"], n_gpu_layers=0, logits_all=True, verbose=False, type_k=0, type_v=0
    )
    result = {"llama_cpp": llama_cpp.__version__}
    expected = numpy.fromfile(logits, numpy.float32).reshape(len(case["rows"]), len(case["rows"][0]), -1)
    result["logits"] = max(
        float(numpy.abs(evaluate(model, row) - logits_TV).max()) for row, logits_TV in zip(case["rows"], expected)
    )
    worst = 0.0  # where the two part, how far the other choice is from the best
    for prompt, continuation in zip(case["prompts"], case["generated"]):
        scores = evaluate(model, prompt)[-1]
        for count, token in enumerate(continuation, 1):
            if int(scores.argmax()) != token:
                worst = max(worst, float(scores.max() - scores[token]))
                break
            if count < len(continuation):
                model.eval([token])
                scores = model.scores[model.n_tokens - 1]
    result["generate"] = worst
    texts = [t for t in case["texts"] if not case["nfc"] or unicodedata.is_normalized("NFC", t["text"])]
    result["texts"] = len(texts)
    for sample in texts:
        ids = list(model.tokenize(sample["text"].encode(), add_bos=True, special=False)) if sample["text"] else []
        if ids != sample["ids"]:
            result["tokenizer"] = f"{sample['text']!r} gives {ids}, satformer's are {sample['ids']}"
            break
    print(json.dumps(result))


main(*sys.argv[1:4])
