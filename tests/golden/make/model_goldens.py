#!/usr/bin/env python3
"""Writes tiny checkpoints of every family, with transformers' logits, gradients and greedy continuations.

Made with torch 2.11.0, transformers 5.23.0, safetensors 0.8 (any newer pair should agree within the
tests' tolerances). Run from the repository's root: python3 tests/golden/make/model_goldens.py [NAME...]
Each folder tests/golden/models/NAME holds a Hugging Face checkpoint and golden.safetensors:
  tokens [T], cu_seqlens [S+1]                sequences of odd lengths, laid end to end
  logits [T, V]                               each sequence run alone, fp32
  loss_index, loss_target [R]                 rows t -> token t+1
  logprob [R]                                 their log-probabilities
  grad/NAME                                   of the mean of -logprob over all R rows
                                              (names and shapes as xrun holds them: [out, in])
  greedy [n, 12], greedy_of [n]               continuations of some sequences, no stop id
  aux []                                      balance loss of all tokens as one sequence; equals
                                              xrun's definition if one layer is a mixture
If frequencies depend on the length (dynamic, longrope), transformers keeps a state between calls and
changes frequencies in the middle of a sequence. Each sequence then gets a separate model, and greedy_of
lists the sequences that stay on one side of the change.
"""
import copy
import json
import pathlib
import shutil
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file

LENGTHS = [7, 1, 13, 2, 19]
NEW_TOKENS = 12
MARGIN = 1e-3  # between the two likeliest tokens at every greedy step; if smaller, change the seed
ROUTING_MARGIN = 3e-3  # between the last chosen expert and the next: bf16 must not swap them
WITH_GRADIENT = ("embed_tokens", "lm_head", "0.self_attn.q_proj", "1.self_attn.k_proj", "0.mlp.down",
                 "wte", "wpe", "0.attn.c_attn", "1.attn.c_proj", "0.mlp.c_fc", "1.mlp.c_proj",
                 "mlp.gate.", "1.mlp.experts")
OUT = pathlib.Path("tests/golden/models")


def tiny(kind="llama", **changes):
    fields = dict(
        vocab_size=131, hidden_size=32, intermediate_size=40, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=256,
        rms_norm_eps=1e-5, tie_word_embeddings=False, attention_bias=False,
        bos_token_id=1, eos_token_id=2, pad_token_id=None, initializer_range=0.15,
    )
    fields.update(changes)
    if kind != "llama":
        fields.pop("attention_bias")
    config = {"llama": transformers.LlamaConfig, "qwen2": transformers.Qwen2Config,
              "qwen3": transformers.Qwen3Config, "qwen3_moe": transformers.Qwen3MoeConfig,
              "olmo2": transformers.Olmo2Config}[kind]
    return config(**fields)


def tiny_moe(**changes):
    return tiny("qwen3_moe", num_key_value_heads=2, head_dim=12, num_experts=4,
                num_experts_per_tok=2, moe_intermediate_size=24, **changes)


def tiny_gpt2(**changes):
    """Keeps dropouts at 0.1: they apply only in training."""
    return transformers.GPT2Config(
        vocab_size=131, n_embd=32, n_layer=2, n_head=4, n_positions=64, initializer_range=0.15,
        bos_token_id=1, eos_token_id=2, **changes)


def yarn(**changes):
    return dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=16,
                **changes)


LONGROPE = dict(rope_type="longrope", rope_theta=10000.0, factor=4.0,
                original_max_position_embeddings=16, short_factor=[1.0, 1.1, 1.2, 1.5],
                long_factor=[1.0, 1.9, 3.0, 6.5])
LLAMA3 = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0,
              high_freq_factor=4.0, original_max_position_embeddings=40)
CASES = {
    "untied": tiny(),
    "tied_gqa": tiny(num_key_value_heads=2, tie_word_embeddings=True, hidden_size=48),
    "llama3_rope": tiny(num_attention_heads=2, num_key_value_heads=1, rope_parameters=LLAMA3),
    "linear_rope_bias": tiny(attention_bias=True, mlp_bias=True,
                             rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=2.5)),
    "qwen2": tiny("qwen2", num_key_value_heads=2),
    "qwen3": tiny("qwen3", num_key_value_heads=2, head_dim=12, tie_word_embeddings=True),
    "gpt2": tiny_gpt2(),
    "gpt2_scaled": tiny_gpt2(n_inner=48, scale_attn_by_inverse_layer_idx=True),
    "yarn": tiny(max_position_embeddings=64, rope_parameters=yarn()),
    "yarn_mscale": tiny(max_position_embeddings=64, num_attention_heads=2, num_key_value_heads=2,
                        rope_parameters=yarn(mscale=1.0, mscale_all_dim=0.5, truncate=False,
                                             beta_fast=1.0, beta_slow=0.05)),
    "dynamic": tiny(max_position_embeddings=16,
                    rope_parameters=dict(rope_type="dynamic", rope_theta=10000.0, factor=2.0)),
    "longrope": tiny(max_position_embeddings=64, rope_parameters=LONGROPE),
    "qwen2_window": tiny("qwen2", num_key_value_heads=2, use_sliding_window=True, sliding_window=4,
                         max_window_layers=1),
    "qwen3_moe": tiny_moe(norm_topk_prob=True, decoder_sparse_step=2),
    "qwen3_moe_fused": tiny_moe(norm_topk_prob=False, mlp_only_layers=[0]),
    "qwen3_moe_window": tiny_moe(norm_topk_prob=True, use_sliding_window=True, sliding_window=4),
    "olmo2": tiny("olmo2", num_key_value_heads=2),
}
BY_LENGTH = ("dynamic", "longrope")
# Seeds that a margin required; the default is the index in CASES.
SEEDS = {"qwen3_moe": 151, "qwen3_moe_fused": 157, "qwen3_moe_window": 117}


def spell_as_v4(path):
    """Writes rope_theta, rope_scaling with the legacy key type, and torch_dtype, as many hub models do."""
    config = json.loads(path.read_text())
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    kind = rope.pop("rope_type")
    config["rope_scaling"] = None if kind == "default" else {"type": kind, **rope}
    config["torch_dtype"] = config.pop("dtype")
    path.write_text(json.dumps(config, indent=2) + "\n")


def spell_as_2019(folder, config):
    """Writes the hub's gpt2 layout: no prefix, causal masks among the weights, no tied-embeddings key."""
    path = folder / "model.safetensors"
    weights = {key.removeprefix("transformer."): value for key, value in load_file(path).items()}
    mask = torch.ones(config.n_positions, config.n_positions, dtype=torch.uint8).tril()
    for i in range(config.n_layer):
        weights[f"h.{i}.attn.bias"] = mask[None, None].clone()
    save_file(weights, path, {"format": "pt"})
    fields = json.loads((folder / "config.json").read_text())
    fields.pop("tie_word_embeddings", None)
    (folder / "config.json").write_text(json.dumps(fields, indent=2) + "\n")


def spell_experts_as_v4(path):
    config = json.loads(path.read_text())
    config["num_experts"] = config.pop("num_local_experts")
    path.write_text(json.dumps(config, indent=2) + "\n")


def balance_loss(model, tokens, name):
    """Checks that no expert of a sequence is chosen by less than the margin."""
    with torch.no_grad():
        out = model(tokens[None], output_router_logits=True)
    for logits in out.router_logits:
        ranked = logits.float().softmax(-1).sort(-1, descending=True).values
        k = model.config.num_experts_per_tok
        margin = float((ranked[:, k - 1] - ranked[:, k]).min())
        assert margin > ROUTING_MARGIN, f"{name}: routing differs by {margin}; take another seed"
    return out.aux_loss


def gradients(models):
    """Returns gradients summed over the copies of one model, linear maps as [out, in]."""
    total = {}
    for model in models:
        turned = {name + ".weight" for name, module in model.named_modules()
                  if type(module).__name__ == "Conv1D"}
        for key, p in model.named_parameters():
            grad = p.grad.t() if key in turned else p.grad
            total[key] = total[key] + grad if key in total else grad
    return total


def continue_greedily(model, sequences, name):
    """Returns continuations of the sequences that stay on one side of the change of frequencies."""
    def stays(n):
        return name not in BY_LENGTH or n + NEW_TOKENS <= 16 or (name == "longrope" and n > 16)

    chosen = [i for i, s in enumerate(sequences) if stays(len(s))]
    rows, margin = [], float("inf")
    for i in chosen:
        one = copy.deepcopy(model)
        one.generation_config.eos_token_id = None
        out = one.generate(sequences[i][None], max_new_tokens=NEW_TOKENS, do_sample=False,
                           pad_token_id=0, return_dict_in_generate=True, output_logits=True)
        rows.append(out.sequences[0, len(sequences[i]):])
        for step in out.logits:
            first, second = step[0].topk(2).values
            margin = min(margin, float(first - second))
    assert margin > MARGIN, f"{name}: the likeliest tokens differ by {margin}; take another seed"
    return torch.stack(rows), torch.tensor(chosen)


def make(name, config, seed):
    torch.manual_seed(seed)
    config.dtype = "float32"
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    with torch.no_grad():
        for key, p in model.named_parameters():
            if key.endswith("bias") or "norm" in key or "ln_" in key:
                p.add_(torch.randn_like(p) * 0.1)
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    shards = dict(max_shard_size="30KB") if name == "llama3_rope" else {}
    model.save_pretrained(folder, save_original_format=name != "qwen3_moe_fused", **shards)
    if name == "qwen3_moe_fused":
        spell_experts_as_v4(folder / "config.json")
    if name in ("tied_gqa", "linear_rope_bias"):
        spell_as_v4(folder / "config.json")
    if name == "gpt2_scaled":
        spell_as_2019(folder, config)

    sequences = [torch.randint(3, config.vocab_size, (n,)) for n in LENGTHS]
    starts = torch.tensor([0] + LENGTHS).cumsum(0)
    models = [copy.deepcopy(model) for _ in sequences] if name in BY_LENGTH else [model]
    logits = [models[i % len(models)](s[None]).logits[0] for i, s in enumerate(sequences)]
    index, target = [], []
    for start, s in zip(starts, sequences):
        for t in range(len(s) - 1):
            index.append(int(start) + t)
            target.append(int(s[t + 1]))
    index, target = torch.tensor(index), torch.tensor(target)
    logprob = torch.cat(logits).log_softmax(-1)[index].gather(1, target[:, None])[:, 0]
    (-logprob).mean().backward()
    golden = {
        "tokens": torch.cat(sequences), "cu_seqlens": starts.to(torch.int32),
        "logits": torch.cat(logits).detach(), "loss_index": index, "loss_target": target,
        "logprob": logprob.detach(),
    }
    for key, grad in gradients(models).items():
        if grad.numel() < 100 or any(w in key for w in WITH_GRADIENT):
            golden["grad/" + key] = grad.contiguous()
    if name.startswith("qwen3_moe"):
        for sequence in sequences:
            balance_loss(model, sequence, name)
        golden["aux"] = balance_loss(model, torch.cat(sequences), name)
    golden["greedy"], golden["greedy_of"] = continue_greedily(model, sequences, name)
    save_file(golden, folder / "golden.safetensors")
    for file in folder.iterdir():
        file.chmod(0o644)
    print(name, sum(f.stat().st_size for f in folder.iterdir()) // 1024, "KiB")


if __name__ == "__main__":
    print("torch", torch.__version__, "transformers", transformers.__version__)
    for seed, (name, config) in enumerate(CASES.items()):
        if len(sys.argv) == 1 or name in sys.argv[1:]:
            make(name, config, SEEDS.get(name, seed))
