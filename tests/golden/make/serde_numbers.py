#!/usr/bin/env python3
"""Writes tests/golden/serde_numbers.json: scores of a unigram model as `tokenizers` reads them.

Each entry is the number's text in tokenizer.json and the double that the package writes back, in
hexadecimal. Packages: pip install tokenizers
"""

import json
import pathlib
import random

import tokenizers

COUNT = 400
OUT = pathlib.Path(__file__).resolve().parents[1] / "serde_numbers.json"
EDGES = ["0", "-0.0", "1", "-7", "18446744073709551615", "-9223372036854775808", "1e308", "1e-308",
         "5e-324", "1e-400", "123456789012345678901234567890", "0.1234567890123456789012345",
         "-12.5E+3", "1.7976931348623157e308", "2.2250738585072014e-308", "4.35e-5"]


def numbers(random_source):
    yield from EDGES
    for _ in range(COUNT):
        form = random_source.choice(["{:.17g}", "{!r}", "{:.20f}", "{:.16e}"])
        score = -random_source.uniform(0, 20) * 10 ** random_source.choice([0, 0, 0, -6, 9])
        yield form.format(score)


def main():
    texts = list(numbers(random.Random(1)))
    vocab = ",".join(f'["p{i}",{text}]' for i, text in enumerate(texts))
    model = f'{{"type":"Unigram","unk_id":0,"vocab":[{vocab}]}}'
    package = tokenizers.Tokenizer.from_str(
        '{"version":"1.0","added_tokens":[],"normalizer":null,"pre_tokenizer":null,'
        f'"post_processor":null,"decoder":null,"model":{model}}}')
    scores = [score for _, score in json.loads(package.to_str())["model"]["vocab"]]
    pairs = [[text, float(score).hex()] for text, score in zip(texts, scores, strict=True)]
    inexact = sum(float(text) != float(score) for text, score in zip(texts, scores))
    OUT.write_text("[\n" + ",\n".join(json.dumps(pair) for pair in pairs) + "\n]\n")
    print(f"{len(pairs)} numbers, {inexact} of them not the nearest double")


if __name__ == "__main__":
    main()
