#!/usr/bin/env python3
"""Writes tests/golden/preference_losses.json: the losses of TRL's trainers for 64 given pairs.

A pair is four lists of log-probs per token: of the policy and of the reference, for a chosen and a
rejected answer of 1 to 60 tokens. Each pair passes through TRL's code alone, so that the mean over the
batch is the loss of the pair:

  DPOTrainer._compute_loss      sigmoid, hinge, ipo, robust, apo_zero, apo_down, sigmoid_norm,
                                exo_pair, nca_pair, bco_pair, sppo_hard, discopop, and
                                sigmoid + alpha sft (rpo)
  CPOTrainer.cpo_loss           sigmoid with label smoothing over log-ratios (cdpo), and simpo
  ORPOTrainer.odds_ratio_loss   the second term of orpo, in TRL's float32; the first is the mean
                                log-prob of the chosen answer (TRL itself also trains the prompt)
  RewardTrainer.compute_loss    reward, with the policy's sums as scores

The trainers are not constructed: their methods receive an object with the settings that they read
and a model that returns the given log-probs. The settings differ from the defaults of the recipes,
so that a recipe that ignores one fails. A setting `loss` names a loss of pair_losses.lua.

Made with torch 2.11, trl 1.16:
    python tests/golden/make/preference_losses.py
"""

import collections
import json
import pathlib
import types

import torch
from trl.experimental.cpo.cpo_trainer import CPOTrainer
from trl.experimental.orpo.orpo_trainer import ORPOTrainer
from trl.trainer.dpo_trainer import DPOTrainer
from trl.trainer.reward_trainer import RewardTrainer

OUT = pathlib.Path(__file__).resolve().parents[1] / "preference_losses.json"
PAIRS, LONGEST = 64, 60
SIDES = ("chosen", "rejected")

# Name -> settings of the recipe, losses of TRL. Names without a recipe are losses of pair_losses.
DPO = {
    "dpo": ({"beta": 0.3}, ["sigmoid"]),
    "dpo_lora": ({"beta": 0.3}, ["sigmoid"]),
    "sft_dpo": ({"beta": 0.3}, ["sigmoid"]),
    "joint": ({"beta": 0.3}, ["sigmoid"]),
    "ipo": ({"beta": 0.3}, ["ipo"]),
    "hinge": ({"beta": 0.3}, ["hinge"]),
    "robust": ({"beta": 0.3, "eps": 0.15}, ["robust"]),
    "dpo_norm": ({"beta": 3.0}, ["sigmoid_norm"]),
    "rpo": ({"beta": 0.3, "alpha": 0.5}, ["sigmoid", "sft"]),
    "apo_zero": ({"beta": 0.3}, ["apo_zero"]),
    "apo_down": ({"beta": 0.3}, ["apo_down"]),
    "exo_pair": ({"beta": 0.3, "eps": 0.15}, ["exo_pair"]),
    "nca_pair": ({"beta": 0.3}, ["nca_pair"]),
    "bco_pair": ({"beta": 0.3}, ["bco_pair"]),
    "sppo_hard": ({"beta": 0.3}, ["sppo_hard"]),
    "discopop": ({"beta": 0.3, "tau": 0.4}, ["discopop"]),
}
RECIPES = pathlib.Path(__file__).resolve().parents[3] / "recipes"
CDPO, SIMPO, ORPO = {"beta": 0.3, "eps": 0.15}, {"beta": 1.5, "gamma": 0.7}, {"lambda": 0.25}


def draw(generator):
    """Returns one pair: side -> (policy's, reference's) log-probs per token, all below 0."""
    pair = {}
    for side in SIDES:
        length = int(torch.randint(1, LONGEST + 1, (1,), generator=generator))
        policy = -torch.empty(length, dtype=torch.float64).exponential_(0.7, generator=generator)
        noise = torch.randn(length, dtype=torch.float64, generator=generator)
        pair[side] = (policy - 1e-3, (policy + 0.5 * noise).clamp(max=-1e-3))
    return pair


def padded(rows, width):
    return torch.stack([torch.nn.functional.pad(row, (0, width - len(row))) for row in rows])


def accelerator():
    def same(x):
        return x

    return types.SimpleNamespace(device="cpu", gather=same, gather_for_metrics=same)


def dpo_loss(pair, settings, loss_types):
    policy, reference = ([pair[side][who] for side in SIDES] for who in (0, 1))
    width = max(len(row) for row in policy)
    mask = padded([torch.ones_like(row) for row in policy], width).long()
    zeros = torch.zeros(2, width, dtype=torch.float64)

    def model(**_):
        return types.SimpleNamespace(log_probs=padded(policy, width), entropy=zeros,
                                     mean_logits=zeros, is_top1=zeros.bool())

    model.training = False
    trainer = types.SimpleNamespace(
        model=model, accelerator=accelerator(), aux_loss_enabled=False, ld_alpha=None,
        precompute_ref_logps=True, f_divergence_type="reverse_kl", use_weighting=False,
        loss_types=loss_types, loss_weights=[1.0, settings.get("alpha")][: len(loss_types)],
        beta=settings["beta"], label_smoothing=settings.get("eps", 0.0),
        args=types.SimpleNamespace(discopop_tau=settings.get("tau")),
        _metrics=collections.defaultdict(lambda: collections.defaultdict(list)),
        _total_train_tokens=0, _tp_size=1)
    # Each answer follows one prompt token.
    completion = torch.cat([torch.zeros(2, 1, dtype=torch.long), mask], dim=1)
    inputs = {"input_ids": torch.ones_like(completion), "completion_mask": completion,
              "attention_mask": torch.ones_like(completion)}
    for side, row in zip(SIDES, reference):
        inputs[f"ref_{side}_logps"] = row.sum()[None]
    return DPOTrainer._compute_loss(trainer, model, inputs, return_outputs=False)


def cpo_loss(values, settings, loss_type):
    trainer = types.SimpleNamespace(
        accelerator=accelerator(), alpha=0.0, loss_type=loss_type, beta=settings["beta"],
        simpo_gamma=settings.get("gamma", 0.0), label_smoothing=settings.get("eps", 0.0))
    return CPOTrainer.cpo_loss(trainer, *values)[0]


def cdpo_loss(pair):
    ratios = [(pair[side][0] - pair[side][1]).sum() for side in SIDES]
    return cpo_loss(ratios, CDPO, "sigmoid")


def simpo_loss(pair):
    return cpo_loss([pair[side][0].mean() for side in SIDES], SIMPO, "simpo")


def orpo_loss(pair):
    trainer = types.SimpleNamespace(accelerator=accelerator(), beta=ORPO["lambda"])
    means = [pair[side][0].mean() for side in SIDES]
    return -means[0] - ORPOTrainer.odds_ratio_loss(trainer, *means)[0].double()


def reward_loss(pair):
    scores = torch.stack([pair[side][0].sum() for side in SIDES])

    def model(**_):
        return types.SimpleNamespace(logits=scores[:, None])

    model.training = False
    trainer = types.SimpleNamespace(
        model=model, accelerator=accelerator(), _total_train_tokens=0, _tp_size=1,
        args=types.SimpleNamespace(center_rewards_coefficient=None),
        _metrics=collections.defaultdict(lambda: collections.defaultdict(list)))
    return RewardTrainer.compute_loss(trainer, model, {})


def main():
    generator = torch.Generator().manual_seed(7)
    pairs = [draw(generator) for _ in range(PAIRS)]
    losses = {name: (settings, [dpo_loss(pair, settings, kinds).item() for pair in pairs])
              for name, (settings, kinds) in DPO.items()}
    for name, settings, loss in (("cdpo", CDPO, cdpo_loss), ("simpo", SIMPO, simpo_loss),
                                 ("orpo", ORPO, orpo_loss), ("reward", {}, reward_loss)):
        losses[name] = (settings, [loss(pair).item() for pair in pairs])
    sides = {side: {"length": [len(pair[side][0]) for pair in pairs],
                    "policy": [pair[side][0].sum().item() for pair in pairs],
                    "reference": [pair[side][1].sum().item() for pair in pairs]}
             for side in SIDES}
    recipes = {}
    for name, (settings, values) in sorted(losses.items()):
        if not (RECIPES / f"{name}.lua").exists():
            settings = {"loss": name, **settings}
        recipes[name] = {"settings": settings, "loss": values}
    for name, recipe in recipes.items():
        print(f"{name:9} {min(recipe['loss']):9.4f} to {max(recipe['loss']):9.4f}")
    golden = {"versions": {"torch": "2.11", "trl": "1.16"}, "pairs": sides, "recipes": recipes}
    OUT.write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
