"""Writes core/console/terminal/text_width_data.cpp: the columns that characters take on a terminal.

Made with ICU 72 (Unicode 15.0), Debian 12's libicu72. Wide: East_Asian_Width W and F. Zero: Mn, Me,
Cf but for U+00AD and the signs that precede digits, and the vowels and finals of Hangul.
Usage: python text_width_data.py > ../text_width_data.cpp
"""
import ctypes

ICU = ctypes.CDLL("libicuuc.so.72")
EAST_ASIAN_WIDTH, FULLWIDTH, WIDE = 0x1004, 3, 5
PREPENDED_MARK = 63  # UCHAR_PREPENDED_CONCATENATION_MARK
NONSPACING, ENCLOSING, FORMAT = 6, 7, 16  # u_charType


def width(c):
    kind = ICU.u_charType_72(c)
    if kind in (NONSPACING, ENCLOSING) or 0x1160 <= c <= 0x11FF or 0xD7B0 <= c <= 0xD7FF:
        return 0
    if kind == FORMAT and c != 0xAD and not ICU.u_hasBinaryProperty_72(c, PREPENDED_MARK):
        return 0
    return 2 if ICU.u_getIntPropertyValue_72(c, EAST_ASIAN_WIDTH) in (FULLWIDTH, WIDE) else 1


def ranges():
    out = []
    for c in range(0x80, 0x110000):
        w = width(c)
        if w == 1:
            continue
        if out and out[-1][1] == c - 1 and out[-1][2] == w:
            out[-1][1] = c
        else:
            out.append([c, c, w])
    return out


print("// Written by make/text_width_data.py from ICU 72 (Unicode 15.0).")
print('#include "core/console/terminal/text_width.h"\n\nnamespace xrun {\n')
rows = ranges()
print("const WidthRange kWidthRanges[] = {")
line = "   "
for first, last, w in rows:
    cell = f" {{0x{first:X}, 0x{last:X}, {w}}},"
    if len(line) + len(cell) > 100:
        print(line)
        line = "   "
    line += cell
print(line + "\n};")
print(f"const size_t kWidthRangeCount = {len(rows)};\n\n}}  // namespace xrun")
