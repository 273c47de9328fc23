"""Writes core/text/unicode/unicode_data.cpp: the character properties of Hugging Face's tokenizers.

Made with tokenizers 0.23.3 and Python 3.11 (unicodedata 14.0). The categories are probed from the
regex engine of tokenizers, so that \\p{..} and \\s mean the same here; the normal forms are Unicode
9.0's, which is what its NFC uses. Usage: python unicode_data.py > ../unicode_data.cpp
"""
import sys
import unicodedata

from tokenizers import Regex, normalizers, pre_tokenizers

from unicode_tables import POINTS, emit, ranges

CATEGORIES = ["Cn", "Cc", "Cf", "Co", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl",
              "No", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp",
              "Zs"]
BLOCK, LAST = 128, 0x40000  # planes above LAST follow a rule


def members(pattern):
    found = set()
    split = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    for at in range(0, len(POINTS), 20000):
        text = "".join(map(chr, POINTS[at:at + 20000]))
        for word, _ in split.pre_tokenize_str(text):
            found.update(map(ord, word))
    return found


def numeric():
    """The digits of the Digits pre-tokenizer (Rust's char::is_numeric)."""
    found = set()
    for at in range(0, len(POINTS), 5000):
        text = "a" + "a".join(map(chr, POINTS[at:at + 5000])) + "a"
        for word, _ in pre_tokenizers.Digits(True).pre_tokenize_str(text):
            if len(word) == 1 and word != "a":
                found.add(ord(word))
    return found


def normal_forms():
    nfd, nfc = normalizers.NFD(), normalizers.NFC()
    hangul = range(0xAC00, 0xD7A4)
    decompose = {c: nfd.normalize_str(chr(c)) for c in POINTS if c not in hangul}
    decompose = {c: d for c, d in decompose.items() if d != chr(c)}
    # A mark unknown to Unicode 9 has class 0 there: it does not move before U+0345 (class 240).
    classes = {c: unicodedata.combining(chr(c)) for c in POINTS if unicodedata.combining(chr(c))}
    classes = {c: k for c, k in classes.items()
               if k >= 240 or nfd.normalize_str("\u0345" + chr(c))[0] != "\u0345"}
    compose = []
    for c in decompose:
        step = unicodedata.decomposition(chr(c)).split()
        if len(step) == 2 and nfc.normalize_str(decompose[c]) == chr(c):
            compose.append((int(step[0], 16), int(step[1], 16), c))
    seconds = {b for _, b, _ in compose} | set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))
    changed = {c for c in decompose if nfc.normalize_str(chr(c)) != chr(c)}
    return decompose, classes, sorted(compose), seconds | changed | set(classes)


def categories():
    """Returns the index in CATEGORIES of each code point that is not unassigned."""
    category = {}
    for index, name in enumerate(CATEGORIES):
        if name != "Cn":
            for c in members(rf"\p{{{name}}}"):
                category[c] = index
    for c in range(LAST, 0x110000):  # the rule for the upper planes
        k = CATEGORIES[category.get(c, 0)]
        tag = c == 0xE0001 or 0xE0020 <= c <= 0xE007F
        want = ("Cf" if tag else "Mn" if 0xE0100 <= c <= 0xE01EF else
                "Co" if c >= 0xF0000 and (c & 0xFFFF) < 0xFFFE else "Cn")
        assert k == want, (hex(c), k, want)
    return category


def in_blocks(properties):
    """Returns the values that occur, the different blocks of them, and each block's index."""
    palette, blocks, index = [], [], []
    for start in range(0, LAST, BLOCK):
        block = tuple(properties(c) for c in range(start, start + BLOCK))
        palette += [p for p in dict.fromkeys(block) if p not in palette]
        if block not in blocks:
            blocks.append(block)
        index.append(blocks.index(block))
    while index[-1] == index[-2]:
        index.pop()
    return palette, blocks, index


def emit_blocks(palette, blocks, index):
    symbols = [chr(c) for c in range(33, 127) if chr(c) not in '"\\?']
    assert len(palette) <= len(symbols)
    lookup = [0] * 128
    for at, p in enumerate(palette):
        lookup[ord(symbols[at])] = p
    emit("kPalette", "uint8_t", [str(p) for p in lookup])
    emit("kBlockOf", "uint16_t", [str(i) for i in index])
    print("// One symbol per code point, one row per block; kPalette maps symbols to properties.")
    print("const char kBlocks[] =")
    for block in blocks:
        row = "".join(symbols[palette.index(p)] for p in block)
        print(f'    "{row[:64]}"\n    "{row[64:]}"')
    print("    ;\n")


def main():
    category = categories()
    space, letter, number = members(r"\s"), members(r"\p{L}"), members(r"\p{N}")
    assert letter == {c for c, k in category.items() if CATEGORIES[k][0] == "L"}
    assert number == {c for c, k in category.items() if CATEGORIES[k][0] == "N"}
    decompose, classes, compose, unstable = normal_forms()
    newer = {c for c, k in category.items() if unicodedata.category(chr(c)) != CATEGORIES[k]}
    palette, blocks, index = in_blocks(
        lambda c: category.get(c, 0) | (32 if c in space else 0) | (64 if c in unstable else 0)
        | (128 if c in newer else 0))

    print("// Generated by core/text/unicode/make/unicode_data.py; documented in unicode.h and normal_form.h.\n")
    print('#include "core/text/unicode/unicode_data.h"\n\nnamespace xrun::unicode_data {\n')
    emit_blocks(palette, blocks, index)
    emit("kExtraDigits", "uint32_t", [f"0x{c:X}" for c in sorted(numeric() - number)])
    emit("kClasses", "CombiningClass",
         [f"{{0x{a:X}, 0x{b:X}, {k}}}" for a, b, k in ranges(classes)])
    emit("kDecompositions", "Decomposition",
         ["{" + ", ".join(f"0x{ord(x):X}" for x in chr(c) + d) + "}"
          for c, d in sorted(decompose.items())])
    emit("kCompositions", "Composition",
         [f"{{0x{a:X}, 0x{b:X}, 0x{c:X}}}" for a, b, c in compose])
    print("}  // namespace xrun::unicode_data")
    print(f"{len(blocks)} blocks, {len(palette)} properties, {len(newer)} newer", file=sys.stderr)
    assert max(len(d) for d in decompose.values()) <= 4


main()
