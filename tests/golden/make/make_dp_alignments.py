"""Writes alignments by NeMo-RL's own aligner, which the tests of DpAligner must repeat.

    XRUN_TEST_DATA=../shared/data python make_dp_alignments.py CHECKOUT [PROCESSES]

CHECKOUT is a copy of NVIDIA-NeMo/RL; its nemo_rl/algorithms/x_token/token_aligner.py runs unchanged (numpy, torch).
Made with commit 7ea279abfbeb698b092856d0dab61e7cf39bc909, tokenizers 0.23.3, transformers 5.23.0, xxhash.

tests/golden/dp_alignments.json:
  named      cases that each show one rule
  in_full    the pieces and pairs of some of the 10,000 sequences of alignment_texts.py
  digests    for each block of 500 sequences the first 16 digits of XXH3-128 over `ids|ids` of all, and over their pairs
  alphabets, random   random pieces over small alphabets, which are full of ties: "alphabet max_combination", the
             pieces of each side as letters, and the pairs
Pairs are written in order as "students:teachers" with the numbers of pieces, "!" if is_correct is false, and "x7"
after seven equal pairs in a row.
"""
import importlib.util
import json
import multiprocessing
import random
import sys
from pathlib import Path

import tokenizers
import xxhash

import alignment_texts
from tokenizer_goldens import qwen

SEQUENCES, BLOCK = 10_000, 500
GOLDEN = Path(__file__).parents[1] / "dp_alignments.json"


def load_aligner(checkout):
    path = Path(checkout) / "nemo_rl/algorithms/x_token/token_aligner.py"
    spec = importlib.util.spec_from_file_location("token_aligner", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["token_aligner"] = module
    spec.loader.exec_module(module)
    return module.TokenAligner


def pairs_text(pairs, students, teachers):
    """Returns the pairs as text; asserts that they cover both sides in order."""
    at, parts = [0, 0], []
    for pair in pairs:
        sizes = []
        for side, (begin, end) in enumerate(((pair.s_start, pair.s_end), (pair.t_start, pair.t_end))):
            sizes.append(0 if begin == -1 else end - begin)
            assert begin == -1 == end or (begin == at[side] and end > begin), pairs
            at[side] += sizes[-1]
        parts.append(f"{sizes[0]}:{sizes[1]}{'' if pair.is_correct else '!'}")
    assert at == [students, teachers], pairs
    out = []
    for part in parts:
        if out and out[-1][0] == part:
            out[-1][1] += 1
        else:
            out.append([part, 1])
    return " ".join(part if count == 1 else f"{part}x{count}" for part, count in out)


def aligned(student, teacher, most=4):
    pairs = ALIGNER(None, None, "", most)._align_single(student, teacher)
    return pairs_text(pairs, len(student), len(teacher))


def start(checkout):
    global ALIGNER, TOKENIZERS, TEXTS
    ALIGNER = load_aligner(checkout)
    folder = alignment_texts.DATA / "tokenizers"
    TOKENIZERS = {name: tokenizers.Tokenizer.from_file(str(folder / name / "tokenizer.json"))
                  for name in ("gpt2", "llama2")}
    TOKENIZERS["qwen"] = qwen()
    TEXTS = [(alignment_texts.DATA / name).read_bytes() for name in alignment_texts.FILES]


def align_sequence(index):
    student, teacher, text, special = alignment_texts.sequence(index, TEXTS)
    sides = [TOKENIZERS[name].encode(text, add_special_tokens=special) for name in (student, teacher)]
    return ("|".join(",".join(map(str, side.ids)) for side in sides), [side.tokens for side in sides],
            aligned(*(side.tokens for side in sides)))


NAMED = {
    "equal tokens": ("Hello Ġworld !", "Hello Ġworld !"),
    "one to three": ("201", "2 0 1"),
    "one to four": ("1234", "1 2 3 4"),
    "one to five by repair": ("12345", "1 2 3 4 5"),
    "two to two by repair": ("ab c", "a bc"),
    "two to two between anchors": ("X Y Z ab c P Q R", "X Y Z a bc P Q R"),
    "three to two between anchors": ("X Y Z ab c d P Q R", "X Y Z a bcd P Q R"),
    "a BOS on one side": ("<|begin_of_text|> Hi Ġthere", "Hi Ġthere"),
    "a BOS on both sides": ("<|begin_of_text|> Hi Ġthere", "<bos> Hi Ġthere"),
    "different words": ("cat", "dog"),
    "more copies than the other side": ("a a a a b", "a a b"),
    "fewer copies than the other side": ("x a a", "x a a a a a"),
    "a split sign": ("Hello ĠâĪ ĳ .", "Hello Ġ∑ ."),
    "two newlines": ("a ĊĊ b", "a Ċ Ċ b"),
    "two newlines of SentencePiece": ("a <0x0A> <0x0A> b", "a ĊĊ b"),
    "no student": ("", "a b"),
    "no teacher": ("a b", ""),
    "nobody": ("", ""),
    "Chinese in pieces and in bytes": ("▁ 中 国 人", "ä¸Ń åĽ ½ äºº"),
    "padding on one side": ("Hello Ġworld <pad> <pad>", "Hello Ġworld"),
    "padding on both sides": ("Hello Ġworld <pad> <pad> <pad>", "▁Hello ▁world <pad>"),
    "padding with the end of text": ("Hi <eos> <eos> <eos>", "Hi <eos>"),
    "bytes of a letter": ("Ã © x", "é x"),
    "a merged letter beside other text": ("中 <0xC3> <0xA9> 中", "中 é 中"),
    "bytes beside ASCII stay apart": ("a <0xE2> <0x82> <0xAC>", "a €"),
    "a tab and a newline": ("ĉ a", "Ċ a"),
    "an early anchor far to the right": ("a b c d e f g h i j", "d e f x g h i y a b c"),
}


def random_cases(count):
    """Returns alphabets and cases of up to 24 pieces a side."""
    alphabets = [
        ["a", "b", "ab", "ba", "aa"],
        ["a", "aa", "aaa", "aaaa", "b", "aab"],
        ["1", "2", "12", "21", "121", "1212", "12121", "2121"],
        ["_x", " x", "▁x", "Ġx", "x", "Ċ", "\\n", "ĉ", "ĠĊ", "Ġ\n", "ĊĊ", "\n", "Ċ\\n", "▁_x", "Ġ,", ",", "Ġ", "▁", "Ġ."],
        ["Ã", "©", "ĠÃ", "é", "Ġé", "<0xC3>", "<0xA9>", "À", "Ã©", "â", "Ĥ", "¬", "€", "Ġ", "中", "Ġa", "ð", "Ł", "Ļ", "Ĥ"],
        ["<|begin_of_text|>", "<bos>", "<pad>", "", "a", "b", "<pad>", "Ġ", "<0x20>", "<0x5F>", "<0x0A>", "ab"],
        ["âĪ", "ĠâĪ", "ĳ", "ı", "«", "âī", "ł", "ä¸", "Ġä¸", "Ń", "æĸ", "ĩ", "∑", "Ġ∑", "中", "Ġ中", "文", "≠", "ä¸Ń", "âĪĳ"],
        list("abcdefghijklmnopqrstuvwxyz"),
        ["the", "Ġcat", "Ġsat", "Ġca", "t", "Ġs", "at", "Ġ", "cat", "sat", "Ġt", "he", "e", "Ġth"],
        ["x", "xy", "y", "yx", "z"],
    ]
    draw, cases = random.Random(7), []
    for n in range(count):
        which = draw.randrange(len(alphabets))
        size = len(alphabets[which])
        most = draw.choice([4, 4, 4, 4, 4, 2, 3, 6])
        # Both sides at random, or one with edits of the other.
        student = [draw.randrange(size) for _ in range(draw.randrange(25))]
        if draw.random() < 0.3:
            teacher = [draw.randrange(size) for _ in range(draw.randrange(25))]
        else:
            share, teacher = draw.choice([0.05, 0.2, 0.5]), []
            for letter in student:
                if draw.random() >= share:
                    teacher.append(letter)
                    continue
                teacher += [draw.randrange(size) for _ in range(draw.randrange(4))]
        if draw.random() < 0.2:  # a part moved, for anchors that cross
            cut = draw.randrange(len(teacher) + 1)
            teacher = teacher[cut:] + teacher[:cut]
        sides = [[alphabets[which][i] for i in side] for side in (student, teacher)]
        letters = ["".join(chr(97 + i) for i in side) for side in (student, teacher)]
        cases.append(f"{which} {most} {letters[0]}|{letters[1]}|{aligned(*sides, most)}")
    return alphabets, cases


def main(checkout, processes=1):
    start(checkout)
    named = [[name, *[side.split(" ") if side else [] for side in sides]] for name, sides in NAMED.items()]
    named = [[name, student, teacher, aligned(student, teacher)] for name, student, teacher in named]
    alphabets, cases = random_cases(4000)
    digests, in_full = [], []
    with multiprocessing.Pool(processes, start, [checkout]) as pool:
        ids, pairs = xxhash.xxh3_128(), xxhash.xxh3_128()
        for index, (id_text, tokens, pair_text) in enumerate(pool.imap(align_sequence, range(SEQUENCES), 20)):
            ids.update((id_text + "\n").encode())
            pairs.update((pair_text + "\n").encode())
            if index % 30 == 7 and max(map(len, tokens)) <= 60:
                in_full.append([index, *tokens, pair_text])
            if index % BLOCK == BLOCK - 1:
                digests.append([ids.hexdigest()[:16], pairs.hexdigest()[:16]])
                ids, pairs = xxhash.xxh3_128(), xxhash.xxh3_128()
                print(f"{index + 1} sequences", file=sys.stderr, flush=True)

    def rows(values):
        return "[\n" + ",\n".join(json.dumps(v, ensure_ascii=False, separators=(",", ":")) for v in values) + "]"

    GOLDEN.write_text(
        '{"made_by":"NeMo-RL 7ea279abf; tests/golden/make/make_dp_alignments.py",\n'
        f'"named":{rows(named)},\n"fragments":{rows(alignment_texts.FRAGMENTS)},\n"digests":{rows(digests)},\n'
        f'"in_full":{rows(in_full)},\n"alphabets":{rows(alphabets)},\n"random":{rows(cases)}}}\n', encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
