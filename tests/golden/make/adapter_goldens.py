#!/usr/bin/env python3
"""Writes adapters as PEFT folders for two tiny checkpoints, with PEFT's logits and gradients.

Made with torch 2.11.0, transformers 5.23.0, peft 0.21.2 (any newer set should agree within the tests'
tolerances). Run from the repository's root after model_goldens.py:
  python3 tests/golden/make/adapter_goldens.py
tests/golden/adapters/NAME holds the files of PEFT's save_pretrained, and golden.safetensors:
  logits [T, V]         of the sequences in the base's golden.safetensors, each run alone, fp32
  merged [T, V]         the same for the model after merge_and_unload
  grad/MODULE.lora_A    of the mean of -logprob over the base golden's loss rows, [rank, in]
  grad/MODULE.lora_B    [out, rank]
"""
import json
import pathlib
import shutil

import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

MODELS = pathlib.Path("tests/golden/models")
OUT = pathlib.Path("tests/golden/adapters")
CASES = {
    "untied": ("untied", dict(r=4, lora_alpha=8, target_modules=["q_proj", "down_proj"])),
    "gpt2": ("gpt2", dict(r=3, lora_alpha=5, target_modules=["c_attn"], use_rslora=True,
                          fan_in_fan_out=True)),
    "one_layer": ("tied_gqa", dict(r=2, lora_alpha=4, target_modules=["v_proj"],
                                   layers_to_transform=[1], lora_dropout=0.1)),
}


def sequences(golden):
    cu = golden["cu_seqlens"].tolist()
    return [golden["tokens"][b:e] for b, e in zip(cu, cu[1:])]


def logits_of(model, golden):
    return torch.cat([model(s[None]).logits[0] for s in sequences(golden)])


def make(name, base, settings):
    torch.manual_seed(5)
    golden = load_file(MODELS / base / "golden.safetensors")
    model = transformers.AutoModelForCausalLM.from_pretrained(
        MODELS / base, dtype=torch.float32, attn_implementation="eager")
    model = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", **settings))
    for key, weight in model.named_parameters():
        if "lora_" in key:
            torch.nn.init.normal_(weight, std=0.3)
    model.eval()
    out = OUT / name
    shutil.rmtree(out, ignore_errors=True)
    model.save_pretrained(out)
    (out / "README.md").unlink(missing_ok=True)
    config = json.loads((out / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = base  # not a path of the machine that ran this
    (out / "adapter_config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    logits = logits_of(model, golden)
    logprob = logits.log_softmax(-1)[golden["loss_index"], golden["loss_target"]]
    (-logprob.mean()).backward()
    tensors = {"logits": logits.detach().clone()}
    for key, weight in model.named_parameters():
        if weight.grad is not None:
            module, factor = key.removeprefix("base_model.model.").split(".lora_")
            tensors[f"grad/{module}.lora_{factor[0]}"] = weight.grad.clone()
    with torch.no_grad():
        tensors["merged"] = logits_of(model.merge_and_unload(), golden).clone()
    save_file(tensors, out / "golden.safetensors")
    print(name, tuple(logits.shape), len(tensors) - 2, "gradients")


for name, (base, settings) in CASES.items():
    make(name, base, settings)
