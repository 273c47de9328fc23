#!/usr/bin/env python3
"""Writes tests/golden/policy_losses.json: advantages, losses and gradients of TRL's trainers for
given rollouts, and of the terms that TRL lacks, in float64.

24 rollouts of 6 prompts, answers of 1 to 40 tokens. A token has four log-probs: of the policy, of
the policy before the update (old), of the policy that sampled it, and of the reference. The whole
batch passes through

  GRPOTrainer._compute_loss   grpo, dr_grpo, dapo, cispo, gspo (importance_sampling_level sequence),
                              ppo (dapo's normalisation with delta, the dual clip), calculator
                              (dapo's without a higher bound), with truncated importance sampling
                              (ppo_tis), with a reference term (grpo, k3)
  RLOOTrainer._compute_loss   rloo

`loss` is the number that TRL returns, `gradient` its derivative by the policy's log-probs, in the
order of tokens. Advantages are TRL's formulas for groups of 4 (GRPOTrainer scale_rewards "group" and
"none", RLOOTrainer), read from its source since they are inside long methods:

  (r - nanmean) / (nanstd + 1e-4),   r - nanmean,   r - (sum - r) / (n - 1)

and so are RLOOTrainer's rewards with the KL, r - beta * sum(old - ref), in `penalised`.

The following entries are definitions in float64, with x = log pi - log ref:

  reinforce    -sum(w log p) / sum|w|, w the advantage of a token's rollout
  grpo_k2      TRL's grpo without a KL, plus beta times the mean over each answer of x^2 / 2
  kl           the means over all tokens of k1 = x, k2 = x^2 / 2 and k3 = exp(-x) + x - 1, with their
               gradients by the policy's log-probs
  vocabulary   for 40 tokens with logits z [40, 7]: the means of the entropy -sum p log p and of the
               z-loss (log sum exp z)^2, and the loss of ppo with an entropy bonus, with their
               gradients by z

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
CAP = 1.1  # of truncated importance sampling

# Name -> recipe, its settings, settings of TRL.
LOSSES = {
    "grpo": ("grpo", {"clip": 0.15, "beta": 0.04},
             dict(loss_type="grpo", epsilon_low=0.15, epsilon_high=0.15, beta=0.04)),
    "dr_grpo": ("dr_grpo", {"clip": 0.15, "sampling": {"max_tokens": MAX_TOKENS}},
                dict(loss_type="dr_grpo", epsilon_low=0.15, epsilon_high=0.15)),
    "dapo": ("dapo", {"clip": 0.15, "clip_high": 0.3},
             dict(loss_type="dapo", epsilon_low=0.15, epsilon_high=0.3)),
    "gspo": ("gspo", {"clip": 0.02, "clip_high": 0.03},
             dict(loss_type="grpo", epsilon_low=0.02, epsilon_high=0.03,
                  importance_sampling_level="sequence")),
    "cispo": ("cispo", {"cap": 1.2}, dict(loss_type="cispo", epsilon_high=1.2)),
    "ppo": ("ppo", {"clip": 0.15, "dual": 1.4},
            dict(loss_type="dapo", epsilon_low=0.15, epsilon_high=0.15, delta=1.4)),
    "ppo_tis": ("ppo", {"clip": 0.15, "dual": 1.4, "tis": CAP},
                dict(loss_type="dapo", epsilon_low=0.15, epsilon_high=0.15, delta=1.4,
                     use_vllm=True, vllm_importance_sampling_correction=True)),
    "calculator": ("calculator", {"clip": 0.15},
                   dict(loss_type="dapo", epsilon_low=0.15, epsilon_high=0.15)),
}
RLOO = {"clip": 0.15, "beta": 0.07}
BETA = 0.04  # of grpo_k2
ENTROPY = 0.03
TOKENS, VOCABULARY = 40, 7


def draw(generator):
    rollouts = []
    for _ in range(PROMPTS * GROUP):
        length = int(torch.randint(1, LONGEST + 1, (1,), generator=generator))
        old = -torch.empty(length, dtype=torch.float64).exponential_(0.7, generator=generator) - 1e-3
        def near(scale):
            noise = torch.randn(length, dtype=torch.float64, generator=generator)
            return (old + scale * noise).clamp(max=-1e-3)
        rollouts.append({"old": old, "policy": near(0.2), "reference": near(0.5)})
    generator = torch.Generator().manual_seed(12)  # so that the other columns do not change
    for one in rollouts:
        noise = torch.randn(len(one["old"]), dtype=torch.float64, generator=generator)
        one["sampler"] = (one["old"] + 0.2 * noise).clamp(max=-1e-3)
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
    sampler = padded([one["sampler"] for one in rollouts])
    inputs["importance_sampling_ratio"] = (inputs["old_per_token_logps"] - sampler).exp().clamp(
        max=CAP)
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


def flat(gradient, inputs):
    return gradient[inputs["completion_mask"].bool()].tolist()


def derived(loss, by):
    gradient, = torch.autograd.grad(loss, by)
    return loss.item(), gradient


def reinforce(rollouts, advantage):
    policy, inputs = batch_of(rollouts)
    weight = advantage.unsqueeze(1) * inputs["completion_mask"]
    loss, gradient = derived(-(weight * policy).sum() / weight.abs().sum(), policy)
    return loss, flat(gradient, inputs)


def grpo_k2(rollouts, advantage):
    policy, inputs = batch_of(rollouts)
    inputs["advantages"] = advantage
    plain, by_plain = run(GRPOTrainer._compute_loss, policy, inputs,
                          dict(loss_type="grpo", epsilon_low=0.15, epsilon_high=0.15))
    mask = inputs["completion_mask"]
    k2 = (policy - inputs["ref_per_token_logps"]) ** 2 / 2 * mask
    loss, gradient = derived(BETA * (k2.sum(1) / mask.sum(1)).mean(), policy)
    return plain + loss, [a + b for a, b in zip(by_plain, flat(gradient, inputs))]


def kl_terms(rollouts):
    terms = {}
    for name, term in (("k1", lambda x: x), ("k2", lambda x: x ** 2 / 2),
                       ("k3", lambda x: (-x).exp() + x - 1)):
        policy = torch.cat([one["policy"] for one in rollouts]).requires_grad_()
        reference = torch.cat([one["reference"] for one in rollouts])
        loss, gradient = derived(term(policy - reference).mean(), policy)
        terms[name] = {"loss": loss, "gradient": gradient.tolist()}
    return terms


def vocabulary(generator):
    logits = 2 * torch.randn(TOKENS, VOCABULARY, dtype=torch.float64, generator=generator)
    target = torch.randint(0, VOCABULARY, (TOKENS,), generator=generator)
    logits.requires_grad_()
    logprob = logits.log_softmax(1)
    entropy = -(logprob.exp() * logprob).sum(1)
    chosen = logprob.gather(1, target.unsqueeze(1)).squeeze(1)
    noise = torch.randn(TOKENS, dtype=torch.float64, generator=generator)
    old = (chosen.detach() + 0.2 * noise).clamp(max=-1e-3)
    advantage = torch.tensor([1.5, -0.5, 0.25, -1.25], dtype=torch.float64)  # of answers of 10
    a = advantage.repeat_interleave(TOKENS // 4)
    ratio = (chosen - old).exp()
    ppo = -torch.minimum(ratio.clamp(max=1.4) * a, ratio.clamp(0.85, 1.15) * a)
    losses = {"entropy": entropy.mean(), "z_loss": logits.logsumexp(1).square().mean(),
              "ppo": (ppo - ENTROPY * entropy).mean()}
    found = {}
    for name, loss in losses.items():
        gradient, = torch.autograd.grad(loss, logits, retain_graph=True)
        found[name] = {"loss": loss.item(), "gradient": gradient.flatten().tolist()}
    return {"vocabulary": VOCABULARY, "logits": logits.detach().flatten().tolist(),
            "target": target.tolist(), "length": [TOKENS // 4] * 4,
            "advantage": advantage.tolist(), "old": old.tolist(),
            "settings": {"clip": 0.15, "dual": 1.4, "entropy": ENTROPY}, "losses": found}


def main():
    generator = torch.Generator().manual_seed(11)
    rollouts = draw(generator)
    rewards = torch.randint(0, 5, (len(rollouts),), generator=generator).double() / 4
    rewards[:GROUP] = 0.3  # an equal group
    kinds = advantages(rewards)
    advantage = kinds["group"]
    losses = {}
    for name, (recipe, settings, trl) in LOSSES.items():
        policy, inputs = batch_of(rollouts)
        inputs["advantages"] = advantage
        losses[name] = recipe, settings, *run(GRPOTrainer._compute_loss, policy, inputs, dict(trl))
    policy, inputs = batch_of(rollouts)
    inputs["advantages"] = advantage
    losses["rloo"] = "rloo", RLOO, *run(RLOOTrainer._compute_loss, policy, inputs,
                                        dict(epsilon_low=0.15, epsilon_high=0.15))
    losses["reinforce"] = "reinforce", {}, *reinforce(rollouts, advantage)
    losses["grpo_k2"] = ("grpo", {"clip": 0.15, "beta": BETA, "kl": "k2"},
                         *grpo_k2(rollouts, advantage))
    for name, (_, _, value, gradient) in losses.items():
        print(f"{name:10} {value:9.5f}, gradient up to {max(map(abs, gradient)):.5f}, "
              f"{sum(g == 0 for g in gradient)} of {len(gradient)} zero")
    penalty = torch.stack([(one["old"] - one["reference"]).sum() for one in rollouts])
    columns = {name: [x for one in rollouts for x in one[name].tolist()] for name in rollouts[0]}
    golden = {"versions": {"torch": "2.11", "trl": "1.16"},
              "rollouts": {"length": [len(one["old"]) for one in rollouts],
                           "group": [i // GROUP for i in range(len(rollouts))],
                           "reward": rewards.tolist(), "advantage": advantage.tolist(), **columns},
              "advantages": {name: values.tolist() for name, values in kinds.items()},
              "penalised": {"rloo": (rewards - RLOO["beta"] * penalty).tolist()},
              "losses": {name: {"recipe": recipe, "settings": settings, "loss": loss,
                                "gradient": gradient}
                         for name, (recipe, settings, loss, gradient) in losses.items()},
              "kl": kl_terms(rollouts), "vocabulary": vocabulary(generator)}
    OUT.write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
