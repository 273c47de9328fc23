#!/usr/bin/env python3
"""Writes the golden of supervised fine-tuning: two sources of chats, and 20 steps of plain PyTorch.

  tests/golden/sft_chats.jsonl   60 conversations of one to three answers, a share of 0.7
  tests/golden/sft_tasks.jsonl   20 instructions with weights of their own, a share of 0.3
  tests/golden/sft_steps.json    token ids and trained flags of the rows in the order of training,
                                 and loss, learning rate, trained tokens, gradient norm of each step

The loop below does not use xrun. It runs the checkpoint tests/golden/tiny_dpo in transformers'
LlamaForCausalLM, fp32, each sequence alone and unpadded. The loss is the sum of weight times -log p
over the trained tokens of 4 sequences, divided by the sum of these weights. Then come clip_grad_norm_
to 1.0, torch.optim.AdamW with lr 1e-3, betas .9 .95, eps 1e-8 and weight decay 0.1 on matrices, and
transformers' cosine schedule with 2 steps of warm-up. The assistant turns are trained (transformers'
mask).

Order: every 2,048 rows contain each source's share, rounded to the nearest, at equal distances: the
j-th of n is at (j + 1/2) / n. A source that is used up starts again, as the tasks do.

Made with torch 2.11, transformers 5.23:
    python tests/golden/make/sft_steps.py
"""

import json
import pathlib
import re
from fractions import Fraction

import torch
from transformers import AutoTokenizer, LlamaForCausalLM, get_cosine_schedule_with_warmup

ROOT = pathlib.Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests/golden"
STEPS, SEQUENCES, LR, CLIP, DECAY, WARMUP = 20, 4, 1e-3, 1.0, 0.1, 2
SHARES = [Fraction(7, 10), Fraction(3, 10)]
BLOCK = 2048

THINGS = ["river", "lamp", "north", "a stone", "wool", "the opera", "naïve art", "salt", "July",
          "a bridge", "ink", "zero"]


def write_rows():
    chats, tasks = [], []
    for i in range(60):
        messages = [{"role": "system", "content": "Answer in few words."}] if i % 7 == 3 else []
        for turn in range(i % 3 + 1):
            thing = THINGS[(5 * i + turn) % 12]
            messages += [{"role": "user", "content": f"Tell me of {thing}, number {i + turn}."},
                         {"role": "assistant", "content": f"{thing.title()}: {i * 7 + turn}" +
                          " and more" * (i % 5) + "."}]
        chats.append({"messages": messages})
    for i in range(20):
        tasks.append({"instruction": f"Repeat {THINGS[i % 12]} {i % 4} times.",
                      "output": " ".join([THINGS[i % 12]] * (i % 4)) or "Nothing.",
                      "weight": [1, 0.5, 2.5][i % 3]})
    for name, rows in (("chats", chats), ("tasks", tasks)):
        (GOLDEN / f"sft_{name}.jsonl").write_text(
            "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return [chats, tasks]


def order(sizes):
    """Returns (source, row) of each sequence of the run."""
    counts = [int(share * BLOCK) for share in SHARES]
    rest = sorted(range(2), key=lambda d: counts[d] - SHARES[d] * BLOCK)
    for d in rest[: BLOCK - sum(counts)]:
        counts[d] += 1
    positions = sorted((Fraction(2 * j + 1, 2 * n), d, j)
                       for d, n in enumerate(counts) for j in range(n))
    return [(d, j % sizes[d]) for _, d, j in positions[: STEPS * SEQUENCES]]


def encode(tokenizer, row):
    messages = row.get("messages") or [{"role": "user", "content": row["instruction"]},
                                       {"role": "assistant", "content": row["output"]}]
    got = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=True,
                                        return_assistant_tokens_mask=True)
    assert any(got["assistant_masks"])
    return list(got["input_ids"]), list(got["assistant_masks"]), row.get("weight", 1)


def nll(model, sequence):
    """Returns the sum of weight times -log p over the trained tokens, and the sum of the weights."""
    ids, trained, weight = sequence
    logprob = model(torch.tensor([ids])).logits[0, :-1].log_softmax(-1)
    taken = logprob.gather(1, torch.tensor(ids[1:])[:, None])[:, 0]
    on = torch.tensor(trained[1:], dtype=torch.float32)
    return -(weight * on * taken).sum(), weight * on.sum()


def train(sequences):
    model = LlamaForCausalLM.from_pretrained(GOLDEN / "tiny_dpo", dtype=torch.float32,
                                             attn_implementation="eager")
    weights = list(model.parameters())
    adamw = torch.optim.AdamW(
        [{"params": [w for w in weights if w.dim() > 1], "weight_decay": DECAY},
         {"params": [w for w in weights if w.dim() == 1], "weight_decay": 0.0}],
        lr=LR, betas=(0.9, 0.95), eps=1e-8)
    schedule = get_cosine_schedule_with_warmup(adamw, WARMUP, STEPS)
    report = []
    for step in range(STEPS):
        sums = [nll(model, one) for one in sequences[step * SEQUENCES:(step + 1) * SEQUENCES]]
        weight = sum(w for _, w in sums)
        loss = sum(s for s, _ in sums) / weight
        adamw.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(weights, CLIP)
        lr = schedule.get_last_lr()[0]
        adamw.step()
        schedule.step()
        report.append({"loss": loss.item(), "lr": lr, "weight": weight.item(),
                       "grad_norm": norm.item()})
        print(step, report[-1], flush=True)
    return report


def main():
    sources = write_rows()
    tokenizer = AutoTokenizer.from_pretrained(GOLDEN / "tiny_dpo")
    drawn = order([len(rows) for rows in sources])
    sequences = [encode(tokenizer, sources[d][row]) for d, row in drawn]
    golden = {
        "versions": {"torch": "2.11", "transformers": "5.23"},
        "settings": {"sequences": SEQUENCES, "lr": LR, "schedule": "cosine", "warmup": WARMUP,
                     "clip": CLIP, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": DECAY,
                     "shares": [float(share) for share in SHARES], "shuffle": False},
        "steps": train(sequences),
        "sequences": [{"source": d, "row": row, "weight": weight, "ids": ids, "trained": trained}
                      for (d, row), (ids, trained, weight) in zip(drawn, sequences)],
    }
    text = re.sub(r"\[\s+(-?\d[^\]]*?)\s+\]", lambda m: "[" + re.sub(r"\s+", "", m[1]) + "]",
                  json.dumps(golden, indent=1))  # one list of numbers per line
    (GOLDEN / "sft_steps.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
