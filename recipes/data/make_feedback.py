#!/usr/bin/env python3
"""Writes feedback.jsonl, the data of kto.lua: single answers with a label, {"prompt", "completion",
"label"}, from the pairs of preferences.jsonl: the chosen answer is good, the rejected one bad.

Good and bad rows take turns, and the two answers of a pair stand half the file apart. Standard
library only, no random numbers: the same bytes on every machine.

    python3 recipes/data/make_feedback.py        # rewrites the file beside it
"""

import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent


def main():
    lines = (HERE / "preferences.jsonl").read_text().splitlines()
    pairs = [json.loads(line) for line in lines]
    half = len(pairs) // 2
    with open(HERE / "feedback.jsonl", "w") as out:
        for i, good in enumerate(pairs):
            bad = pairs[(i + half) % len(pairs)]
            for pair, side in ((good, "chosen"), (bad, "rejected")):
                row = {"prompt": pair["prompt"], "completion": pair[side],
                       "label": side == "chosen"}
                out.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
