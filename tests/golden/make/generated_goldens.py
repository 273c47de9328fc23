"""Writes goldens of 100,000 generated strings (generated_strings.py) for every kind of tokenizer, made
with tokenizers 0.23.3, transformers 5.23.0, xxhash, and sentencepiece 0.1.99 (of two segmentations with
equal scores, 0.2 chooses a different one from the library that xrun links).

Trains the tokenizers that tokenizer_goldens.py does not: the splits of o200k and DeepSeek-V3, unigram
models of both packages, WordPiece, and two tokenizer.model. tests/golden/tokenizer_generated.json has,
for each tokenizer, the first 16 digits of XXH3-128 of every block of 1,000 strings. The hashed text of a
string is `ids|offsets|decoded|decoded without special tokens`, with the post-processor's tokens.
Usage: XRUN_TEST_DATA=../shared/data XRUN_CACHE=... python generated_goldens.py [NAME...]
With names, the lines of other tokenizers do not change.

If a package is wrong, the golden has the correct value. A byte token of a unigram model covers its own
character, not the whole run of unknown characters. SmolLM2's BPE lacks some bytes and has no unknown
token, so the package drops these bytes and shifts the offsets after them: a text with such a byte has
"-" for its offsets. Every token of a character that sentencepiece decomposes covers the character.
"""
import base64
import io
import json
import os
import sys
import tempfile
from pathlib import Path

import sentencepiece as spm
import tokenizers
import xxhash
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers,
                        pre_tokenizers as pre, processors, trainers)

import generated_strings
from tokenizer_goldens import DATA, TESTS, corpus, kept, llama2, llama3, metaspace, qwen, regexes
from tokenizer_goldens import smol, train

STRINGS, BLOCK = 100_000, 1000
UPPER, LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = (rf"[^\r\n\p{{L}}\p{{N}}]?[{UPPER}]*[{LOWER}]+{CONTRACTIONS}"
         rf"|[^\r\n\p{{L}}\p{{N}}]?[{UPPER}]+[{LOWER}]*{CONTRACTIONS}"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = [r"\p{N}{1,3}", "[一-龥\u3040-ゟ゠-ヿ]+",
            "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
            "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*"
            "|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"]
# Normalization rules that expand, shrink and join characters; the stock tables have 240 KB.
RULES = ([(0xFF01 + i,) + (0x21 + i,) for i in range(94)] + [(0x2460 + i, 0x31 + i) for i in range(9)]
         + [(0xBD, 0x31, 0x2044, 0x32), (0xFB01, 0x66, 0x69), (0x2122, 0x54, 0x4D), (0x3000, 0x20),
            (0xA0, 0x20), (0x09, 0x20), (0x0A, 0x20), (0x0D, 0x20), (0x2103, 0xB0, 0x43)])
JOINED = [((0x65, 0x301), 0xE9), ((0x41, 0x30A), 0xC5), ((0x304B, 0x3099), 0x304C)]


def byte_level(splits):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre.Sequence([pre.Split(Regex(s), "isolated") for s in splits]
                                   + [pre.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    return train(t, 800, ["<|endoftext|>"], pre.ByteLevel.alphabet())


def o200k():
    return byte_level([O200K])


def deepseek():
    return byte_level(DEEPSEEK)


def unigram():
    """Trains with Hugging Face's trainer, with byte tokens."""
    t = Tokenizer(models.Unigram())
    t.pre_tokenizer = pre.Metaspace(prepend_scheme="always")
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(),
                                   decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.train_from_iterator(corpus(), trainers.UnigramTrainer(
        vocab_size=700, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>",
        show_progress=False))
    state = json.loads(t.to_str())
    state["model"]["vocab"] += [[f"<0x{b:02X}>", 0.0] for b in range(256)]
    state["model"]["byte_fallback"] = True
    state["post_processor"] = json.loads(processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 2)]).__getstate__())
    return Tokenizer.from_str(json.dumps(state))


def wordpiece():
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.train_from_iterator(corpus(), trainers.WordPieceTrainer(
        vocab_size=900, special_tokens=["[UNK]", "[CLS]", "[SEP]"], show_progress=False))
    t.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return t


def kept_model(name, **options):
    """Returns the tokenizer.model in tests/data/tokenizers; trains it if it is missing."""
    path = TESTS / "data/tokenizers" / name / "tokenizer.model"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        made = io.BytesIO()
        spm.SentencePieceTrainer.train(sentence_iterator=iter(x for x in corpus() if x),
                                       model_writer=made, hard_vocab_limit=False, minloglevel=2,
                                       max_sentence_length=1_000_000,
                                       num_threads=1, **options)
        path.write_bytes(made.getvalue())
    return spm.SentencePieceProcessor(model_file=str(path))


def sp_bpe():
    return kept_model("sp_bpe", model_type="bpe", vocab_size=900, byte_fallback=True,
                      normalization_rule_name="identity", remove_extra_whitespaces=False,
                      split_digits=True, user_defined_symbols=["<|im_start|>", "<|im_end|>"])


def sp_unigram():
    rules = Path(tempfile.gettempdir()) / "xrun_rules.tsv"
    lines = [(" ".join(f"{x:X}" for x in (r[0],)), r[1:]) for r in RULES]
    lines += [(" ".join(f"{x:X}" for x in old), (new,)) for old, new in JOINED]
    rules.write_text("".join(f"{old}\t{' '.join(f'{x:X}' for x in new)}\n" for old, new in lines))
    return kept_model("sp_unigram", model_type="unigram", vocab_size=700, unk_surface="<unk>",
                      normalization_rule_tsv=str(rules))


def precompiled():
    """Returns sp_unigram as the tokenizer.json that transformers would write."""
    from sentencepiece import sentencepiece_model_pb2
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(sp_unigram().serialized_model_proto())
    t = Tokenizer(models.Unigram([(p.piece, p.score) for p in proto.pieces], 0, False))
    t.normalizer = normalizers.Sequence([
        normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap),
        normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre.Metaspace(prepend_scheme="first")
    t.decoder = decoders.Metaspace(prepend_scheme="first")
    t.add_special_tokens([AddedToken(x, normalized=False) for x in ("<unk>", "<s>", "</s>")])
    return t


def joined(rows):
    return ",".join(f"{a}-{b}" for a, b in rows)


def byte_starts(text):
    at = [0]
    for c in text:
        at.append(at[-1] + len(c.encode()))
    return at


def hf_line(t, loses_bytes=False):
    unigram_bytes = json.loads(t.to_str())["model"].get("type") == "Unigram"

    def line(text):
        e = t.encode(text, add_special_tokens=True)
        offsets, at, i = list(e.offsets), byte_starts(text), 0
        while unigram_bytes and i < len(offsets):
            a, b = offsets[i]
            owners = [c for c in range(a, b) for _ in text[c].encode()]
            if e.tokens[i].startswith("<0x") and e.tokens[i] != text[a:b] and len(owners) > 1:
                offsets[i:i + len(owners)] = [(c, c + 1) for c in owners]
                i += len(owners)
            else:
                i += 1
        decoded = t.decode(e.ids, skip_special_tokens=False)
        shifted = loses_bytes and decoded != text
        positions = "-" if shifted else joined((at[a], at[b]) for a, b in offsets)
        return (f"{','.join(map(str, e.ids))}|{positions}|{decoded}|"
                f"{t.decode(e.ids, skip_special_tokens=True)}\n")
    return line


def sp_line(sp):
    def line(text):
        pieces, at = sp.encode(text, out_type="immutable_proto").pieces, byte_starts(text)
        ids, offsets = [p.id for p in pieces], [(at[p.begin], at[p.end]) for p in pieces]
        for i in reversed(range(len(pieces) - 1)):  # the last token of a character covers all of it,
            if offsets[i] == (offsets[i + 1][0],) * 2 and pieces[i].piece != "\u2581":
                offsets[i] = offsets[i + 1]         # the others cover nothing
        return (f"{','.join(map(str, ids))}|{joined(offsets)}|{sp.decode(ids)}|"
                f"{sp.decode([i for i in ids if not sp.is_unknown(i)])}\n")
    return line


def main():
    generated_strings.check_ranges()
    lines = {"test/" + make.__name__: hf_line(kept(make))
             for make in (smol, llama3, llama2, metaspace, regexes, o200k, deepseek, unigram,
                          wordpiece, precompiled)}
    lines.update({"test/sp_bpe": sp_line(sp_bpe()), "test/sp_unigram": sp_line(sp_unigram())})
    shared = {"gpt2": Tokenizer.from_file(str(DATA / "tokenizers/gpt2/tokenizer.json")),
              "llama2": Tokenizer.from_file(str(DATA / "tokenizers/llama2/tokenizer.json")),
              "qwen": qwen()}
    smollm2 = Path(os.environ.get("XRUN_CACHE", "")) / "models/smollm2-135m-instruct/tokenizer.json"
    if smollm2.exists():
        shared["smollm2"] = Tokenizer.from_file(str(smollm2))
    lines.update({name: hf_line(t, name == "smollm2") for name, t in shared.items()})
    lines["llama2 model"] = sp_line(spm.SentencePieceProcessor(
        model_file=str(DATA / "tokenizers/llama2/tokenizer.model")))
    texts = [generated_strings.generated(i) for i in range(STRINGS)]
    path = TESTS / "golden/tokenizer_generated.json"
    kept_hashes = json.loads(path.read_text())["hashes"] if sys.argv[1:] else {}
    golden = {"made_by": f"tokenizers {tokenizers.__version__}, sentencepiece {spm.__version__}; "
                         "tests/golden/make/generated_goldens.py", "hashes": kept_hashes}
    for name, line in lines.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        golden["hashes"][name] = " ".join(
            xxhash.xxh3_128_hexdigest("".join(map(line, texts[at:at + BLOCK])).encode())[:16]
            for at in range(0, STRINGS, BLOCK))
        print(name, file=sys.stderr)
    path.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
