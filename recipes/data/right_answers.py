#!/usr/bin/env python3
"""Prints how many greedy answers of a model to a file's prompts are right, and how long they are.

    python3 recipes/data/right_answers.py MODEL [FILE]      # FILE: fresh.jsonl beside this script

MODEL is what `./xrun sample --model` takes, such as runs/NAME/hf. An answer is right that has the
row's `answer` in it as whole words, in either case, as dpo.lua counts it.
"""

import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
TOKENS = 128


def answers(model, rows):
    prompts = "".join(json.dumps({"messages": [{"role": "user", "content": row["prompt"]}]}) + "\n"
                      for row in rows)
    command = [str(HERE.parents[1] / "xrun"), "sample", "--model", model, "--json",
               "--max-new-tokens", str(TOKENS)]
    done = subprocess.run(command, input=prompts, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    path = pathlib.Path(sys.argv[2] if len(sys.argv) == 3 else HERE / "fresh.jsonl")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    given = answers(sys.argv[1], rows)
    right = [re.search(r"(?<!\w)" + re.escape(row["answer"].lower()) + r"(?!\w)",
                       answer["text"].lower()) is not None for row, answer in zip(rows, given)]
    for row, answer, ok in zip(rows, given, right):
        if not ok:
            print(f'{row["prompt"]} -> {answer["text"][:80]!r}')
    length = sum(len(answer["ids"]) for answer in given) / len(given)
    print(f"{sum(right)} of {len(rows)} right, {length:.1f} tokens on average")


if __name__ == "__main__":
    main()
