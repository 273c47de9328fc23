"""Shared by the scripts that write tables of characters."""

POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def ranges(values):
    """[first, last, value] of neighbours with one value; `values` maps code points."""
    out = []
    for c in sorted(values):
        if out and out[-1][1] == c - 1 and out[-1][2] == values[c]:
            out[-1][1] = c
        else:
            out.append([c, c, values[c]])
    return out


def emit(name, type_, rows):
    """Prints a C++ array of rows, wrapped at 100 columns, and its size."""
    print(f"const {type_} {name}[] = {{")
    line = "   "
    for row in rows:
        if len(line) + len(row) + 2 > 100:
            print(line)
            line = "   "
        line += f" {row},"
    print(line + "\n};")
    print(f"const size_t {name}Size = {len(rows)};\n")
