#!/usr/bin/env bash
# The hostile recipes that an error ends, in one process, and the options of trust.
# slow_hostile_test.sh runs every one in a process of its own.
source "$(dirname "${BASH_SOURCE[0]}")/recipe_fixture.sh"

"$xrun" --version >/dev/null
python3 "$root/tests/tools/hostile.py" "$xrun" "$work" together

# Options of trust: bad values, the contradiction, ranks.
echo 'print("ran")' >script.lua
wants 2 "wanted a whole number from 1" "$xrun" script.lua --untrusted --limit-seconds 0
wants 2 "give one" "$xrun" script.lua --untrusted --trusted
wants 2 "no such path" "$xrun" script.lua --untrusted --read nowhere
MASTER_ADDR=localhost MASTER_PORT=1 WORLD_SIZE=2 RANK=0 wants 2 "ranks talk over the network" "$xrun" script.lua --untrusted
# A lock beside a recipe makes it a stranger's; --trusted lifts it.
echo 'print(io and "has io")' >mine.lua
wants 0 "has io" "$xrun" mine.lua
echo '{}' >bundle.json
wants 1 "is not for a recipe that is not trusted" "$xrun" mine.lua
wants 0 "has io" "$xrun" mine.lua --trusted
# A kernel without Landlock is reported, and xrun still refuses.
XRUN_LANDLOCK_VERSION=0 wants 0 "no Landlock" "$xrun" script.lua --untrusted
[ ! -e runs ] || fail "a script left a folder of runs"
