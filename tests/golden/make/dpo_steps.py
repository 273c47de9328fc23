#!/usr/bin/env python3
"""Writes the golden of DPO training: a tiny random llama, pairs, and 20 steps under TRL's loss.

  tests/golden/tiny_dpo/         the checkpoint, with the files of tests/data/tiny_tokenizer
  tests/golden/dpo_pairs.jsonl   80 pairs as rows of strings and of messages, several turns too
  tests/golden/dpo_steps.json    token ids and trained ranges, log-probs before step 0, and loss,
                                 accuracy, margin and gradient norm of each step

The loop below does not use xrun. It runs transformers' LlamaForCausalLM in fp32, each sequence alone
and unpadded. TRL's DPOTrainer._compute_loss computes the loss of 4 pairs from their log-probs; it must
equal the mean of -log sigmoid(beta ((pc - rc) - (pr - rr))) (Rafailov et al. 2023, eq. 7) within 1e-5.
Then come torch.nn.utils.clip_grad_norm_ to 1.0 and torch.optim.AdamW with constant lr 1e-4, betas
.9 .999, eps 1e-8 and no weight decay. Rows are in file order. The loss covers the assistant turns after
the shared prompt, with their end-of-turn token (transformers' assistant mask).

Made with torch 2.11, transformers 5.23, trl 1.16:
    python tests/golden/make/dpo_steps.py                    # the golden
    python tests/golden/make/dpo_steps.py MODEL ROWS.jsonl   # losses of any folder and rows
"""

import collections
import json
import pathlib
import shutil
import sys
import types

import torch
import torch.nn.functional as F
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
from trl.trainer.dpo_trainer import DPOTrainer

ROOT = pathlib.Path(__file__).resolve().parents[3]
GOLDEN = ROOT / "tests/golden"
STEPS, PAIRS, LR, BETA, CLIP = 20, 4, 1e-4, 0.1, 1.0

SUBJECTS = ["the sea", "a clock", "rain", "the café", "a wolf", "tea", "iron", "the moon", "bread",
            "a violin"]
QUESTIONS = ["What is {}?", "Say a word about {}.", "Why {}?", "Where do I find {}?"]
SHORT = ["It is {}.", "Just {}.", "Ask {} itself.", "Look up: {}!"]
LONG = ["Well, {}, one might say, is what it is.", "There are many ways to see {}, and so on.",
        "I think that {} is hard to tell; 1, 2, 3.", "As for {}: nobody knows.\nNobody."]


def write_rows(path):
    """Every tenth row has several turns as messages, every other tenth a system message."""
    rows = []
    for i in range(STEPS * PAIRS):
        subject = SUBJECTS[i % 10]
        question = QUESTIONS[i // 10 % 4].format(subject)
        good, bad = SHORT[i * 7 % 4].format(subject), LONG[i * 3 % 4].format(subject)
        if i % 3 == 2:  # the sides must differ in more than length
            good, bad = bad, good
        if i % 10 == 4:
            turns = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi."},
                     {"role": "user", "content": question}]
            rows.append({"prompt": turns, "chosen": [{"role": "assistant", "content": good}],
                         "rejected": [{"role": "assistant", "content": bad}]})
        elif i % 10 == 7:
            turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": question}]
            rows.append({"chosen": turns + [{"role": "assistant", "content": good}],
                         "rejected": turns + [{"role": "assistant", "content": bad}]})
        else:
            rows.append({"prompt": question, "chosen": good, "rejected": bad})
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def write_checkpoint(path):
    torch.manual_seed(5)
    config = LlamaConfig(vocab_size=264, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=1e-5,
                         rope_theta=10000.0, max_position_embeddings=512, tie_word_embeddings=True,
                         initializer_range=0.15, bos_token_id=None, eos_token_id=258,
                         pad_token_id=256)
    LlamaForCausalLM(config).save_pretrained(path)
    for file in (ROOT / "tests/data/tiny_tokenizer").iterdir():
        shutil.copyfile(file, path / file.name)


def messages(row):
    """Both full conversations and the prompt they share."""
    prompt = row.get("prompt")
    if isinstance(prompt, str):
        prompt = [{"role": "user", "content": prompt}]
    sides = []
    for side in (row["chosen"], row["rejected"]):
        if isinstance(side, str):
            side = [{"role": "assistant", "content": side}]
        sides.append(prompt + side if prompt is not None else side)
    return sides, prompt if prompt is not None else sides[0][:-1]


def encode(tokenizer, row):
    """Returns (ids, first trained token, one past the last) of both sides."""
    sides, prompt = messages(row)
    shared = len(tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=True,
                                               return_dict=False))
    out = []
    for side in sides:
        got = tokenizer.apply_chat_template(side, tokenize=True, return_dict=True,
                                            return_assistant_tokens_mask=True)
        ids = list(got["input_ids"])
        if "endgeneration" in (tokenizer.chat_template or ""):
            trained = [i for i, on in enumerate(got["assistant_masks"]) if on and i >= shared]
        else:  # an unmarked ChatML: all up to the end of turn
            turn_end = tokenizer.convert_tokens_to_ids("<|im_end|>")
            end = len(ids) - 1 - ids[::-1].index(turn_end)
            trained = list(range(shared, end + 1))
        assert trained == list(range(trained[0], trained[-1] + 1))
        out.append((ids, trained[0], trained[-1] + 1))
    return out


def logprobs(model, sequence):
    """Returns the log-prob of each trained token."""
    ids, begin, end = sequence
    logits = model(torch.tensor([ids])).logits[0].float()
    return logits[begin - 1:end - 1].log_softmax(-1).gather(
        1, torch.tensor(ids[begin:end])[:, None])[:, 0]


def trl_loss(policy, reference):
    """Returns TRL's loss of pairs, each given as two lists of log-probs per token and two sums of the
    reference. Calls TRL's method on an object with the settings that it reads and a model that returns
    the given log-probs."""
    rows = [pair[side] for side in (0, 1) for pair in policy]
    width = max(len(row) for row in rows)
    zeros = torch.zeros(len(rows), width)

    def model(**_):
        return types.SimpleNamespace(
            log_probs=torch.stack([F.pad(row, (0, width - len(row))) for row in rows]),
            entropy=zeros, mean_logits=zeros, is_top1=zeros.bool())

    model.training = False
    same = types.SimpleNamespace(device="cpu", gather=lambda x: x, gather_for_metrics=lambda x: x)
    trainer = types.SimpleNamespace(
        model=model, accelerator=same, aux_loss_enabled=False, ld_alpha=None,
        precompute_ref_logps=True, f_divergence_type="reverse_kl", use_weighting=False,
        loss_types=["sigmoid"], loss_weights=[1.0], beta=BETA, label_smoothing=0.0,
        _metrics=collections.defaultdict(lambda: collections.defaultdict(list)),
        _total_train_tokens=0, _tp_size=1)
    # Each answer follows one prompt token.
    mask = torch.stack([(torch.arange(width + 1) > 0) & (torch.arange(width + 1) <= len(row))
                        for row in rows]).long()
    inputs = {"input_ids": torch.ones_like(mask), "completion_mask": mask,
              "attention_mask": torch.ones_like(mask)}
    for side, name in enumerate(("chosen", "rejected")):
        inputs[f"ref_{name}_logps"] = torch.stack([pair[side] for pair in reference])
    return DPOTrainer._compute_loss(trainer, model, inputs, return_outputs=False)


def train(folder, rows, steps):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    pairs = [encode(tokenizer, row) for row in rows[: steps * PAIRS]]
    policy = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    with torch.no_grad():
        reference = [[logprobs(policy, side).sum() for side in pair] for pair in pairs]
    adamw = torch.optim.AdamW(policy.parameters(), lr=LR, betas=(0.9, 0.999), eps=1e-8,
                              weight_decay=0.0)
    report = []
    for step in range(steps):
        here = slice(step * PAIRS, (step + 1) * PAIRS)
        got = [[logprobs(policy, side) for side in pair] for pair in pairs[here]]
        loss = trl_loss(got, reference[here])
        margin = BETA * torch.stack([(c.sum() - rc) - (r.sum() - rr)
                                     for (c, r), (rc, rr) in zip(got, reference[here])]).detach()
        plain = -F.logsigmoid(margin).mean()
        assert abs(loss.item() - plain.item()) < 1e-5, (loss.item(), plain.item())
        adamw.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(policy.parameters(), CLIP)
        adamw.step()
        report.append({"loss": loss.item(), "accuracy": ((margin.sign() + 1) / 2).mean().item(),
                       "margin": margin.mean().item(), "grad_norm": norm.item()})
        print(step, report[-1], flush=True)
    return pairs, reference, report


def main():
    if len(sys.argv) == 3:
        rows = [json.loads(line) for line in open(sys.argv[2])]
        train(sys.argv[1], rows, min(STEPS, len(rows) // PAIRS))
        return
    write_checkpoint(GOLDEN / "tiny_dpo")
    write_rows(GOLDEN / "dpo_pairs.jsonl")
    rows = [json.loads(line) for line in open(GOLDEN / "dpo_pairs.jsonl")]
    pairs, reference, report = train(GOLDEN / "tiny_dpo", rows, STEPS)
    golden = {
        "versions": {"torch": "2.11", "transformers": "5.23", "trl": "1.16"},
        "settings": {"pairs": PAIRS, "lr": LR, "schedule": "constant", "beta": BETA, "clip": CLIP,
                     "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.0, "shuffle": False},
        "steps": report,
        "pairs": [{name: {"ids": ids, "trained": [begin, end], "logprob": value.item()}
                   for name, (ids, begin, end), value in zip(("chosen", "rejected"), pair, values)}
                  for pair, values in zip(pairs, reference)],
    }
    text = json.dumps(golden, indent=1)
    # One list of ids per line.
    import re
    text = re.sub(r"\[\s+(-?\d[^\]]*?)\s+\]", lambda m: "[" + re.sub(r"\s+", "", m[1]) + "]", text)
    (GOLDEN / "dpo_steps.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
