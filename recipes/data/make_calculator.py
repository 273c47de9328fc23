#!/usr/bin/env python3
"""Writes calculator.jsonl: 300 products and sums for the calculator of calculator.lua.

Each prompt says how to call the calculator, in the form that models without tools of their own can
copy, and asks for one value. No two rows ask for the same. The order is random, from a fixed seed:
    python3 recipes/data/make_calculator.py
"""

import json
import pathlib
import random

OUT = pathlib.Path(__file__).resolve().parent / "calculator.jsonl"
ROWS = 300
SYSTEM = (
    "You have a calculator. To use it, answer with a call and nothing else, for example:\n"
    '<tool_call>{"name": "calculate", "arguments": {"expression": "12 + 30"}}</tool_call>\n'
    "The result comes back as a message. Then answer with the number."
)


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
            messages = [
                {"role": "system", "content": SYSTEM},
                {"role": "user", "content": f"What is {text}?"},
            ]
            out.write(json.dumps({"messages": messages, "answer": answer}) + "\n")


if __name__ == "__main__":
    main()
