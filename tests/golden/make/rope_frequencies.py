#!/usr/bin/env python3
"""Writes transformers' inverse frequencies and attention factors of every rope type.

Made with transformers 5.23.0, torch 2.11.0. Run from the repository's root:
python3 tests/golden/make/rope_frequencies.py writes tests/golden/rope_frequencies.json, a list of
  config            a config.json
  length            of the segment, in tokens
  inverse           [K/2]
  attention_factor
"""
import json

from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

OUT = "tests/golden/rope_frequencies.json"
SHORT = [1.0, 1.05, 1.1, 1.2, 1.3, 1.5, 1.9, 2.5]
LONG = [1.0, 1.5, 2.0, 3.5, 6.0, 11.0, 20.0, 40.0]

# (max_position_embeddings, rope_parameters, lengths)
CASES = [
    (2048, dict(rope_type="linear", rope_theta=1e4, factor=2.5), [1]),
    (8192, dict(rope_type="llama3", rope_theta=5e5, factor=8.0, low_freq_factor=1.0,
                high_freq_factor=4.0, original_max_position_embeddings=64), [1]),
    (64, dict(rope_type="dynamic", rope_theta=1e4, factor=2.0), [1, 64, 65, 300]),
    (8192, dict(rope_type="yarn", rope_theta=1e4, factor=4.0,
                original_max_position_embeddings=2048), [1]),
    (8192, dict(rope_type="yarn", rope_theta=1e6, factor=None, truncate=False,
                original_max_position_embeddings=1024), [1]),
    (8192, dict(rope_type="yarn", rope_theta=1e4, factor=40.0, mscale=1.0, mscale_all_dim=0.7,
                beta_fast=16.0, beta_slow=2.0, original_max_position_embeddings=4096), [1]),
    (8192, dict(rope_type="yarn", rope_theta=1e4, factor=4.0, attention_factor=1.25,
                original_max_position_embeddings=2048), [1]),
    (512, dict(rope_type="longrope", rope_theta=1e4, short_factor=SHORT, long_factor=LONG,
               original_max_position_embeddings=64), [1, 64, 65]),
    (512, dict(rope_type="longrope", rope_theta=1e4, factor=16.0, short_factor=SHORT,
               long_factor=LONG, original_max_position_embeddings=64), [64]),
]


def main():
    rows = []
    for max_length, rope, lengths in CASES:
        fields = dict(hidden_size=64, intermediate_size=64, num_hidden_layers=1,
                      num_attention_heads=4, head_dim=16, vocab_size=16,
                      max_position_embeddings=max_length, rope_parameters=rope)
        for length in lengths:
            config = LlamaConfig(**{**fields, "rope_parameters": dict(rope)})
            inverse, factor = ROPE_INIT_FUNCTIONS[rope["rope_type"]](config, "cpu", seq_len=length)
            rows.append(dict(config=dict(model_type="llama", **fields), length=length,
                             inverse=[float(f"{x:.9g}") for x in inverse.tolist()],
                             attention_factor=factor))
    with open(OUT, "w") as out:
        out.write("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


if __name__ == "__main__":
    main()
