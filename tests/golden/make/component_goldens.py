"""Writes goldens of the components of tokenizer.json, made with tokenizers 0.23.3 and xxhash.

Draws 160 combinations of normalizers, pre-tokenizers, post-processors and decoders as
tools/oracle/tokenizer_fuzz.py does, each with the model of one of tests/data/tokenizers, and 12 with
small models (affixes, WordLevel). tests/golden/tokenizer_components.json has the components of each
combination and the first 16 digits of XXH3-128 of the results for 300 generated strings and the fixed
ones, in the format of generated_goldens.py. When the file was made, tokenizer_fuzz.py had five more
components (CTC, Nmt, UnicodeScripts, CharDelimiterSplit, FixedLength), which xrun now refuses; the file
keeps the 112 combinations without them.
Usage: XRUN_TEST_DATA=../shared/data python component_goldens.py
"""
import json
import sys
from pathlib import Path

import xxhash
from tokenizers import Tokenizer

from generated_goldens import hf_line
from generated_strings import generated

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tools/oracle"))
from tokenizer_fuzz import WORDS, Draw  # noqa: E402

BASES = ["llama2", "wordpiece", "precompiled"]
STAGES = ["normalizer", "pre_tokenizer", "post_processor", "decoder"]
FIXED = [*WORDS, "", " ", "don't  New York <s>"]
TEXTS = [generated(i) for i in range(300)] + FIXED


class PlainDraw(Draw):
    """Excludes regexes, which have separate goldens (regex_syntax.py) over texts of few scripts: the
    script of a newer character depends on the Unicode version."""
    def pattern(self):
        return self.choice([{"String": " "}, {"String": "e"}, {"String": "é"}, {"Regex": r"\p{L}+"},
                            {"Regex": r"\s+"}, {"Regex": r"[\p{P}\p{S}]"}, {"Regex": r"\p{N}{1,3}"}])


def path_of(made):
    return ROOT / "tests/data/tokenizers" / made["base"] / "tokenizer.json"


def post_processor(draw, is_bpe):
    ends = {"sep": ["</s>", 2], "cls": ["<s>", 1]}
    made = [None, {"type": "BertProcessing", **ends}]
    if is_bpe:  # the package trims offsets by the text of unknown tokens
        made += [{"type": kind, "trim_offsets": draw.flag(), "add_prefix_space": draw.flag(),
                  **(ends if kind[0] == "R" else {})} for kind in ("ByteLevel", "RobertaProcessing")]
    return draw.choice(made)


def is_odd(made):
    """Metaspace tests whether a piece begins the text; the package's offsets do not separate the bytes of
    the first character."""
    return "ByteLevel" in json.dumps(made["normalizer"]) and "Metaspace" in json.dumps(made)


def row(number):
    draw = PlainDraw(number)
    made = {"base": draw.choice(BASES), **{k: v for k, v in draw.tokenizer().items() if k in STAGES}}
    if is_odd(made):
        made["normalizer"] = None
    # The package trims offsets of a normalised added token by its normalised text.
    base = json.loads(path_of(made).read_text())
    made["added_tokens"] = [t for t in base["added_tokens"] if not t["normalized"]]
    made["post_processor"] = post_processor(draw, made["base"] == "llama2")
    if number % 14 == 0:
        letters = sorted(set("".join(WORDS)))
        model = draw.bpe(letters[:60])
        if draw.flag(0.3) or model["byte_fallback"]:
            model = {"type": "WordLevel", "unk_token": "[UNK]",
                     "vocab": {p: i for i, p in enumerate(["[UNK]", "a", *WORDS])}}
        made.update(model=model, added_tokens=[])
    return made


def spec_of(made):
    parts = {key: value for key, value in made.items() if key != "base"}
    return json.dumps({**json.loads(path_of(made).read_text()), **parts})


def main():
    rows = []
    for number in range(168):
        made = row(number)
        line = hf_line(Tokenizer.from_str(spec_of(made)))
        made["hash"] = xxhash.xxh3_128_hexdigest("".join(map(line, TEXTS)).encode())[:16]
        rows.append(made)
    (ROOT / "tests/golden/tokenizer_components.json").write_text(
        f'{{"fixed": {json.dumps(FIXED)},\n"rows": [\n'
        + ",\n".join(json.dumps(r, separators=(",", ":")) for r in rows) + "\n]}\n")


main()
