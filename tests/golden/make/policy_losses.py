#!/usr/bin/env python3
"""Writes tests/golden/policy_losses.json: advantages, losses and gradients of TRL's trainers for
given rollouts.

24 rollouts of 6 prompts, answers of 1 to 40 tokens. A token has three log-probs: of the policy, of
the policy that sampled it, and of the reference. The whole batch passes through

  GRPOTrainer._compute_loss   grpo, dr_grpo, dapo, cispo, gspo (importance_sampling_level sequence),
                              ppo (dapo's normalisation with delta, the dual clip), each with a
                              reference term (k3)
  RLOOTrainer._compute_loss   rloo

`loss` is the number that TRL returns, `gradient` its derivative by the policy's log-probs, in the
order of tokens. Advantages are TRL's formulas for groups of 4 (GRPOTrainer scale_rewards "group" and
"none", RLOOTrainer), read from its source since they are inside long methods:

  (r - nanmean) / (nanstd + 1e-4),   r - nanmean,   r - (sum - r) / (n - 1)

`reinforce` is -sum(w log p) / sum|w|, w the advantage of a token's rollout; TRL has no such loss, so
this entry is the definition in float64.

The trainers are not constructed: their methods receive an object with the settings that they read
and a method that returns the given log-probs. The settings differ from the defaults of the recipes,
so that a recipe that ignores one fails.

Made with torch 2.11, trl 1.16:
    python tests/golden/make/policy_losses.py
"""

import collections
import json
import pathlib
import types

import torch
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.rloo_trainer import RLOOTrainer
from trl.trainer.utils import nanstd

OUT = pathlib.Path(__file__).resolve().parents[1] / "policy_losses.json"
PROMPTS, GROUP, LONGEST = 6, 4, 40
MAX_TOKENS = 48

# Name -> settings of the recipe, settings of TRL.
LOSSES = {
    "grpo": ({"clip": 0.15, "beta": 0.04},
             dict(loss_type="grpo", epsilon_low=0.15, epsilon_high=0.15, beta=0.04)),
    "dr_grpo": ({"loss": "dr_grpo", "clip": 0.15, "clip_high": 0.15,
                 "sampling": {"max_tokens": MAX_TOKENS}},
                dict(loss_type="dr_grpo", epsilon_low=0.15, epsilon_high=0.15)),
    "dapo": ({"loss": "dapo", "clip": 0.15, "clip_high": 0.3},
             dict(loss_type="dapo", epsilon_low=0.15, epsilon_high=0.3)),
    "dapo_kl": ({"loss": "dapo", "clip": 0.15, "clip_high": 0.3, "beta": 0.04},
                dict(loss_type="dapo", epsilon_low=0.15, epsilon_high=0.3, beta=0.04)),
    "gspo": ({"loss": "gspo", "clip": 0.02, "clip_high": 0.03},
             dict(loss_type="grpo", epsilon_low=0.02, epsilon_high=0.03,
                  importance_sampling_level="sequence")),
    "cispo": ({"loss": "cispo", "cispo_max": 1.2}, dict(loss_type="cispo", epsilon_high=1.2)),
    "ppo": ({"loss": "ppo", "clip": 0.15, "clip_high": 0.3, "dual": 1.4},
            dict(loss_type="dapo", epsilon_low=0.15, epsilon_high=0.3, delta=1.4)),
}
RLOO = {"loss": "rloo", "clip": 0.15, "clip_high": 0.3}


def draw(generator):
    rollouts = []
    for _ in range(PROMPTS * GROUP):
        length = int(torch.randint(1, LONGEST + 1, (1,), generator=generator))
        old = -torch.empty(length, dtype=torch.float64).exponential_(0.7, generator=generator) - 1e-3
        def near(scale):
            noise = torch.randn(length, dtype=torch.float64, generator=generator)
            return (old + scale * noise).clamp(max=-1e-3)
        rollouts.append({"old": old, "policy": near(0.2), "reference": near(0.5)})
    return rollouts


def padded(rows):
    width = max(len(row) for row in rows)
    return torch.stack([torch.nn.functional.pad(row, (0, width - len(row))) for row in rows])


def accelerator():
    def same(x, **_):
        return x

    return types.SimpleNamespace(device="cpu", gather=same, gather_for_metrics=same, reduce=same,
                                 num_processes=1, sync_gradients=True)


def batch_of(rollouts):
    policy = padded([one["policy"] for one in rollouts]).requires_grad_()
    mask = padded([torch.ones_like(one["old"]) for one in rollouts])
    prompt = torch.ones(len(rollouts), 1, dtype=torch.long)
    inputs = {"prompt_ids": prompt, "prompt_mask": prompt, "completion_ids": mask.long(),
              "completion_mask": mask, "num_items_in_batch": mask.sum(),
              "old_per_token_logps": padded([one["old"] for one in rollouts]),
              "ref_per_token_logps": padded([one["reference"] for one in rollouts])}
    inputs["old_logps"] = (inputs["old_per_token_logps"] * mask).sum(1)
    return policy, inputs


def run(method, policy, inputs, settings):
    """Returns TRL's loss and its gradient by the policy's log-probs, flat."""
    def logps(*_, **__):
        return policy, torch.zeros_like(policy), None

    args = types.SimpleNamespace(delta=settings.pop("delta", None), use_bias_correction_kl=False,
                                 steps_per_generation=1)
    model = types.SimpleNamespace(training=False)
    trainer = types.SimpleNamespace(
        _get_per_token_logps_and_entropies=logps, model=model, args=args, accelerator=accelerator(),
        aux_loss_enabled=False, top_entropy_quantile=1.0, off_policy_mask_threshold=None,
        importance_sampling_level="token", beta=0.0, use_vllm=False, _entropy_bonus_enabled=False,
        max_completion_length=MAX_TOKENS, current_gradient_accumulation_steps=1,
        _metrics=collections.defaultdict(lambda: collections.defaultdict(list)))
    for name, value in settings.items():
        setattr(trainer, name, value)
    loss = method(trainer, model, inputs)
    gradient, = torch.autograd.grad(loss, policy)
    return loss.item(), gradient[inputs["completion_mask"].bool()].tolist()


def advantages(rewards):
    groups = rewards.view(-1, GROUP)
    mean = groups.nanmean(1).repeat_interleave(GROUP)
    std = nanstd(groups, dim=1).repeat_interleave(GROUP)
    others = ((groups.nansum(1, keepdim=True) - groups) / (GROUP - 1)).view(-1)
    return {"group": (rewards - mean) / (std + 1e-4), "none": rewards - mean,
            "leave_one_out": rewards - others}


def main():
    generator = torch.Generator().manual_seed(11)
    rollouts = draw(generator)
    rewards = torch.randint(0, 5, (len(rollouts),), generator=generator).double() / 4
    rewards[:GROUP] = 0.3  # an equal group
    kinds = advantages(rewards)
    advantage = kinds["group"]
    losses = {}
    for name, (settings, trl) in LOSSES.items():
        policy, inputs = batch_of(rollouts)
        inputs["advantages"] = advantage
        losses[name] = settings, *run(GRPOTrainer._compute_loss, policy, inputs, dict(trl))
    policy, inputs = batch_of(rollouts)
    inputs["advantages"] = advantage
    losses["rloo"] = RLOO, *run(RLOOTrainer._compute_loss, policy, inputs,
                                dict(epsilon_low=0.15, epsilon_high=0.3))
    policy, inputs = batch_of(rollouts)
    weight = advantage.unsqueeze(1) * inputs["completion_mask"]
    loss = -(weight * policy).sum() / weight.abs().sum()
    gradient, = torch.autograd.grad(loss, policy)
    losses["reinforce"] = ({"loss": "reinforce"}, loss.item(),
                           gradient[inputs["completion_mask"].bool()].tolist())
    for name, (_, value, gradient) in losses.items():
        print(f"{name:10} {value:9.5f}, gradient up to {max(map(abs, gradient)):.5f}, "
              f"{sum(g == 0 for g in gradient)} of {len(gradient)} zero")
    flat = {name: [x for one in rollouts for x in one[name].tolist()] for name in rollouts[0]}
    golden = {"versions": {"torch": "2.11", "trl": "1.16"},
              "rollouts": {"length": [len(one["old"]) for one in rollouts],
                           "group": [i // GROUP for i in range(len(rollouts))],
                           "reward": rewards.tolist(), "advantage": advantage.tolist(), **flat},
              "advantages": {name: values.tolist() for name, values in kinds.items()},
              "losses": {name: {"settings": settings, "loss": loss, "gradient": gradient}
                         for name, (settings, loss, gradient) in losses.items()}}
    OUT.write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
