#!/usr/bin/env python3
"""Writes tests/golden/scores.json: scores of sequences by classifiers of transformers.

Each classifier is a checkpoint of tests/golden/models, opened in fp32 as
<Family>ForSequenceClassification with one label and a head drawn from a fixed seed. Every sequence
runs alone.
  sequences             token ids, shared by all models
  models/NAME           head [D], scores [S], architectures and the sorted names of the tensors that
                        save_pretrained writes

Made with torch 2.11.0 and transformers 5.23.0. Run from the repository's root:
    python tests/golden/make/scores.py
"""
import json
import pathlib
import tempfile

import torch
import transformers
from safetensors import safe_open

MODELS = pathlib.Path("tests/golden/models")
OUT = pathlib.Path("tests/golden/scores.json")
NAMES = ["untied", "tied_gqa", "qwen2", "qwen3", "gpt2", "qwen3_moe"]
LENGTHS = [7, 1, 13, 2, 19]


def classify(name, sequences):
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        MODELS / name, num_labels=1, dtype=torch.float32).eval()
    generator = torch.Generator().manual_seed(11)
    head = torch.randn(model.score.weight.shape, generator=generator)
    with torch.no_grad():
        model.score.weight.copy_(head)
        scores = [model(torch.tensor([ids])).logits[0, 0].item() for ids in sequences]
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        with safe_open(f"{folder}/model.safetensors", framework="pt") as file:
            names = sorted(file.keys())
    return {"head": head[0].tolist(), "scores": scores, "names": names,
            "architectures": model.config.architectures}


def main():
    generator = torch.Generator().manual_seed(5)
    sequences = [torch.randint(3, 131, (n,), generator=generator).tolist() for n in LENGTHS]
    models = {name: classify(name, sequences) for name in NAMES if (MODELS / name).exists()}
    for name, model in models.items():
        print(name, model["architectures"], [round(score, 4) for score in model["scores"]])
    golden = {"versions": {"torch": "2.11", "transformers": "5.23"}, "sequences": sequences,
              "models": models}
    OUT.write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
