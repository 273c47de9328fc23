"""Compares xrun's tokenizers with the packages that define them, on your own text.

    python3 tools/oracle/tokenizer_oracle.py TOKENIZER_DIR [FILE...]

`xrun tokenize` and the tokenizers package (sentencepiece if the folder has only a tokenizer.model)
encode every line of the files, or of standard input. Ids, byte offsets and decoded text must be equal.
Prints "identical" or the first difference (status 1). XRUN names the program (default ./xrun).
Packages: pip install tokenizers sentencepiece transformers.
"""
import json
import os
import subprocess
import sys
from pathlib import Path


def xrun(arguments, rows):
    done = subprocess.run([os.environ.get("XRUN", "./xrun"), "tokenize", *arguments],
                          input="".join(json.dumps(row) + "\n" for row in rows).encode(),
                          stdout=subprocess.PIPE, check=False)
    return [json.loads(line) for line in done.stdout.splitlines()]


def byte_starts(text):
    at = [0]
    for c in text:
        at.append(at[-1] + len(c.encode()))
    return at


def by_tokenizers(folder):
    from tokenizers import Tokenizer
    if (folder / "tokenizer.json").exists():
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    else:
        from transformers import AutoTokenizer
        tokenizer = AutoTokenizer.from_pretrained(str(folder)).backend_tokenizer
    tokenizer.encode_special_tokens = True  # look-alikes of special tokens stay plain
    tokenizer.no_truncation()  # a file may request both; transformers turns them off
    tokenizer.no_padding()

    def encode(text):
        e, at = tokenizer.encode(text, add_special_tokens=False), byte_starts(text)
        return e.ids, [(at[a], at[b]) for a, b in e.offsets], tokenizer.decode(e.ids)
    return encode


def by_sentencepiece(folder):
    import sentencepiece
    model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))

    def encode(text):
        pieces = model.encode(text, return_type="proto").pieces
        offsets = [(p.begin, p.end) for p in pieces]
        for i in reversed(range(len(pieces) - 1)):  # only the last token of a character covers it
            begin, end = offsets[i]
            if begin == end == offsets[i + 1][0] and pieces[i].piece != "\u2581":
                offsets[i] = offsets[i + 1]
        ids = [p.id for p in pieces]
        return ids, offsets, model.decode([i for i in ids if i != model.unk_id()])
    return encode


def extended(text, offsets):
    """Returns xrun's offsets extended to whole characters, as the packages give them."""
    raw, out = text.encode(), []
    for begin, end in offsets:
        empty = begin == end
        while end < len(raw) and raw[end] & 0xC0 == 0x80:
            end += 1
        while not empty and begin > 0 and raw[begin] & 0xC0 == 0x80:
            begin -= 1
        out.append((end if empty else begin, end))
    return out


def main():
    folder = Path(sys.argv[1])
    names = sys.argv[2:] or ["/dev/stdin"]
    texts = [line for name in names
             for line in Path(name).read_text(encoding="utf-8", errors="replace").split("\n")]
    only_model = (folder / "tokenizer.model").exists() and not any(
        (folder / name).exists() for name in ("tokenizer.json", "vocab.json"))
    encode = (by_sentencepiece if only_model else by_tokenizers)(folder)
    ours = xrun(["--tokenizer", str(folder), "--json"], [{"text": t} for t in texts])
    decoded = xrun(["--tokenizer", str(folder), "--decode"], ours)
    for number, (text, row, back) in enumerate(zip(texts, ours, decoded, strict=True), 1):
        wanted = encode(text)
        got = (row.get("ids"), extended(text, row.get("offsets", [])), back.get("text"))
        for what, a, b in zip(("ids", "offsets", "decoded text"), got, wanted):
            if a != b:
                print(f"line {number}: {what} differ: {text!r}\n  xrun    {a}\n  package {b}")
                return 1
    print(f"identical: {len(texts)} lines, {sum(len(r['ids']) for r in ours)} tokens")
    return 0


if __name__ == "__main__":
    sys.exit(main())
