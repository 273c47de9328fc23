#!/usr/bin/env python3
"""Writes tests/golden/feedback_losses.json: the losses of TRL's KTOTrainer for 64 given answers.

An answer is a label and two lists of log-probs per token, of the policy and of the reference. Each
passes through KTOTrainer._compute_loss alone, so that the mean over the batch is its loss. The
baseline is given too: once above 0, and once below 0, which TRL clamps to 0. No trainer is
constructed (see preference_losses.py).

Made with torch 2.11, trl 1.16:
    python tests/golden/make/feedback_losses.py
"""

import collections
import json
import pathlib
import types

import torch
from preference_losses import accelerator, draw
from trl.trainer.kto_trainer import KTOTrainer

OUT = pathlib.Path(__file__).resolve().parents[1] / "feedback_losses.json"
ANSWERS = 64
SETTINGS = {"beta": 0.3, "good": 1.25, "bad": 0.5}
BASELINES = [0.75, -0.5]


def kto_loss(answer, label, baseline):
    policy, reference = answer
    zeros = torch.zeros(1, len(policy), dtype=torch.float64)

    def model(**_):
        return types.SimpleNamespace(log_probs=policy[None], entropy=zeros, mean_logits=zeros)

    model.training = False
    trainer = types.SimpleNamespace(
        model=model, accelerator=accelerator(), aux_loss_enabled=False, precompute_ref_logps=True,
        calculate_KL=True, loss_type="kto", beta=SETTINGS["beta"],
        desirable_weight=SETTINGS["good"], undesirable_weight=SETTINGS["bad"],
        _compute_kl_logps=lambda model, batch: torch.tensor([baseline], dtype=torch.float64),
        _metrics=collections.defaultdict(lambda: collections.defaultdict(list)),
        _total_train_tokens=0, _tp_size=1)
    # The answer follows one prompt token.
    completion = torch.tensor([[0] + [1] * len(policy)])
    batch = {"input_ids": torch.ones_like(completion), "completion_mask": completion,
             "attention_mask": torch.ones_like(completion), "label": torch.tensor([label]),
             "ref_logps": reference.sum()[None],
             "ref_KL_logps": torch.zeros(1, dtype=torch.float64)}
    return KTOTrainer._compute_loss(trainer, model, batch, return_outputs=False).item()


def main():
    generator = torch.Generator().manual_seed(13)
    answers = [draw(generator)["chosen"] for _ in range(ANSWERS)]
    labels = [i % 3 != 1 for i in range(ANSWERS)]
    losses = [{"baseline": baseline,
               "loss": [kto_loss(*row, baseline) for row in zip(answers, labels)]}
              for baseline in BASELINES]
    golden = {"versions": {"torch": "2.11", "trl": "1.16"}, "settings": SETTINGS,
              "answers": {"label": [int(label) for label in labels],
                          "length": [len(policy) for policy, _ in answers],
                          "policy": [policy.sum().item() for policy, _ in answers],
                          "reference": [reference.sum().item() for _, reference in answers]},
              "kto": losses}
    for one in losses:
        print(one["baseline"], min(one["loss"]), max(one["loss"]))
    OUT.write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
