#!/usr/bin/env python3
"""read_cache.py FOLDER: prints the rows of a cache as JSON lines, read as docs/cache-format.md says.

A row's members are the columns of the cache; columns that the recipe keeps stand under "kept". Plain Python 3; checksums are checked if the xxhash package is there."""
import json
import pathlib
import struct
import sys

try:
    import xxhash
except ImportError:
    xxhash = None

HEADER, COLUMN = struct.Struct("<8sIIQQQII16s"), struct.Struct("<32sIiQQQ")
FORMATS = {1: "B", 2: "H", 3: "I", 4: "i", 5: "q", 6: "Q", 7: "f", 8: "d"}
BITS, PAGE, TAIL = 9, 1 << 16, len(',"xxh3":"') + 32 + len('"}\n')


class DamagedCache(Exception):
    pass


def check(holds, what):
    if not holds:
        raise DamagedCache(what)


def read_columns(data, entry):
    """Returns {name: (elements, name of its offsets column or None)} of a segment file."""
    magic, version, count, rows, *_, pages, _ = HEADER.unpack_from(data)
    head = entry["head_bytes"]
    check(magic == b"XRUNSEG\0" and version == 2, "is no segment of format 2")
    check(rows == entry["rows"] and len(data) == entry["bytes"], "is not as the manifest says")
    check(pages == -(-(len(data) - head) // PAGE), "has another number of pages")
    if xxhash:
        check(xxhash.xxh3_64_hexdigest(data[:head]) == entry["head_xxh3"], "its head is damaged")
        sums = struct.unpack_from(f"<{pages}Q", data, HEADER.size + count * COLUMN.size)
        for begin, want in zip(range(head, len(data), PAGE), sums):
            check(xxhash.xxh3_64_intdigest(data[begin:begin + PAGE]) == want,
                  f"the page at byte {begin} is damaged")
    table = [COLUMN.unpack_from(data, HEADER.size + i * COLUMN.size) for i in range(count)]
    names = [row[0].rstrip(b"\0").decode() for row in table]
    columns = {}
    for name, (_, kind, offsets, begin, elements, size) in zip(names, table):
        raw = data[begin:begin + size]
        values = ([raw[i // 8] >> (i % 8) & 1 for i in range(elements)] if kind == BITS
                  else struct.unpack(f"<{elements}{FORMATS[kind]}", raw))
        columns[name] = (values, names[offsets] if offsets >= 0 else None)
    return columns


def rows_of(folder):
    data = (folder / "manifest.json").read_bytes()
    manifest = json.loads(data)
    check(not xxhash or xxhash.xxh3_128_hexdigest(data[:-TAIL]) == manifest["xxh3"],
          "the manifest is damaged")
    check(manifest["version"] == 3, f"is of format {manifest['version']}, this reads 3")
    check(manifest["key"] == folder.resolve().name, "the folder is not named by its key")
    for entry in manifest["segments"]:
        columns = read_columns((folder / entry["file"]).read_bytes(), entry)
        for row in range(entry["rows"]):
            out = {name: list(values[slice(*columns[of][0][row:row + 2])]) if of else values[row]
                   for name, (values, of) in columns.items() if not name.endswith("offsets")}
            out["kept"] = {}
            for k, kept in enumerate(manifest["summary"].get("kept", [])):
                value = out.pop(f"keep{k}")
                text = kept["type"] == "string"
                out["kept"][kept["name"]] = bytes(value).decode() if text else value
            yield out


if __name__ == "__main__":
    for line in rows_of(pathlib.Path(sys.argv[1])):
        print(json.dumps(line))
