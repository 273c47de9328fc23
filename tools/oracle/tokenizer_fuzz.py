"""Compares xrun with the tokenizers package on random tokenizer.json files and random text.

    python3 tools/oracle/tokenizer_fuzz.py [ROUNDS] [SEED]

A round draws normalizers, pre-tokenizers, a model with a small vocabulary, a post-processor, a
decoder and added tokens with random flags, and 60 strings (tests/golden/make/generated_strings.py).
Ids, offsets and decoded text must be equal. The cases that docs/numerics.md lists as differences are not
drawn, and texts on which the package panics are skipped. Prints the first difference of a round
(status 1). XRUN names the program (default ./xrun).
"""
import json
import random
import sys
import tempfile
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers import pre_tokenizers

from tokenizer_oracle import byte_starts, extended, xrun

sys.path.insert(0, str(Path(__file__).parents[2] / "tests/golden/make"))
from generated_strings import generated  # noqa: E402

WORDS = "the of and The in to a World naïve café don't data-set 2024 東京 한국어 привет ﬁne ½ ＡＢＣ".split()
BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
# Regexes that Oniguruma and PCRE2 read differently, and plain ones.
REGEXES = [r"\p{L}+", r"\s+", r"[\p{P}\p{S}]", r"\p{N}{1,3}", r"\p{N}{1,3}+", r"e{1,2}+",
           r"[\p{L}&&[^a-m]]+", r"[\w&&[^\d]]+", r"[a-z&&[^aeiou]]+", r"[a-f[x-z]]+", r"\h+", r"\H",
           r"a{,2}", r"\u0061", r"\x{e9}", r"\p{Punct}+", r"\p{Word}+", r"\p{^L}+",
           r"[[:digit:]]+", r"[^[:space:]]+", r"^\w+|\w+$", r"(?i:THE|of)",
           r"\s+(?!\S)|\s+", r"(?<!\w)e", r"\bto\b", r"\S++", r"a*", r"\R", r"[^\r\n\p{L}\p{N}]?\p{L}+"]
ADDED = ["<s>", "[MASK]", "New York", "t N", "ABC", "abc", "q'", "é", "e", " a", "a", "\n", " ", "  ",
         "the", "東", "\u2581", "\t\n", "ﬁ", "e\u0301"]
BYTES = [f"<0x{b:02X}>" for b in range(256)]


class Draw(random.Random):
    def flag(self, share=0.5):
        return self.random() < share

    def pattern(self):
        if self.flag(0.4):
            return {"String": self.choice([" ", "e", "é", "", "▁", "  "])}
        return {"Regex": self.choice(REGEXES)}

    def normalizer(self):
        kind = self.choice(["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents",
                            "ByteLevel", "Strip", "Replace", "Prepend", "BertNormalizer"])
        options = {
            "Strip": {"strip_left": self.flag(), "strip_right": self.flag()},
            "Replace": {"pattern": self.pattern(), "content": self.choice(["▁", " ", "", "é"])},
            "Prepend": {"prepend": self.choice(["▁", "x", " "])},
            "BertNormalizer": {"clean_text": self.flag(), "handle_chinese_chars": self.flag(),
                               "strip_accents": self.choice([None, True, False]),
                               "lowercase": self.flag()}}
        return {"type": kind, **options.get(kind, {})}

    def pre_tokenizer(self):
        kind = self.choice(["Whitespace", "WhitespaceSplit", "BertPreTokenizer",
                            "Punctuation", "Digits", "Split",
                            "ByteLevel", "Metaspace"])
        options = {
            "Punctuation": {"behavior": self.choice(BEHAVIORS)},
            "Digits": {"individual_digits": self.flag()},
            "Split": {"pattern": self.pattern(), "behavior": self.choice(BEHAVIORS),
                      "invert": self.flag()},
            "ByteLevel": {"add_prefix_space": self.flag(), "trim_offsets": True,
                          "use_regex": self.flag()},
            "Metaspace": {"replacement": "▁", "split": self.flag(),
                          "prepend_scheme": self.choice(["first", "never", "always"])}}
        return {"type": kind, **options.get(kind, {})}

    def stages(self, make, key):
        kind = self.randrange(4)
        if kind < 2:
            return make() if kind else None
        return {"type": "Sequence", key: [make() for _ in range(self.randrange(4))]}

    def decoder(self):
        return self.choice([
            None, {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True},
            {"type": "WordPiece", "prefix": "##", "cleanup": self.flag()},
            {"type": "BPEDecoder", "suffix": "</w>"},
            {"type": "Metaspace", "replacement": "▁", "split": True,
             "prepend_scheme": self.choice(["first", "never", "always"])},
            {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                {"type": "ByteFallback"}, {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}])

    def model(self):
        letters = [chr(c) for c in range(33, 127)] + list("▁é東京д ")
        if self.flag(0.6):
            letters = sorted(set(letters) | set(pre_tokenizers.ByteLevel.alphabet()))
        kind = self.choice(["BPE", "BPE", "Unigram", "WordPiece", "WordLevel"])
        if kind == "BPE":
            return self.bpe(letters)
        pieces = sorted(set(letters) | set(WORDS) | {w[:self.randrange(1, 4)] for w in WORDS})
        if kind == "Unigram":  # no byte_fallback: the package's offsets of byte tokens differ
            return {"type": kind, "unk_id": 0, "byte_fallback": False, "vocab":
                    [["<unk>", 0.0]] + [[p, -self.choice([1.0, 2.0, 2.5, 10 * self.random()])]
                                        for p in pieces]}
        if kind == "WordPiece":
            pieces += ["##" + p for p in pieces]
        vocab = {p: i for i, p in enumerate(["[UNK]"] + pieces)}
        extra = {"continuing_subword_prefix": "##", "max_input_chars_per_word": 20}
        return {"type": kind, "unk_token": "[UNK]", "vocab": vocab,
                **(extra if kind == "WordPiece" else {})}

    def bpe(self, letters):
        prefix, suffix = self.choice([("", ""), ("", ""), ("##", ""), ("", "</w>"), ("@@", "</w>")])
        vocab, merges = ["[UNK]"], []
        for c in letters:
            vocab += [c, prefix + c, c + suffix, prefix + c + suffix]
        vocab = list(dict.fromkeys(vocab))
        for word in WORDS * 2:
            parts = [(prefix if i else "") + c + (suffix if i == len(word) - 1 else "")
                     for i, c in enumerate(word)]
            while len(parts) > 1 and set(parts) <= set(vocab) and self.flag(0.8):
                i = self.randrange(len(parts) - 1)
                pair, joined = parts[i:i + 2], parts[i] + parts[i + 1][len(prefix):]
                merges += [pair] if pair not in merges else []
                vocab += [joined] if joined not in vocab else []
                parts[i:i + 2] = [joined]
        fallback = not prefix and not suffix and self.flag(0.3)
        vocab += BYTES if fallback else []
        return {"type": "BPE", "dropout": None, "unk_token": "[UNK]", "fuse_unk": self.flag(),
                "continuing_subword_prefix": prefix or None, "end_of_word_suffix": suffix or None,
                "byte_fallback": fallback, "ignore_merges": self.flag(0.3),
                "vocab": {p: i for i, p in enumerate(vocab)}, "merges": merges}

    def added(self, model, normalizer):
        """Returns tokens in the order in which the package numbers them, with distinct normal forms that
        are not empty."""
        vocab = model["vocab"]
        pieces = ({p: i for i, (p, _) in enumerate(vocab)} if isinstance(vocab, list) else vocab)
        following, added, forms = len(vocab), [], {""}
        for text in self.sample(ADDED, self.randrange(6)):
            token = {"id": pieces.get(text, following), "content": text, "special": False,
                     "single_word": self.flag(0.2), "lstrip": self.flag(0.3),
                     "rstrip": self.flag(0.3), "normalized": self.flag()}
            if token["normalized"]:
                form = normalised(normalizer, text)
                if form in forms:
                    continue
                forms.add(form)
            following += text not in pieces
            added.append(token)
        return added

    def tokenizer(self):
        model = self.model()
        normalizer = self.stages(self.normalizer, "normalizers")
        added = self.added(model, normalizer)
        # The package trims a normalised added token by its normalised text.
        plain = not any(t["normalized"] for t in added)
        trims = {"type": "ByteLevel", "add_prefix_space": self.flag(),
                 "trim_offsets": plain and self.flag()}
        return {"version": "1.0", "added_tokens": added, "model": model, "decoder": self.decoder(),
                "normalizer": normalizer,
                "pre_tokenizer": self.stages(self.pre_tokenizer, "pretokenizers"),
                "post_processor": trims if model["type"] == "BPE" else None}


def normalised(normalizer, text):
    if normalizer is None:
        return text
    probe = {"version": "1.0", "added_tokens": [], "normalizer": normalizer, "pre_tokenizer": None,
             "post_processor": None, "decoder": None,
             "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}}
    return Tokenizer.from_str(json.dumps(probe)).normalizer.normalize_str(text)


def by_package(tokenizer, text):
    """Returns ids, offsets in bytes and decoded text; None if the package panics."""
    try:
        e, at = tokenizer.encode(text, add_special_tokens=False), byte_starts(text)
        return e.ids, [(at[a], at[b]) for a, b in e.offsets], tokenizer.decode(e.ids)
    except BaseException as error:  # noqa: BLE001 a panic is not an Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        return None


def difference(spec, texts):
    tokenizer = Tokenizer.from_str(json.dumps(spec))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "tokenizer.json").write_text(json.dumps(spec))
        ours = xrun(["--tokenizer", folder, "--json"], [{"text": t} for t in texts])
        back = xrun(["--tokenizer", folder, "--decode"], ours)
    for text, row, decoded in zip(texts, ours, back, strict=True):
        wanted = by_package(tokenizer, text)
        got = (row.get("ids"), extended(text, row.get("offsets", [])), decoded.get("text"))
        if wanted is not None and got != wanted:
            return f"{text!r}\n  xrun    {got}\n  package {wanted}"
    return None


def main():
    rounds, seed = (int(x) for x in (sys.argv[1:] + ["100", "1"][len(sys.argv) - 1:]))
    for round_ in range(rounds):
        draw = Draw(seed * 1_000_003 + round_)
        spec = draw.tokenizer()
        texts = [generated(draw.randrange(1 << 40)) for _ in range(60)]
        texts += ["", " ", "don't New York  <s> ABC", "a\n\nb \n the  abc ABC", *WORDS]
        found = difference(spec, texts)
        if found:
            spec["model"] = {k: v for k, v in spec["model"].items() if k not in ("vocab", "merges")}
            print(f"round {round_}: {json.dumps(spec, ensure_ascii=False)}\n{found}")
            return 1
    print(f"identical: {rounds} tokenizers")
    return 0


if __name__ == "__main__":
    sys.exit(main())
