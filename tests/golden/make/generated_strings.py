"""Generates string i over all of Unicode, equal to tests/core/text/tokenizer/generated_strings.h.

String i is drawn from splitmix64 with initial state i; every draw is next() % limit, in the order of
the code below. tests/golden/character_ranges.txt has the ranges of characters, one per line as
"first last" in hexadecimal; together they cover every general category but Cs.
"""
import unicodedata
from pathlib import Path

MASK = (1 << 64) - 1
BLANKS = [" ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", " \n ", "   ", "\n\n"]
MARKS = ["'s", "'LL", "'t ", "...", "!?", "/", '"', "--", "(", "_", "\u2581", "'", "://", "<0x41>"]
RANGES = [tuple(int(x, 16) for x in line.split()) for line in
          (Path(__file__).parents[1] / "character_ranges.txt").read_text().splitlines()]


class Draw:
    def __init__(self, state):
        self.state = state

    def below(self, limit):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return (z ^ (z >> 31)) % limit


def piece(draw):
    kind = draw.below(9)
    if kind < 3:  # a word, perhaps with a space before it and a capital
        text = " " if draw.below(2) else ""
        size = 1 + draw.below(9)
        letters = [ord("a") + draw.below(26) for _ in range(size)]
        if draw.below(4) == 0:
            letters[0] -= 32
        return text + "".join(map(chr, letters))
    if kind == 3:
        return "".join(chr(ord("0") + draw.below(10)) for _ in range(1 + draw.below(6)))
    if kind == 4:
        return BLANKS[draw.below(len(BLANKS))]
    if kind == 5:
        return MARKS[draw.below(len(MARKS))]
    if kind == 6:  # a run from one range
        first, last = RANGES[draw.below(len(RANGES))]
        return "".join(chr(first + draw.below(last - first + 1)) for _ in range(1 + draw.below(4)))
    out = ""
    for _ in range(1 + draw.below(3)):
        first, last = RANGES[draw.below(len(RANGES))]
        out += chr(first + draw.below(last - first + 1))
    return out


def generated(index):
    draw = Draw(index)
    return "".join(piece(draw) for _ in range(1 + draw.below(10)))


def check_ranges():
    """Checks that every category is reachable."""
    found = {unicodedata.category(chr(c)) for a, b in RANGES for c in range(a, b + 1)}
    wanted = {unicodedata.category(chr(c)) for c in range(0x110000)} - {"Cs"}
    assert found == wanted, wanted - found
