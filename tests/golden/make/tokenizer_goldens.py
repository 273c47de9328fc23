"""Writes the goldens of the tokenizer tests with tokenizers 0.23.3 and transformers 5.23.0.

Trains small tokenizers of every kind that xrun supports into tests/data/tokenizers (unless
it exists), writes seeded strings over all of Unicode, and for each string and each tokenizer a
checksum of Hugging Face's result. Usage: XRUN_TEST_DATA=../shared/data python tokenizer_goldens.py

A line of the checksummed text is `ids|offsets|decoded|decoded without special tokens`. Offsets are
bytes; Hugging Face's are code points, so the tests extend xrun's to whole characters before they
compare. Each string is encoded three times: special tokens plain, special tokens allowed, and with
the post-processor's tokens.
"""
import json
import os
import random
import unicodedata
import zlib
from pathlib import Path

import tokenizers
import transformers
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers,
                        pre_tokenizers as pre, processors, trainers)

TESTS = Path(__file__).parents[2]
DATA = Path(os.environ.get("XRUN_TEST_DATA", TESTS.parent.parent / "shared/data"))
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<s>", "</s>", "<unk>", "[MASK]",
           "<think>", "</think>", "<|begin_of_text|>", "<|eot|>", "<|end", "the_tool", "New York"]


def corpus():
    text = (DATA / "text/wiki_en.txt").read_text(encoding="utf-8")[:300_000]
    return text.split("\n") + ["naïve café Ünïcode ½ 東京 한국어 привет мир"] * 30


def train(tokenizer, size, special, alphabet):
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False,
                                  initial_alphabet=alphabet, min_frequency=2)
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def smol():
    """As SmolLM: digits split off, then GPT-2's split. Added tokens of several kinds."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre.Sequence([pre.Digits(individual_digits=True),
                                    pre.ByteLevel(add_prefix_space=False)])
    t.decoder = decoders.ByteLevel()
    train(t, 700, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], pre.ByteLevel.alphabet())
    t.add_special_tokens([AddedToken("[MASK]", lstrip=True, normalized=False)])
    t.add_tokens([AddedToken("<think>", normalized=False), AddedToken("</think>", rstrip=True),
                  AddedToken("the_tool", single_word=True), AddedToken("New York"),
                  AddedToken("New York City")])
    return t


def llama3():
    t = Tokenizer(models.BPE(ignore_merges=True))
    t.pre_tokenizer = pre.Sequence([pre.Split(Regex(LLAMA3), "isolated"),
                                    pre.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    train(t, 800, [], pre.ByteLevel.alphabet())
    t.add_special_tokens([AddedToken(x, normalized=False) for x in ("<|begin_of_text|>", "<|eot|>")])
    begin = t.token_to_id("<|begin_of_text|>")
    t.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="$A $B",
                                      special_tokens=[("<|begin_of_text|>", begin)])])
    return t


def llama2():
    """As SentencePiece, expressed with normalizers; all bytes as fallback."""
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.pre_tokenizer = pre.Metaspace(prepend_scheme="never")  # only for training
    train(t, 900, ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)], [])
    t.pre_tokenizer = None
    state = json.loads(t.to_str())
    state["added_tokens"] = [a for a in state["added_tokens"] if a["id"] < 3]
    t = Tokenizer.from_str(json.dumps(state))
    t.add_tokens([AddedToken("the_tool", single_word=True), AddedToken("New York"),
                  AddedToken("<think>", normalized=False, lstrip=True, rstrip=True)])
    t.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="$A $B", special_tokens=[("<s>", 1), ("</s>", 2)])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(),
                                   decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return t


def metaspace():
    """As SentencePiece, with a pre-tokenizer and without byte tokens."""
    t = Tokenizer(models.BPE(unk_token="<unk>"))
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre.Metaspace(prepend_scheme="first")
    t.decoder = decoders.Metaspace(prepend_scheme="first")
    train(t, 600, ["<unk>", "<s>", "</s>"], [])
    return t


def regexes():
    """As DeepSeek: regexes without a hand-written splitter, and every split behavior."""
    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.Sequence([normalizers.NFC()])
    t.pre_tokenizer = pre.Sequence([
        pre.Split(Regex("[\r\n]"), "isolated"),
        pre.Split(Regex(r"\s?[\p{Lu}\p{Lt}]?[\p{Ll}\p{Lo}\p{M}]+"), "isolated"),
        pre.Split(Regex(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"), "isolated"),
        pre.Split(Regex(r"\s+$"), "merged_with_previous"),
        pre.Split(Regex("[一-龥ࠀ-一가-퟿]+"), "contiguous"),
        pre.Split("zz", "merged_with_next"),
        pre.Split(Regex(r"\p{Sk}"), "removed"),
        pre.Digits(individual_digits=False),
        pre.ByteLevel(add_prefix_space=True, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=True, add_prefix_space=True)
    return train(t, 500, ["<|endoftext|>"], pre.ByteLevel.alphabet())


def qwen():
    return transformers.Qwen2TokenizerFast.from_pretrained(
        str(DATA / "tokenizers/qwen")).backend_tokenizer


def kept(make):
    """Returns the tokenizer in tests/data/tokenizers; trains and writes it if it is missing."""
    path = TESTS / "data/tokenizers" / make.__name__ / "tokenizer.json"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(json.loads(make().to_str()), ensure_ascii=False, separators=(",", ":"))
        path.write_text(text, encoding="utf-8")
    return Tokenizer.from_file(str(path))


def strings(count, seed=1):
    rng = random.Random(seed)
    by_category = {}
    for c in range(0x110000):
        if not 0xD800 <= c < 0xE000:
            by_category.setdefault(unicodedata.category(chr(c)), []).append(chr(c))
    categories = sorted(by_category)
    marks = [chr(c) for c in range(0x300, 0x370)] + by_category["Mn"][::7]
    words = corpus()[0:400:3]
    words = " ".join(words).split()
    fixed = ["", " ", "  ", "\n", "\r\n\r\n  x", "a\n\n\nb", "it's I'LL we'Ve 'ſ 'S ''s 're've",
             "12345 1 22 333 4444", "a" * 300, "ab" * 150, " " * 200, "\t\t \n \t", "e\u0301 é ê\u0323",
             "\u1100\u1161\u11a8 각 가\u11a8", "👩‍👩‍👧‍👦 🇩🇪 👍🏽", "שלום עולם مرحبا", "\u180e \u0085 \u2028",
             "▁a ▁▁b c▁", "<0x41> <0xE5>", "\ufffd", "\u0344\u0323 \u0f73\u0f72 \u212b \u2126",
             "zzzz zz azzb", "A^^B `x` ¨¨", "\U00011de0\U00011de1 \U00016ff4", "한국어 東京 привет мир"]

    def piece():
        kind = rng.randrange(12)
        if kind < 4:
            return rng.choice([" ", ""]) + rng.choice(words)
        if kind == 4:
            return "".join(rng.choice(by_category[rng.choice(categories)]) for _ in range(3))
        if kind == 5:
            return rng.choice("aeiouAEIOUnsc") + "".join(rng.choice(marks) for _ in range(3))
        if kind == 6:
            return rng.choice([" ", "\n", "\t", "\r\n", "  ", "   \n ", "\u00a0", "\u3000", "\u2003"])
        if kind == 7:
            return str(rng.randrange(10 ** rng.randrange(1, 9)))
        if kind == 8:
            return rng.choice(SPECIAL)
        if kind == 9:
            return rng.choice(["'s", "'LL", "'t ", "...", "!?", "--", "(", "_", "/", "\\n", "'", '"'])
        if kind == 10:
            return chr(rng.choice([rng.randrange(0x20, 0xD800), rng.randrange(0xE000, 0x20000),
                                   rng.randrange(0x20000, 0x110000)]))
        return "".join(rng.choice(by_category["Lo"]) for _ in range(rng.randrange(1, 4)))

    return fixed + ["".join(piece() for _ in range(rng.randrange(1, 9)))
                    for _ in range(count - len(fixed))]


def checked(t, text, mode):
    t.encode_special_tokens = mode == "plain"
    e = t.encode(text, add_special_tokens=mode == "post")
    at = [0]
    for c in text:
        at.append(at[-1] + len(c.encode()))
    offsets = ",".join(f"{at[a]}-{at[b]}" for a, b in e.offsets)
    ids = ",".join(map(str, e.ids))
    return (f"{ids}|{offsets}|{t.decode(e.ids, skip_special_tokens=False)}|"
            f"{t.decode(e.ids, skip_special_tokens=True)}\n").encode()


def main():
    made = {make.__name__: kept(make) for make in (smol, llama3, llama2, metaspace, regexes)}
    shared = {"gpt2": Tokenizer.from_file(str(DATA / "tokenizers/gpt2/tokenizer.json")),
              "llama2": Tokenizer.from_file(str(DATA / "tokenizers/llama2/tokenizer.json")),
              "qwen": qwen()}
    texts = strings(2500)
    golden = {"made_by": f"tokenizers {tokenizers.__version__}, transformers "
                         f"{transformers.__version__}; tests/golden/make/tokenizer_goldens.py",
              "strings": {}, "files": {}}
    for name, t in [("test/" + k, v) for k, v in made.items()] + list(shared.items()):
        golden["strings"][name] = " ".join(
            f"{zlib.crc32(b''.join(checked(t, s, m) for m in ('plain', 'special', 'post'))):08x}"
            for s in texts)
    for file in ["chat/alpaca_en.jsonl", "chat/toolcall_en.jsonl", "preferences/dpo_en.jsonl",
                 "text/c4_en.jsonl", "text/wiki_en.txt"]:
        for name, t in shared.items():
            crc = 0
            for line in (DATA / file).read_text(encoding="utf-8").split("\n"):
                crc = zlib.crc32(checked(t, line, "special"), crc)
            golden["files"][f"{name} {file}"] = f"{crc:08x}"
    out = TESTS / "golden"
    (out / "tokenizer_strings.json").write_text(
        "[\n" + ",\n".join(json.dumps(s) for s in texts) + "\n]\n", encoding="utf-8")
    (out / "tokenizer_checksums.json").write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
