#!/usr/bin/env python3
"""Prints the rows of a cache as JSON lines, read as docs/cache-format.md describes the format.

    read_cache.py FOLDER

Extra columns are under "kept". Verifies checksums if the xxhash package is installed.
"""
import json
import struct
import sys
from pathlib import Path

try:
    from xxhash import xxh3_64_hexdigest as hash64, xxh3_128_hexdigest as hash128
except ImportError:
    hash64 = hash128 = None

HEADER, COLUMN = struct.Struct("<8sIIQQQII16s"), struct.Struct("<32sIiQQQ")
FORMATS = {1: "B", 2: "H", 3: "I", 4: "i", 5: "q", 6: "Q", 7: "f", 8: "d"}
BITS, PAGE, TAIL = 9, 1 << 16, len(',"xxh3":"') + 32 + len('"}\n')


def read_columns(data, entry):
    """Returns {name: (elements, name of its offsets column or None)} of a shard."""
    magic, version, count, rows, *_, pages, _ = HEADER.unpack_from(data)
    head = entry["head_bytes"]
    assert magic == b"XRUNSEG\0" and version == 2, "not a shard of format 2"
    assert (rows, len(data)) == (entry["rows"], entry["bytes"]), "rows or size differ from the manifest"
    assert pages == -(-(len(data) - head) // PAGE), "wrong number of pages"
    assert not hash64 or hash64(data[:head]) == entry["head_xxh3"], "the head is damaged"
    sums = struct.unpack_from(f"<{pages}Q", data, HEADER.size + count * COLUMN.size)
    for at, want in zip(range(head, len(data), PAGE), sums):
        assert not hash64 or hash64(data[at:at + PAGE]) == f"{want:016x}", f"damaged at byte {at}"
    table = [COLUMN.unpack_from(data, HEADER.size + i * COLUMN.size) for i in range(count)]
    names, columns = [row[0].rstrip(b"\0").decode() for row in table], {}
    for name, (_, kind, offsets, begin, elements, size) in zip(names, table):
        raw = data[begin:begin + size]
        values = ([raw[i // 8] >> (i % 8) & 1 for i in range(elements)] if kind == BITS
                  else struct.unpack(f"<{elements}{FORMATS[kind]}", raw))
        columns[name] = (values, names[offsets] if offsets >= 0 else None)
    return columns


def rows_of(folder):
    data = (folder / "manifest.json").read_bytes()
    manifest = json.loads(data)
    assert not hash128 or hash128(data[:-TAIL]) == manifest["xxh3"], "the manifest is damaged"
    assert manifest["version"] == 3, f"the manifest has format {manifest['version']}, this script reads 3"
    assert manifest["key"] == folder.resolve().name, "the folder's name is not the key"
    extra = manifest["summary"].get("kept", [])
    for entry in manifest["segments"]:
        columns = read_columns((folder / entry["file"]).read_bytes(), entry)
        for row in range(entry["rows"]):
            out = {name: list(values[slice(*columns[of][0][row:row + 2])]) if of else values[row]
                   for name, (values, of) in columns.items() if not name.endswith("offsets")}
            kept = {column["name"]: out.pop(f"keep{k}") for k, column in enumerate(extra)}
            yield out | {"kept": {name: bytes(value).decode() if isinstance(value, list) else value
                                  for name, value in kept.items()}}


if __name__ == "__main__":
    for line in rows_of(Path(sys.argv[1])):
        print(json.dumps(line))
