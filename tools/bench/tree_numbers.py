#!/usr/bin/env python3
"""Prints the figures of docs/numbers.md about the source tree itself.

  tools/bench/tree_numbers.py [ROOT]

Counts what git tracks in core/, lua/ and kernels/. Generated tables (*_data.cpp) count as files, not as
lines. A comment block is a run of // lines; a type is a class, struct or enum that is defined at
the left margin, in a header or in a source.
"""
import collections
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
tracked = subprocess.run(["git", "-C", str(root), "ls-files", "core", "lua", "kernels"],
                         capture_output=True, text=True, check=True).stdout.split()
sources = [f for f in tracked if f.endswith((".h", ".cpp", ".inl", ".cu", ".lua"))]
texts = {f: (root / f).read_text().split("\n")[:-1] for f in sources}
written = {f: lines for f, lines in texts.items() if not f.endswith("_data.cpp")}

rooms = collections.defaultdict(set)
for f in sources:
    rooms[f.rpartition("/")[0]].add(f.rpartition("/")[2].rpartition(".")[0])
largest = max(rooms, key=lambda room: len(rooms[room]))


def ratio(endings):
    comments = code = 0
    for f, lines in written.items():
        if f.endswith(endings):
            for line in lines:
                line = line.strip()
                comments += line.startswith("//")
                code += bool(line) and not line.startswith("//")
    return comments / code


blocks = opened = 0
for lines in written.values():
    before = False
    for line in lines:
        line = line.strip()
        comment = line.startswith("//")
        if comment and not before:
            blocks += 1
            opened += bool(re.match(r"// *(What|Whether|Where|Who|How)\b", line))
        before = comment

types = collections.defaultdict(set)
for f, lines in written.items():
    for line in lines:
        found = re.match(r"(?:class|struct|enum class|enum) (\w+)(?: final)?(?: :.*)? \{", line)
        if found:
            types[found.group(1)].add(f)
shared = sorted(name for name, files in types.items() if len(files) > 1)

print(f"files in core and lua          {sum(f.startswith(('core/', 'lua/')) for f in sources)}")
print(f"lines in core and lua          {sum(len(l) for f, l in written.items() if not f.startswith('kernels/'))}")
print(f"rooms                          {len(rooms)}")
print(f"largest room                   {largest}, {len(rooms[largest])} pairs")
short = sum(len(lines) < 30 for lines in texts.values())
print(f"files under 30 lines           {short} of {len(texts)} ({100 * short / len(texts):.0f} %)")
print(f"comment lines per code line    headers {ratio('.h'):.2f}, sources {ratio(('.cpp', '.cu', '.inl')):.2f}")
print(f"comment blocks that open with What, Whether, Where, Who, How"
      f"  {opened} of {blocks} ({100 * opened / blocks:.1f} %)")
print(f"types that share a name        {len(shared)}: {', '.join(shared)}")
