#!/usr/bin/env python3
"""Tiny Llama-family checkpoints with logits, gradients and greedy continuations by transformers.

Made with torch 2.11.0, transformers 5.23.0, safetensors 0.8 (any newer pair should agree within the
tests' tolerances). Run from the repository's root: python3 tests/golden/make/model_goldens.py
Each folder tests/golden/models/NAME holds a Hugging Face checkpoint and golden.safetensors:
  tokens [T], cu_seqlens [S+1]                sequences of odd lengths, laid end to end
  logits [T, V]                               each sequence by itself, fp32
  loss_index, loss_target [R]                 rows t -> token t+1
  logprob [R]                                 their log-probabilities
  grad/NAME                                   of the mean of -logprob over all R rows
  greedy [S, 12]                              continuation of each sequence, no stop id
"""
import json
import pathlib
import shutil

import torch
import transformers
from safetensors.torch import save_file

LENGTHS = [7, 1, 13, 2, 19]
WITH_GRADIENT = ("embed_tokens", "lm_head", "0.self_attn.q_proj", "1.self_attn.k_proj", "0.mlp.down")
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
              "qwen3": transformers.Qwen3Config}[kind]
    return config(**fields)


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
}


def spell_as_v4(path):
    """rope_theta and rope_scaling with the legacy key type, torch_dtype: what hubs still hold."""
    config = json.loads(path.read_text())
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    kind = rope.pop("rope_type")
    config["rope_scaling"] = None if kind == "default" else {"type": kind, **rope}
    config["torch_dtype"] = config.pop("dtype")
    path.write_text(json.dumps(config, indent=2) + "\n")


def make(name, config, seed):
    torch.manual_seed(seed)
    config.dtype = "float32"
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    with torch.no_grad():
        for key, p in model.named_parameters():
            if key.endswith("bias") or "norm" in key:
                p.add_(torch.randn_like(p) * 0.1)
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    shards = dict(max_shard_size="30KB") if name == "llama3_rope" else {}
    model.save_pretrained(folder, **shards)
    if name in ("tied_gqa", "linear_rope_bias"):
        spell_as_v4(folder / "config.json")

    sequences = [torch.randint(3, config.vocab_size, (n,)) for n in LENGTHS]
    starts = torch.tensor([0] + LENGTHS).cumsum(0)
    logits = [model(s[None]).logits[0] for s in sequences]
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
    for key, p in model.named_parameters():
        if p.numel() < 100 or any(w in key for w in WITH_GRADIENT):
            golden["grad/" + key] = p.grad.contiguous()
    model.generation_config.eos_token_id = None
    golden["greedy"] = torch.stack([
        model.generate(s[None], max_new_tokens=12, do_sample=False, pad_token_id=0)[0, len(s):]
        for s in sequences
    ])
    save_file(golden, folder / "golden.safetensors")
    for file in folder.iterdir():
        file.chmod(0o644)
    print(name, sum(f.stat().st_size for f in folder.iterdir()) // 1024, "KiB")


if __name__ == "__main__":
    print("torch", torch.__version__, "transformers", transformers.__version__)
    for seed, (name, config) in enumerate(CASES.items()):
        make(name, config, seed)
