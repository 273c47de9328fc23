#!/usr/bin/env python3
"""Writes tests/golden/open_instruct.json: losses, gradients, advantages and trained characters of
AllenAI's open-instruct for given inputs, in float64.

CHECKOUT is a copy of https://github.com/allenai/open-instruct at COMMIT. To import its modules
takes vLLM, Ray and DeepSpeed, so the definitions named below are compiled from its files and run
alone:

  dpo_utils.compute_loss        dpo, dpo_norm, dpo with label smoothing (cdpo) and simpo over 32
                                pairs. _get_batch_logps gives the sums or means; those of a pack
                                (padding_free_collator.get_batch_logps) must be the same
  data_loader                   the statements of DataPreparationActor from the rewards to the
                                packs: advantages "centered" and "standard", rl_utils.pack_sequences
                                with tool tokens, the advantage of each token
  grpo_utils.compute_grpo_loss  over these packs: dapo, cispo, dapo with compute_rho_correction
                                (ppo_tis), dapo with a constant denominator (dr_grpo), and the KL
                                estimators 0, 1 and 2 (k1, k2, k3). calculate_token_counts gives the
                                denominator of masked_mean. Over one answer a row, with the
                                masked_mean of each row, which its trainers do not use, and a KL:
                                grpo, grpo_k2
  model_utils                   log_softmax_and_gather, entropy_from_logits
  dataset_transformation        the template "tulu", _tokenize_tulu_sft_with_assistant_labels with
                                a tokenizer of one token a character

24 rollouts of 6 prompts have 1 to 24 trained tokens. A token has four log-probs: of the policy, of
the policy before the update (old), of the policy that sampled it, and of the reference. `loss` is
the sum over the packs, `gradient` its derivative by the policy's log-probs, in the order of tokens.
The gradient of a pair is that by the sum of the log-probs of an answer. Settings differ from the
recipes' defaults, so that a recipe that ignores one fails.

Made with torch 2.11, jinja2 3.1.6:
    python tests/golden/make/open_instruct.py CHECKOUT COMMIT
"""

import __future__
import ast
import dataclasses
import enum
import json
import pathlib
import sys
import types
import typing

import jinja2.sandbox
import numpy as np
import torch

from template_conversations import conversations

OUT = pathlib.Path(__file__).resolve().parents[1] / "open_instruct.json"
PAIRS, PROMPTS, GROUP, LONGEST = 32, 6, 4, 24
PACK = 96
MAX_TOKENS = 48  # of dr_grpo
CAP = 1.1        # of truncated importance sampling
TOKENS, VOCABULARY = 30, 7
SIDES = ("chosen", "rejected")

# Name -> recipe, its settings, open-instruct's. Names without a recipe are losses of pair_losses.
PAIR_LOSSES = {
    "dpo": ({"beta": 0.3}, dict(loss_type="dpo", beta=0.3)),
    "dpo_norm": ({"beta": 3.0}, dict(loss_type="dpo_norm", beta=3.0)),
    "cdpo": ({"beta": 0.3, "eps": 0.15}, dict(loss_type="dpo", beta=0.3, label_smoothing=0.15)),
    "simpo": ({"beta": 1.5, "gamma": 0.6}, dict(loss_type="simpo", beta=1.5, gamma_beta_ratio=0.4)),
}
LOSSES = {
    "dapo": ("dapo", {"clip": 0.15, "clip_high": 0.3}, dict(clip_lower=0.15, clip_higher=0.3)),
    "cispo": ("cispo", {"cap": 1.3}, dict(loss_fn="cispo", clip_higher=0.3)),
    "ppo_tis": ("ppo", {"clip": 0.15, "dual": 1e9, "tis": CAP},
                dict(use_rho_correction=True, rho_clamp_upper_bound=CAP)),
    "dr_grpo": ("dr_grpo", {"clip": 0.15, "sampling": {"max_tokens": MAX_TOKENS}},
                dict(denominator=PROMPTS * GROUP * MAX_TOKENS)),
    "grpo": ("grpo", {"clip": 0.15, "beta": 0.04, "kl": "k3"},
             dict(beta=0.04, kl_estimator=2, axis=1)),
    "grpo_k2": ("grpo", {"clip": 0.15, "beta": 0.04, "kl": "k2"},
                dict(beta=0.04, kl_estimator=1, axis=1)),
}
DEFAULTS = dict(loss_fn="dapo", clip_lower=0.15, clip_higher=0.15, beta=0.0, kl_estimator=2,
                use_rho_correction=False, rho_clamp_lower_bound=0.0, rho_clamp_upper_bound=0.0,
                rho_mask_lower_bound=0.0, rho_mask_upper_bound=0.0, rho_mask_sequence_level=False,
                rho_mask_tv_divergence=False)


def executed(nodes, file, space):
    # Annotations stay text, since they name classes of modules that are not imported.
    code = compile(ast.Module(nodes, []), file, "exec", __future__.annotations.compiler_flag)
    exec(code, space)
    return space


def load(checkout, file, names, **space):
    """Executes the named definitions of a file, functions without their decorators."""
    nodes = []
    for node in ast.parse((checkout / "open_instruct" / file).read_text()).body:
        targets = node.targets if isinstance(node, ast.Assign) else [node]
        if not any(getattr(one, "name", getattr(one, "id", None)) in names for one in targets):
            continue
        if isinstance(node, ast.FunctionDef):
            node.decorator_list = []  # torch.compile
        nodes.append(node)
    assert len(nodes) == len(names), (file, names)
    space |= dict(torch=torch, np=np, F=torch.nn.functional, enum=enum, Any=typing.Any,
                  dataclass=dataclasses.dataclass, field=dataclasses.field)
    return types.SimpleNamespace(**executed(nodes, file, space))


def preparation(checkout):
    """Returns the statements of DataPreparationActor from the rewards to the masks of the packs."""
    def assigns(node, name):
        return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name

    file = "data_loader.py"
    for node in ast.walk(ast.parse((checkout / "open_instruct" / file).read_text())):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        first = [i for i, one in enumerate(body) if assigns(one, "scores")]
        last = [i for i, one in enumerate(body) if assigns(one, "packed_sequences.response_masks")]
        if first and last:
            return lambda space: executed(body[first[0]:last[0] + 1], file, space)
    sys.exit("data_loader.py has no statements from scores to response_masks")


class OpenInstruct:
    def __init__(self, checkout):
        self.utils = load(checkout, "utils.py", ["INVALID_LOGPROB"])
        self.model = load(checkout, "model_utils.py",
                          ["estimate_kl", "entropy_from_logits", "log_softmax_and_gather"])
        self.rl = load(checkout, "rl_utils.py",
                       ["PackedSequences", "reset_position_ids", "pack_sequences", "masked_mean"],
                       Generic=typing.Generic, T=typing.TypeVar("T"))
        one_rank = types.SimpleNamespace(all_reduce=lambda *_, **__: None,
                                         ReduceOp=types.SimpleNamespace(SUM=None))
        self.grpo = load(checkout, "grpo_utils.py",
                         ["GRPOLossType", "RhoCorrection", "mask_logprobs", "_rho_drop_masks",
                          "_sequence_level_mean", "compute_rho_correction", "compute_grpo_loss",
                          "calculate_token_counts"],
                         dist=one_rank, model_utils=self.model, masked_mean=self.rl.masked_mean,
                         INVALID_LOGPROB=self.utils.INVALID_LOGPROB)
        self.dpo = load(checkout, "dpo_utils.py",
                        ["DPOLossType", "dpo_loss", "wpo_loss", "simpo_loss", "compute_loss",
                         "_get_batch_logps"])
        self.packed = load(checkout, "padding_free_collator.py", ["get_batch_logps"])
        self.prepare = preparation(checkout)
        self.chat = load(checkout, "dataset_transformation.py",
                         ["CHAT_TEMPLATES", "INPUT_IDS_KEY", "ATTENTION_MASK_KEY",
                          "MASKED_TOKEN_VALUE", "AssistantSpanDerivationError",
                          "_trainable_assistant_indices",
                          "_assistant_token_spans_from_prefix_lengths",
                          "_verify_assistant_spans_cover_content",
                          "_tokenize_tulu_sft_with_assistant_labels"])


def derived(loss, by):
    gradient, = torch.autograd.grad(loss, by, retain_graph=True)
    return gradient


def log_probs(length, generator):
    return -torch.empty(length, dtype=torch.float64).exponential_(0.7, generator=generator) - 1e-3


def near(logprob, scale, generator):
    noise = torch.randn(len(logprob), dtype=torch.float64, generator=generator)
    return (logprob + scale * noise).clamp(max=-1e-3)


# Pairs.

def draw_pairs(generator):
    sides = {side: [] for side in SIDES}
    for _ in range(PAIRS):
        for side in SIDES:
            length = int(torch.randint(1, 61, (1,), generator=generator))
            policy = log_probs(length, generator)
            sides[side].append((policy, near(policy, 0.5, generator)))
    return sides


def answer_logps(oi, rows, average):
    """Returns the sums or means of the log-probs of answers, each behind one prompt token."""
    width = max(map(len, rows))
    pad = torch.nn.functional.pad
    wrong = -7.0  # log-probs of tokens that are not trained
    labels = torch.stack([pad(torch.full((len(row),), 5), (1, width - len(row)), value=-100)
                          for row in rows])
    values = torch.stack([pad(row, (0, 1 + width - len(row)), value=wrong) for row in rows])
    padded = oi.dpo._get_batch_logps(values, labels, average_log_prob=average)
    ends = np.cumsum([0] + [len(row) + 1 for row in rows])
    packed = oi.packed.get_batch_logps(
        torch.cat([pad(row, (0, 1), value=wrong) for row in rows])[None],
        torch.cat([pad(torch.full((len(row),), 5), (1, 0), value=-100) for row in rows])[None],
        torch.tensor(ends), average_log_prob=average)
    assert torch.allclose(padded, packed, rtol=0, atol=1e-12)
    return padded


def pair_loss(oi, sides, settings):
    """Returns the loss of each pair, and side -> its gradient by an answer's sum of log-probs."""
    given = dict(label_smoothing=0.0, gamma_beta_ratio=None) | settings
    given["loss_type"] = oi.dpo.DPOLossType(given["loss_type"])
    average = given["loss_type"].is_average_loss
    policy = {side: [row.clone().requires_grad_() for row, _ in sides[side]] for side in SIDES}
    policy_logps = [answer_logps(oi, policy[side], average) for side in SIDES]
    reference = {f"{side}_logps": answer_logps(oi, [row for _, row in sides[side]], average)
                 for side in SIDES}
    losses, *_ = oi.dpo.compute_loss(types.SimpleNamespace(**given), {"index": 0}, *policy_logps,
                                     reference_cache=[reference])
    gradients = {}
    for side in SIDES:
        rows = torch.autograd.grad(losses.sum(), policy[side], retain_graph=True)
        assert all(torch.allclose(row, row[0], rtol=0, atol=1e-12) for row in rows)
        gradients[side] = [row[0].item() for row in rows]
    return losses.tolist(), gradients


def pairs(oi, generator):
    sides = draw_pairs(generator)
    losses = {}
    for name, (settings, theirs) in PAIR_LOSSES.items():
        loss, gradient = pair_loss(oi, sides, theirs)
        recipe = name if name in ("dpo", "simpo") else "pair_losses"
        settings = settings if recipe == name else {"loss": name, **settings}
        losses[name] = {"recipe": recipe, "settings": settings, "loss": loss, "gradient": gradient}
        print(f"{name:9} {min(loss):9.4f} to {max(loss):9.4f}")
    return {**{side: {"length": [len(row) for row, _ in sides[side]],
                      "policy": [row.sum().item() for row, _ in sides[side]],
                      "reference": [row.sum().item() for _, row in sides[side]]} for side in SIDES},
            "losses": losses}


# Rollouts.

def draw_rollouts(generator):
    rollouts = []
    for _ in range(PROMPTS * GROUP):
        old = log_probs(int(torch.randint(1, LONGEST + 1, (1,), generator=generator)), generator)
        sampler = near(old, 0.2, generator).float().double()  # pack_sequences keeps float32
        rollouts.append({"old": old, "policy": near(old, 0.2, generator),
                         "reference": near(old, 0.5, generator), "sampler": sampler})
    return rollouts


def prepared(oi, rollouts, rewards, kind):
    """Returns the packs and the advantages. Every third answer has two tool tokens, not trained,
    after its first token."""
    responses, masks, logprobs = [], [], []
    for i, one in enumerate(rollouts):
        tools = 2 if i % 3 == 0 else 0
        mask = [1] + [0] * tools + [1] * (len(one["old"]) - 1)
        trained = iter(one["sampler"].tolist())
        responses.append([7] * len(mask))
        masks.append(mask)
        logprobs.append([next(trained) if m else -0.5 for m in mask])
    config = types.SimpleNamespace(num_samples_per_prompt_rollout=GROUP, save_traces=False,
                                   advantage_normalization_type=kind, pack_length=PACK,
                                   mask_tool_use=True)
    space = {
        "np": np, "torch": torch, "pack_sequences": oi.rl.pack_sequences,
        "self": types.SimpleNamespace(config=config, dp_world_size=1,
                                      tokenizer=types.SimpleNamespace(pad_token_id=0)),
        "batch": types.SimpleNamespace(scores=rewards, queries=[[5] * (1 + i % 4)
                                                                for i in range(len(rollouts))]),
        "result": types.SimpleNamespace(responses=responses, masks=masks, logprobs=logprobs)}
    oi.prepare(space)
    return space["packed_sequences"], space["advantages"]


def column(rollouts, name):
    return torch.cat([one[name] for one in rollouts])


def rows_of(flat, masks):
    """Tensors of the masks' shapes with the values of `flat` at trained positions, in order."""
    counts = [int(mask.sum()) for mask in masks]
    return [torch.zeros(mask.shape, dtype=flat.dtype).masked_scatter(mask, values)
            for mask, values in zip(masks, flat.split(counts))]


def policy_terms(oi, rollouts, packs, policy, theirs):
    """Yields (policy loss, KL, mask) of each pack [1, T], or of all answers as rows [n, T]."""
    given = DEFAULTS | theirs
    config = types.SimpleNamespace(**given)
    config.loss_fn = oi.grpo.GRPOLossType(given["loss_fn"])
    if "axis" in given:  # one answer per row
        lengths = torch.tensor([len(one["old"]) for one in rollouts])
        masks = [torch.arange(LONGEST) < lengths[:, None]]
        flat = torch.cat([row[mask] for row, mask in zip(packs.advantages, packs.response_masks)])
        advantages = rows_of(flat.double(), masks)
        sampler = rows_of(column(rollouts, "sampler"), masks)
    else:
        masks = [mask[None, 1:] for mask in packs.response_masks]
        advantages = [row[None, 1:].double() for row in packs.advantages]
        sampler = [row[None, 1:].double() for row in packs.vllm_logprobs]
    made = [[oi.grpo.mask_logprobs(row, mask) for row, mask in zip(rows, masks)]
            for rows in (rows_of(policy, masks), rows_of(column(rollouts, "old"), masks),
                         rows_of(column(rollouts, "reference"), masks), sampler)]
    for mask, advantage, new, old, reference, sampled in zip(masks, advantages, *made):
        rho = oi.grpo.compute_rho_correction(old, sampled, mask, advantage, config)
        loss, _, kl = oi.grpo.compute_grpo_loss(
            new_logprobs=new, ratio=torch.exp(new - old), advantages=advantage,
            ref_logprobs=reference, config=config, rho_weights=rho.weights)
        yield loss, kl, mask


def token_count(oi, packs):
    data = types.SimpleNamespace(response_masks=[mask[None] for mask in packs.response_masks])
    return oi.grpo.calculate_token_counts(len(data.response_masks), data, "cpu")[0]


def policy_loss(oi, rollouts, packs, theirs):
    policy = column(rollouts, "policy").requires_grad_()
    axis = theirs.get("axis")
    count = None if axis else float(theirs.get("denominator", token_count(oi, packs)))
    total = sum(oi.rl.masked_mean(loss + theirs.get("beta", 0.0) * kl, mask, axis, count)
                for loss, kl, mask in policy_terms(oi, rollouts, packs, policy, theirs))
    return total.item(), derived(total, policy).tolist()


def kl_terms(oi, rollouts, packs):
    terms = {}
    for estimator, name in enumerate(("k1", "k2", "k3")):
        policy = column(rollouts, "policy").requires_grad_()
        total = sum(oi.rl.masked_mean(kl, mask, None, token_count(oi, packs)) for _, kl, mask in
                    policy_terms(oi, rollouts, packs, policy, dict(kl_estimator=estimator)))
        terms[name] = {"loss": total.item(), "gradient": derived(total, policy).tolist()}
    return terms


def rollouts_part(oi, generator):
    rollouts = draw_rollouts(generator)
    rewards = (torch.randint(0, 17, (len(rollouts),), generator=generator).double() / 16).tolist()
    rewards[:GROUP] = [0.3] * GROUP  # an equal group
    packs, advantages = prepared(oi, rollouts, rewards, "standard")
    _, centered = prepared(oi, rollouts, rewards, "centered")
    assert len(packs.response_masks) > 3 and not all(mask.all() for mask in packs.response_masks)
    losses = {}
    for name, (recipe, settings, theirs) in LOSSES.items():
        loss, gradient = policy_loss(oi, rollouts, packs, theirs)
        losses[name] = {"recipe": recipe, "settings": settings, "loss": loss, "gradient": gradient}
        print(f"{name:9} {loss:9.5f}, gradient up to {max(map(abs, gradient)):.5f}, "
              f"{sum(g == 0 for g in gradient)} of {len(gradient)} zero")
    return {"rollouts": {"length": [len(one["old"]) for one in rollouts],
                         "group": [i // GROUP for i in range(len(rollouts))], "reward": rewards,
                         "advantage": advantages.astype(np.float32).tolist(),
                         **{name: column(rollouts, name).tolist() for name in rollouts[0]}},
            "advantages": {"centered": centered.tolist(), "standard": advantages.tolist()},
            "losses": losses, "kl": kl_terms(oi, rollouts, packs)}


def head(oi, generator):
    logits = 2 * torch.randn(TOKENS, VOCABULARY, dtype=torch.float64, generator=generator)
    target = torch.randint(0, VOCABULARY, (TOKENS,), generator=generator)
    logits.requires_grad_()
    made = {"logprob": oi.model.log_softmax_and_gather(logits, target),
            "entropy": oi.model.entropy_from_logits(logits)}
    return {"vocabulary": VOCABULARY, "logits": logits.flatten().tolist(),
            "target": target.tolist(),
            "terms": {name: {"loss": values.mean().item(),
                             "gradient": derived(values.mean(), logits).flatten().tolist()}
                      for name, values in made.items()}}


# Chats.

class Characters:
    """A tokenizer whose tokens are the characters of the text."""

    is_fast = True

    def __init__(self, template):
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True,
                                                                   lstrip_blocks=True)
        self.template = environment.from_string(template)

    def apply_chat_template(self, conversation, tools=None, tokenize=True,
                            add_generation_prompt=False, **_):
        text = self.template.render(messages=conversation, tools=tools, eos_token="</s>",
                                    add_generation_prompt=add_generation_prompt)
        return self(text)["input_ids"] if tokenize else text

    def decode(self, ids, **_):
        return "".join(map(chr, ids))

    def __call__(self, text, **_):
        ids = torch.tensor([[ord(c) for c in text]], dtype=torch.long)
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids),
                "offset_mapping": torch.tensor([[[i, i + 1] for i in range(len(text))]])}


def chats(oi):
    tokenizer = Characters(oi.chat.CHAT_TEMPLATES["tulu"])
    found = []
    for _, messages, kwargs in conversations():
        roles = [message.get("role") for message in messages]
        plain = not kwargs and all(set(message) == {"role", "content"} and
                                   isinstance(message["content"], str) for message in messages)
        # open-instruct also trains the header of an assistant's message that comes first, and the
        # line feed in the header of one that follows another.
        follows = any(role == before == "assistant" for before, role in zip(["assistant"] + roles,
                                                                            roles))
        if not plain or follows or "assistant" not in roles or \
                not set(roles) <= {"system", "user", "assistant"}:
            continue
        ids, _, labels = oi.chat._tokenize_tulu_sft_with_assistant_labels(messages, tokenizer, None,
                                                                          None)
        spans = []
        for i in (labels[0] != -100).nonzero().flatten().tolist():
            if spans and spans[-1][1] == i:
                spans[-1][1] += 1
            else:
                spans.append([i, i + 1])
        found.append({"messages": messages, "text": tokenizer.decode(ids[0]), "turns": spans})
    print(f"{len(found)} chats")
    return found


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    oi = OpenInstruct(pathlib.Path(sys.argv[1]))
    generator = torch.Generator().manual_seed(17)
    golden = {"versions": {"torch": "2.11", "open-instruct": sys.argv[2]},
              "pairs": pairs(oi, generator), **rollouts_part(oi, generator),
              "head": head(oi, generator), "chats": chats(oi)}
    OUT.write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
