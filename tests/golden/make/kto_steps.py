#!/usr/bin/env python3
"""Writes tests/golden/kto_steps.json: 20 steps of KTO on the checkpoint and token ids of the DPO golden.

The answers of a step are both sides of 4 pairs of dpo_steps.json, so two answers share a prompt; every
third pair has its labels swapped. The loop does not use xrun: transformers' LlamaForCausalLM in fp64,
each sequence alone and unpadded. The baseline z is the mean of log pi - log ref over prompt i with the
answer i - 1, at least 0. The loss of an answer is lambda (1 - sigmoid(s beta (r - z))) (Ethayarajh et
al. 2024, eqs. 7, 8); it must equal that of TRL's KTOTrainer._compute_loss within 1e-6. Then come
torch.nn.utils.clip_grad_norm_ and torch.optim.AdamW as in dpo_steps.py.

Made with torch 2.11, transformers 5.23, trl 1.16:
    python tests/golden/make/kto_steps.py
"""

import json
import pathlib

import torch
from feedback_losses import SETTINGS, kto_loss
from transformers import LlamaForCausalLM

GOLDEN = pathlib.Path(__file__).resolve().parents[1]
STEPS, PAIRS, LR, CLIP = 20, 4, 3e-4, 1.0
BETA, GOOD, BAD = SETTINGS["beta"], SETTINGS["good"], SETTINGS["bad"]


def answers_of(pairs):
    """Returns (ids, first trained token, one past the last, label) of every side."""
    answers = []
    for i, pair in enumerate(pairs):
        for side in ("chosen", "rejected"):
            begin, end = pair[side]["trained"]
            answers.append((pair[side]["ids"], begin, end, (side == "chosen") != (i % 3 == 2)))
    return answers


def mismatched(answers):
    """Prompt i with everything after the prompt of answer i - 1."""
    others = []
    for (ids, begin, _, _), (other, first, last, _) in zip(answers, answers[-1:] + answers[:-1]):
        others.append((ids[:begin] + other[first:], begin, begin + last - first, None))
    return others


def logprobs(model, answer):
    """Returns the log-prob of each trained token."""
    ids, begin, end, _ = answer
    logits = model(torch.tensor([ids])).logits[0]
    return logits[begin - 1:end - 1].log_softmax(-1).gather(
        1, torch.tensor(ids[begin:end])[:, None])[:, 0]


def main():
    pairs = json.loads((GOLDEN / "dpo_steps.json").read_text())["pairs"]
    answers = answers_of(pairs)
    load = lambda: LlamaForCausalLM.from_pretrained(GOLDEN / "tiny_dpo", dtype=torch.float64,
                                                    attn_implementation="eager")
    policy, reference = load(), load()
    adamw = torch.optim.AdamW(policy.parameters(), lr=LR, betas=(0.9, 0.999), eps=1e-8,
                              weight_decay=0.0)
    report = []
    for step in range(STEPS):
        here = answers[step * 2 * PAIRS:(step + 1) * 2 * PAIRS]
        with torch.no_grad():
            kl = sum(logprobs(policy, one).sum() - logprobs(reference, one).sum()
                     for one in mismatched(here)).item() / len(here)
            of_reference = [logprobs(reference, one) for one in here]
        z, losses = max(0.0, kl), []
        for one, frozen in zip(here, of_reference):
            got = logprobs(policy, one)
            sign, weight = (1, GOOD) if one[3] else (-1, BAD)
            value = torch.sigmoid(sign * BETA * (got.sum() - frozen.sum() - z))
            losses.append(weight * (1 - value))
            trl = kto_loss((got.detach(), frozen), one[3], z)
            assert abs(trl - losses[-1].item()) < 1e-6, (trl, losses[-1].item())
        loss = torch.stack(losses).mean()
        adamw.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(policy.parameters(), CLIP)
        adamw.step()
        report.append({"loss": loss.item(), "z": z, "grad_norm": norm.item()})
        print(step, report[-1], flush=True)
    golden = {
        "versions": {"torch": "2.11", "transformers": "5.23", "trl": "1.16"},
        "settings": {"pairs": PAIRS, "lr": LR, "schedule": "constant", "beta": BETA, "good": GOOD,
                     "bad": BAD, "clip": CLIP, "betas": [0.9, 0.999], "eps": 1e-8,
                     "weight_decay": 0.0},
        "labels": [int(answer[3]) for answer in answers],
        "steps": report,
    }
    text = json.dumps(golden).replace('], "', '],\n "').replace('}, {', '},\n  {')
    (GOLDEN / "kto_steps.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
