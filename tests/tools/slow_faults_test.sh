#!/usr/bin/env bash
# Some failing calls and kills of commands that write; `python3 tests/faults/faults.py bin/xrun` takes
# each of them. Then generated Lua programs as recipes that are not trusted.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
xrun=${XRUN_BUILD:-$root/build}/bin/xrun
faults() { python3 "$root/tests/faults/faults.py" "$xrun" "$@"; }
faults --writer bundle --writer projection --most 1 --kind write --kind rename --kind read
faults --writer run --most 1 --kind write --kind fsync --kind allocation
faults --writer run --writer bundle --writer projection --kills 6
python3 "$root/tools/fuzz/lua_program.py" "$xrun" replay "$root/tests/data/lua_programs.txt"
