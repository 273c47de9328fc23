#!/usr/bin/env python3
"""Prints the rows of a preference cache as JSON lines: a reader written from docs/cache-format.md.

Usage: read_cache.py FOLDER. Plain Python 3; checksums are checked if the xxhash package is there.
"""

import json
import pathlib
import struct
import sys

try:
    import xxhash
except ImportError:
    xxhash = None

HEADER = struct.Struct("<8sIIQQQQ16s")
COLUMN = struct.Struct("<32sIiQQQ")
FORMATS = {1: "B", 2: "H", 3: "I", 4: "i", 5: "q", 6: "Q", 7: "f", 8: "d"}
BITS = 9
TAIL_BYTES = len(',"xxh3":"') + 32 + len('"}\n')


def read_manifest(folder):
    data = (folder / "manifest.json").read_bytes()
    manifest = json.loads(data)
    if xxhash:
        assert xxhash.xxh3_128_hexdigest(data[:-TAIL_BYTES]) == manifest["xxh3"], "manifest damaged"
    assert manifest["version"] == 1 and manifest["key"] == folder.resolve().name
    return manifest


def read_columns(data, entry):
    """Returns {name: (elements, name of its offsets column or None)} of a segment file."""
    magic, version, count, rows, *_ = HEADER.unpack_from(data)
    assert magic == b"XRUNSEG\0" and version == 1 and rows == entry["rows"]
    assert len(data) == entry["bytes"]
    for page, want in enumerate(entry["page_xxh3"]):
        piece = data[page << 20:(page + 1) << 20]
        assert not xxhash or xxhash.xxh3_64_hexdigest(piece) == want, f"page {page} damaged"
    table = [COLUMN.unpack_from(data, HEADER.size + i * COLUMN.size) for i in range(count)]
    names = [row[0].rstrip(b"\0").decode() for row in table]
    columns = {}
    for name, (_, kind, offsets, begin, elements, size) in zip(names, table):
        raw = data[begin:begin + size]
        if kind == BITS:
            values = [raw[i // 8] >> (i % 8) & 1 for i in range(elements)]
        else:
            values = struct.unpack(f"<{elements}{FORMATS[kind]}", raw)
        columns[name] = (values, names[offsets] if offsets >= 0 else None)
    return columns


def main():
    if sys.argv[1:] in (["--help"], ["-h"]):
        print(__doc__)
        return
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    manifest = read_manifest(folder)
    for entry in manifest["segments"]:
        columns = read_columns((folder / entry["file"]).read_bytes(), entry)
        for row in range(entry["rows"]):
            out = {}
            for name, (values, offsets) in columns.items():
                if offsets:
                    begin, end = columns[offsets][0][row:row + 2]
                    out[name] = list(values[begin:end])
                elif not name.endswith("_offsets"):
                    out[name] = values[row]
            for k, kept in enumerate(manifest["summary"]["kept"]):
                value = out.pop(f"keep{k}")
                out[kept["name"]] = bytes(value).decode() if kept["type"] == "string" else value
            print(json.dumps(out))


if __name__ == "__main__":
    main()
