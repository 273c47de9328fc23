"""Writes tests/golden/sampling.json: the tokens that transformers' logits processors keep of rows of
logits, and the log-sum-exp of all scores and of those kept.

Made with transformers 5.23.0 and torch 2.11.0, on the CPU in fp32:
    python tests/golden/make/sampling_goldens.py
Logits are multiples of 1/64, so that JSON holds them exactly. Rows with ties at the edge of top k or
top p are excluded, because transformers keeps every token that ties with the k-th.
"""

import json
import pathlib

import torch
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

VOCAB, ROWS = 97, 40
OPTIONS = [
    {"temperature": 1.0},
    {"temperature": 0.7},
    {"temperature": 1.3, "top_k": 1},
    {"temperature": 1.0, "top_k": 7},
    {"temperature": 0.5, "top_k": 50},
    {"temperature": 1.0, "top_p": 0.9},
    {"temperature": 2.0, "top_p": 0.35},
    {"temperature": 1.0, "top_p": 0.01},
    {"temperature": 1.0, "min_p": 0.05},
    {"temperature": 0.8, "min_p": 0.5},
    {"temperature": 0.9, "top_k": 20, "top_p": 0.8},
    {"temperature": 1.5, "top_k": 40, "top_p": 0.95, "min_p": 0.1},
]


def warpers(option):
    """Returns the warpers in the order of GenerationMixin._get_logits_processor."""
    chain = LogitsProcessorList([TemperatureLogitsWarper(option["temperature"])])
    if "top_k" in option:
        chain.append(TopKLogitsWarper(option["top_k"]))
    if "top_p" in option:
        chain.append(TopPLogitsWarper(option["top_p"]))
    if "min_p" in option:
        chain.append(MinPLogitsWarper(option["min_p"]))
    return chain


def edges_are_clear(option, logits, scores):
    """True if top k kept at most k tokens and no excluded token ties with a kept one."""
    if "top_k" in option:
        top = TopKLogitsWarper(option["top_k"])(None, logits[None].clone())[0]
        if int(top.isfinite().sum()) != option["top_k"]:
            return False
    kept = scores.isfinite()
    return not set(logits[kept].tolist()) & set(logits[~kept].tolist())


def main():
    generator = torch.Generator().manual_seed(11)
    scale = torch.linspace(0.3, 6, ROWS)[:, None]
    rows = (torch.randn(ROWS, VOCAB, generator=generator) * scale * 64).round() / 64
    cases = []
    for option in OPTIONS:
        for row in range(ROWS):
            logits = rows[row : row + 1]
            scores = warpers(option)(None, logits.clone())[0]
            if not edges_are_clear(option, logits[0], scores):
                continue
            kept = scores.isfinite().nonzero()[:, 0]
            cases.append({
                "options": option,
                "row": row,
                "kept": kept.tolist(),
                "lse": torch.logsumexp(logits[0] / option["temperature"], 0).item(),
                "lse_kept": torch.logsumexp(scores[kept], 0).item(),
            })
    out = pathlib.Path(__file__).parent.parent / "sampling.json"
    out.write_text(json.dumps({"rows": rows.tolist(), "cases": cases}) + "\n")
    print(f"{len(cases)} cases of {len(OPTIONS) * ROWS}, {out.stat().st_size} bytes")


main()
