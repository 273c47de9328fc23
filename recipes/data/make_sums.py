#!/usr/bin/env python3
"""Writes sums.jsonl: 400 prompts for sums of two numbers of two digits, each with its answer.

No two rows have the same numbers in either order, so the rows held out by valid.fraction are sums
that training never sees. The order is random, from a fixed seed:
    python3 recipes/data/make_sums.py
"""

import json
import pathlib
import random

OUT = pathlib.Path(__file__).resolve().parent / "sums.jsonl"
ROWS = 400


def main():
    pairs = [(a, b) for a in range(10, 100) for b in range(a, 100)]
    generator = random.Random(17)
    generator.shuffle(pairs)
    with OUT.open("w") as out:
        for a, b in pairs[:ROWS]:
            if generator.random() < 0.5:
                a, b = b, a
            row = {"prompt": f"What is {a} + {b}? Answer with the number only.", "answer": a + b}
            out.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
