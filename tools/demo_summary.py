#!/usr/bin/env python3
"""Prints one screen about the demo's runs, from what `satformer eval`, `gates` and `generate` wrote into a folder.

Usage: demo_summary.py FOLDER ARCHITECTURE..."""

import json
import pathlib
import sys
import textwrap

BAR = 24


def read_metrics(run):
    """Steps, tokens a second (median), first and last training loss of a run's metrics.jsonl."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    rates = sorted(line["perf/tokens_per_sec"] for line in lines if "perf/tokens_per_sec" in line)
    losses = [line["train/loss"] for line in lines if "train/loss" in line]
    rate = rates[len(rates) // 2] if rates else float("nan")
    return max(line["progress/step"] for line in lines), rate, losses[0], losses[-1]


def table(demo, names):
    labels = ("steps", "tokens a second", "training loss", "  at the end", "validation loss", "perplexity")
    rows = {label: [] for label in labels}
    for name in names:
        steps, rate, first, last = read_metrics(demo / "runs" / name)
        result = json.loads((demo / "results" / f"{name}-eval.json").read_text(encoding="utf-8"))
        texts = (f"{steps}", f"{rate:,.0f}", f"{first:.4f}", f"{last:.4f}", f"{result['loss']:.4f}", f"{result['perplexity']:.2f}")
        for label, text in zip(labels, texts):
            rows[label].append(text)
    print("                 " + "".join(f"{name:>17}" for name in names))
    for label, texts in rows.items():
        print(f"{label:<17}" + "".join(f"{text:>17}" for text in texts))


def gates(demo):
    result = json.loads((demo / "results" / "satformer-gates.json").read_text(encoding="utf-8"))
    largest = max(layer["mean"] for layer in result["layers"]) or 1.0
    print(f"gates of the SATFormer ({result['gate']}) over {result['tokens']} validation tokens")
    print("layer    mean   exact zeros")
    for layer in result["layers"]:
        bar = "#" * round(BAR * layer["mean"] / largest)
        print(f"{layer['layer']:>5}  {layer['mean']:.4f}  {100 * layer['zero_share']:>10.1f}%   {bar}")


def main():
    demo = pathlib.Path(sys.argv[1])
    names = sys.argv[2:]
    table(demo, names)
    if "satformer" in names:
        print()
        gates(demo)
    for name in names:
        text = (demo / "results" / f"{name}-sample.txt").read_text(encoding="utf-8", errors="replace").strip()
        print(f"\nthe {name} goes on:")
        print(textwrap.fill(" ".join(text.split()), width=96, initial_indent="  ", subsequent_indent="  "))


if __name__ == "__main__":
    main()
