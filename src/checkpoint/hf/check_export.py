"""Loads an exported model with transformers and compares it with what satformer computed. One line of JSON.

usage: check_export.py FOLDER CASES.safetensors TEXTS.json
"""

import json
import sys
import warnings

warnings.filterwarnings("ignore")
try:
    import torch
    import transformers
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM, AutoTokenizer
except ImportError as error:
    print(json.dumps({"missing": str(error)}))
    sys.exit(0)
if int(transformers.__version__.split(".")[0]) < 5:
    print(json.dumps({"missing": f"transformers 5 or later is needed, this is {transformers.__version__}"}))
    sys.exit(0)


def largest(difference, rows=None):
    return float((difference if rows is None else difference[rows]).abs().max())


def main(folder, cases, texts):
    transformers.utils.logging.set_verbosity_error()
    torch.set_grad_enabled(False)
    case = load_file(cases)
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, trust_remote_code=True, dtype=torch.float32, output_loading_info=True
    )
    model.eval()
    result = {"transformers": transformers.__version__, "class": type(model).__name__}
    wrong = {key: sorted(map(str, value)) for key, value in info.items() if key.endswith("_keys") and value}
    if wrong:
        result["loading"] = str(wrong)
    result["logits"] = largest(model(case["input_ids"]).logits - case["logits"])
    valid = case["mask"].bool()
    positions = (case["mask"].long().cumsum(1) - 1).clamp(min=0)  # GPT-2 does not take them from the mask
    padded = model(case["padded_ids"], attention_mask=case["mask"], position_ids=positions).logits
    result["padded"] = largest(padded - case["padded_logits"], valid)

    expected = case["generated"]
    model.generation_config.eos_token_id = None
    out = model.generate(
        case["padded_ids"],
        attention_mask=case["mask"],
        do_sample=False,
        max_new_tokens=expected.shape[1],
        pad_token_id=0,
        output_scores=True,
        return_dict_in_generate=True,
    )
    new = out.sequences[:, case["padded_ids"].shape[1] :]
    worst = 0.0  # where the two part, how far the other choice is from the best
    for row in range(new.shape[0]):
        differs = (new[row] != expected[row]).nonzero().flatten().tolist()
        if differs:
            scores = out.scores[differs[0]][row]
            worst = max(worst, float(scores.max() - scores[expected[row, differs[0]]]))
    result["generate"] = worst
    with open(texts, encoding="utf-8") as file:
        samples = json.load(file)
    if samples:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
        result["texts"] = len(samples)
        for sample in samples:
            ids = tokenizer.encode(sample["text"], add_special_tokens=False)
            if ids != sample["ids"]:
                result["tokenizer"] = f"{sample['text']!r} gives {ids}, satformer's are {sample['ids']}"
                break
    print(json.dumps(result))


main(*sys.argv[1:4])
