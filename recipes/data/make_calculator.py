#!/usr/bin/env python3
"""Writes calculator.jsonl: 300 products and sums for the calculator of calculator.lua.

Each prompt shows three questions with their calls and results, in the form that models without tools of
their own can copy, and asks for one value: about a third of SmolLM2-135M-Instruct's first answers at
temperature 1 are then calls that work; with a description alone none are. No two rows ask for the
same. The order is random, from a fixed seed:
    python3 recipes/data/make_calculator.py
"""

import json
import pathlib
import random

OUT = pathlib.Path(__file__).resolve().parent / "calculator.jsonl"
ROWS = 300
SYSTEM = (
    "You have a calculator. Answer a question with a call of it. Its result comes back; "
    "then answer with the number."
)
CALL = '<tool_call>{"name": "calculate", "arguments": {"expression": "%s"}}</tool_call>'
SHOWN = (("12 + 30", "42"), ("(7 + 5) * 4", "48"), ("20 + 3 * 15", "65"))


def shown():
    messages = [{"role": "system", "content": SYSTEM}]
    for expression, result in SHOWN:
        messages += [
            {"role": "user", "content": f"What is {expression}?"},
            {"role": "assistant", "content": CALL % expression},
            {"role": "tool", "content": result},
            {"role": "assistant", "content": result},
        ]
    return messages


def question(generator):
    a, b, c = generator.randint(11, 99), generator.randint(11, 99), generator.randint(2, 9)
    kind = generator.randrange(3)
    if kind == 0:
        return f"{a} * {b}", a * b
    if kind == 1:
        return f"{a} + {b} * {c}", a + b * c
    return f"({a} + {b}) * {c}", (a + b) * c


def main():
    generator = random.Random(20)
    seen = set()
    with OUT.open("w") as out:
        while len(seen) < ROWS:
            text, answer = question(generator)
            if text in seen:
                continue
            seen.add(text)
            messages = [*shown(), {"role": "user", "content": f"What is {text}?"}]
            out.write(json.dumps({"messages": messages, "answer": answer}) + "\n")


if __name__ == "__main__":
    main()
