#!/usr/bin/env python3
"""Compares xrun's log-probs with transformers', token by token, on your own folders.

    python3 tools/oracle/model_oracle.py FOLDER...

A folder is a Hugging Face model: one from the hub, or an export of a run (RUN/hf), which proves that the
export opens in transformers. Both `xrun score --json` and transformers score random ids of several
lengths; in transformers each sequence gets a separate model, because some rope types keep a state.
Prints the largest difference of each folder; status 1 beyond 1e-4. XRUN names the program (default
./xrun). Packages: pip install torch transformers.
"""
import copy
import json
import os
import random
import subprocess
import sys

import torch
from transformers import AutoModelForCausalLM

LENGTHS = [2, 5, 13, 40, 90]
TOLERANCE = 1e-4


def program():
    return os.environ.get("XRUN", "./xrun")


def by_xrun(folder, rows):
    done = subprocess.run([program(), "score", "--json", "--dtype", "fp32", "--model", str(folder)],
                          input="".join(json.dumps({"ids": ids}) + "\n" for ids in rows).encode(),
                          stdout=subprocess.PIPE, check=True)
    return [json.loads(line)["logprobs"][1:] for line in done.stdout.splitlines()]


def by_transformers(model, ids):
    with torch.no_grad():
        logits = copy.deepcopy(model)(torch.tensor([ids])).logits[0]
    logprob = logits.float().log_softmax(-1)
    return [float(logprob[t, ids[t + 1]]) for t in range(len(ids) - 1)]


def random_rows(config):
    pick, limit = random.Random(1), getattr(config, "max_position_embeddings", max(LENGTHS))
    return [[pick.randrange(config.vocab_size) for _ in range(n)] for n in LENGTHS if n <= limit]


def largest_difference(folder):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    rows = random_rows(model.config)
    got = by_xrun(folder, rows)
    want = [by_transformers(model, ids) for ids in rows]
    return max(abs(a - b) for g, w in zip(got, want, strict=True) for a, b in zip(g, w, strict=True))


def main():
    worst = 0.0
    for folder in sys.argv[1:]:
        difference = largest_difference(folder)
        worst = max(worst, difference)
        print(f"{folder}: {difference:.2g}")
    sys.exit(worst > TOLERANCE)


if __name__ == "__main__":
    main()
