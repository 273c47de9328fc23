#!/usr/bin/env python3
"""Writes tests/data/fuzz/bundle: hostile and plain bundles for the fuzz target, made without xrun.

    python3 tests/golden/make/bundle_corpus.py tests/data/fuzz/bundle
"""
import hashlib
import json
import pathlib
import struct
import sys
import zlib

out = pathlib.Path(sys.argv[1])
out.mkdir(parents=True, exist_ok=True)


def header(name, data, crc=None, method=0, size=None, extra=b"", flags=0x800):
    crc = zlib.crc32(data) if crc is None else crc
    size = len(data) if size is None else size
    return struct.pack("<HHHIIIIHH", 20, flags, method, 0x00210000, crc, len(data), size, len(name), len(extra))


def archive(members, comment=b"", mode=0, directory_names=None, offsets=None, prefix=b""):
    body, directory = prefix, b""
    for i, member in enumerate(members):
        name, data = member[0].encode("utf-8", "surrogateescape"), member[1]
        options = member[2] if len(member) > 2 else {}
        at = len(body) if offsets is None else offsets[i]
        shared = header(name, data, **options)
        body += b"PK\3\4" + shared + name + data
        shown = (directory_names or {}).get(i, member[0]).encode()
        entry = header(shown, data, **options)
        directory += b"PK\1\2" + struct.pack("<H", 20) + entry + struct.pack("<HHHII", 0, 0, 0, mode << 16, at) + shown
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, len(members), len(members), len(directory), len(body), len(comment))
    return body + directory + end + comment


def locked(name, data, **more):
    return {"name": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), **more}


recipe, rows = b"return 1", b"{}\n"


def lock(**changes):
    value = {
        "format": 1, "recipe": "recipe/a.lua", "sets": ["beta=0.2"], "config": {"beta": 0.2},
        "origins": {"beta": "--set"}, "seeds": {"seed": 0},
        "members": [locked("data/1/rows.jsonl", rows), locked("recipe/a.lua", recipe)],
        "inputs": [{"kind": "data", "name": "rows.jsonl",
                    "files": [locked("rows.jsonl", rows, xxh3="0" * 32, member="data/1/rows.jsonl")]}],
        "binary": {"torch": "2.11.0"}, "operators": {"exp": ["exp(Tensor self)"]},
        "run": {"machine": {"device": "cpu", "threads": 2}, "environment": {"cpu": "A"}, "date": "",
                "measured": {}, "steps": [{"step": 0, "train/loss": 0.5}, {"step": 1, "train/loss": None}]},
    }
    value.update(changes)
    return value


def text(value):
    return (json.dumps(value, indent=1) + "\n").encode()


def members(value=None):
    return [("bundle.json", text(value or lock())), ("data/1/rows.jsonl", rows), ("recipe/a.lua", recipe)]


def put(name, kind, data):
    (out / name).write_bytes(kind + data)


good = archive(members())
put("good", b"z", good)
put("cut_off", b"z", good[:-30])
put("comment", b"z", archive(members(), comment=b"hello"))
put("before_the_first", b"z", archive(members(), prefix=b"#!/bin/sh\n"))
put("link", b"z", archive(members(), mode=0o120777))
put("device", b"z", archive(members(), mode=0o020666))
put("other_name_in_directory", b"z", archive(members(), directory_names={2: "recipe/b.lua"}))
put("overlapping", b"z", archive(members(), offsets=[0, 0, 0]))
put("offset_beyond", b"z", archive(members(), offsets=[0, 1 << 30, 3]))
for label, name in [("up", "../a"), ("absolute", "/etc/passwd"), ("inside_up", "recipe/../../a"),
                    ("empty_part", "recipe//a"), ("control", "recipe/a\n"), ("backslash", "..\\a"), ("empty", "")]:
    changed = sorted(members()[1:] + [(name, b"x")])
    put("name_" + label, b"z", archive(members()[:1] + changed))
put("twice", b"z", archive(members() + members()[2:]))
put("file_and_folder", b"z", archive(members()[:2] + [("recipe", b"x")] + members()[2:]))
put("swapped", b"z", archive([members()[0], (members()[1][0], recipe), (members()[2][0], rows)]))
put("more", b"z", archive(members() + [("recipe/b.lua", b"x")]))
put("fewer", b"z", archive(members()[:2]))
put("no_lock", b"z", archive(members()[1:]))
bomb = zlib.compressobj(9, zlib.DEFLATED, -15)
packed = bomb.compress(b"\0" * 10_000_000) + bomb.flush()
put("bomb", b"z", archive(members() + [("recipe/z", packed[:200], {"method": 8, "size": 10_000_000})]))
put("encrypted", b"z", archive(members() + [("recipe/z", b"x", {"flags": 0x801})]))
put("wrong_crc", b"z", archive([members()[0] + ({"crc": 7},)] + members()[1:]))

only = [locked("recipe/a.lua", recipe)]
plain = lock(members=only, inputs=[])
put("lock_good", b"l", text(plain))
put("lock_no_run", b"l", text({**plain, "run": None}))
put("lock_newer", b"l", text({**plain, "format": 99}))
put("lock_unknown", b"l", text({**plain, "later": 1}))
put("lock_deep", b"l", b"[" * 600 + b"]" * 600)
put("lock_not_json", b"l", b"{\"format\":1,")
put("lock_missing_field", b"l", text({k: v for k, v in plain.items() if k != "seeds"}))
put("lock_wrong_digest", b"l", text({**plain, "members": [{**only[0], "sha256": "0" * 64}]}))
put("lock_short_digest", b"l", text({**plain, "members": [{**only[0], "sha256": "0"}]}))
put("lock_negative", b"l", text({**plain, "members": [{**only[0], "bytes": -8}]}))
put("lock_huge", b"l", text({**plain, "members": [{**only[0], "bytes": 1 << 63}]}))
put("lock_names_up", b"l", text({**plain, "inputs": [{"kind": "data", "name": "a", "files": [locked("../a", b"")]}]}))
put("lock_input_twice", b"l", text({**plain, "inputs": 2 * [{"kind": "data", "name": "a", "files": [locked("a", b"")]}]}))
put("lock_no_files", b"l", text({**plain, "inputs": [{"kind": "model", "name": "a", "files": []}]}))
put("lock_step_text", b"l", text({**plain, "run": {**plain["run"], "steps": [{"step": 0, "x": "y"}]}}))
put("lock_steps_fall", b"l", text({**plain, "run": {**plain["run"], "steps": [{"step": 1}, {"step": 0}]}}))
print(len(list(out.iterdir())), "inputs")
