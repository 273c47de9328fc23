#!/usr/bin/env bash
# tools/run_tests counts passes, failures, skips and crashes, and ends with one summary line.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/{tools,tests/tools,docs,recipes,lua,build/bin}
cp "$root/tools/run_tests" "$tree/tools/"
printf '#!/bin/sh\nexit 0\n' >"$tree/tools/check_layers"
chmod +x "$tree/tools/check_layers"
printf '# of 0.12 s\nOne.Test\nlong_test.sh\n' >"$tree/tests/not_quick.txt"
unset XRUN_BUILD XRUN_ROOT

program() { # NAME XML STATUS OUTPUT: a fake GoogleTest program
  { echo '#!/bin/bash'
    echo 'for a in "$@"; do case $a in --gtest_output=xml:*) xml=${a#*xml:} ;; --gtest_filter=*) echo "filter ${a#*=}" ;; esac; done'
    [ -z "$2" ] || printf 'printf %%s %q >"$xml"\n' "$2"
    printf 'printf %%s %q\nexit %s\n' "$4" "$3"; } >"$tree/build/bin/test_$1"
  chmod +x "$tree/build/bin/test_$1"
}
wants() { # STATUS LAST_LINE ARGUMENT...
  local status=0
  "$tree/tools/run_tests" "${@:3}" >"$tree/out" 2>&1 || status=$?
  [ "$status" = "$1" ] && [ "$(tail -n 1 "$tree/out")" = "$2" ] && return
  echo "wanted status $1 and '$2', got $status:"; cat "$tree/out"; exit 1
}
says() { grep -qF -- "$1" "$tree/out" || { echo "missing from the output: $1"; cat "$tree/out"; exit 1; }; }

good='<testsuites tests="3" failures="0" disabled="0" errors="0">
<testcase status="run" result="completed"/>
<testcase status="run" result="skipped"/>
<testcase status="notrun" result="suppressed"/>
'
program good "$good" 0 ''
wants 0 '2 passed, 0 failed, 2 skipped' # the program's, check_layers, no Lua files

# The ten slowest of more than ten tests are listed, longest first.
program slow "$(for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
  echo "<testcase name=\"T$i\" file=\"a.cpp\" status=\"run\" time=\"$i.5\" classname=\"Slow\" />"
done; echo '<testsuites failures="0">')" 0 ''
wants 0 '14 passed, 0 failed, 2 skipped'
grep -A 10 '^slowest tests' "$tree/out" | sed -n '2p;11p' >"$tree/slowest"
printf '%8.1f  %s\n' 12.5 Slow.T12 3.5 Slow.T3 | cmp - "$tree/slowest"
rm "$tree/build/bin/test_slow"

bad='<testsuites tests="2" failures="1" disabled="0" errors="0">
<testcase status="run" result="completed"/>
<testcase status="run" result="completed"/>
'
program bad "$bad" 1 '[ RUN      ] A.Good
noise
[       OK ] A.Good (0 ms)
[ RUN      ] A.Bad
why it is bad
[  FAILED  ] A.Bad (0 ms)
'
wants 1 '3 passed, 1 failed, 2 skipped'
says 'why it is bad'
! grep -q noise "$tree/out" || { echo 'a passed test is printed'; exit 1; }

program bad '' 139 '[ RUN      ] A.Good
[       OK ] A.Good (0 ms)
[ RUN      ] A.Crash
last words
'
wants 1 '3 passed, 1 failed, 2 skipped'
says 'last words'
says 'test_bad ended with status 139 in A.Crash'

program bad "$good" 3 ''
wants 1 '3 passed, 1 failed, 3 skipped'
says 'test_bad ended with status 3'
says 'filter *'
wants 1 '3 passed, 1 failed, 3 skipped' --quick
says 'filter *-*Slow*:One.Test:long_test.sh'
wants 1 '2 passed, 1 failed, 2 skipped' Cache
says 'filter *Cache*'
wants 1 '2 passed, 1 failed, 2 skipped' docs/a.md:5 # a block, no second pattern
says 'filter *docs/a.md?5*'
wants 1 '2 passed, 1 failed, 2 skipped' --quick 'Cache.*'
says 'filter Cache.*-*Slow*'
rm "$tree/build/bin/test_bad"

printf 'exit 77\n' >"$tree/tests/tools/skips_test.sh"
printf 'echo broken; exit 1\n' >"$tree/tests/tools/slow_fails_test.sh"
wants 1 '2 passed, 1 failed, 3 skipped'
says broken
printf 'exit 1\n' >"$tree/tests/tools/long_test.sh"
wants 0 '2 passed, 0 failed, 3 skipped' --quick
rm "$tree/build/bin/test_good"
wants 0 '1 passed, 0 failed, 0 skipped' check_layers
wants 1 '0 passed, 0 failed, 0 skipped' no_such_test
says 'no test matches no_such_test'
rm "$tree"/tests/tools/*.sh

printf '%s\n' text '```sh' 'exit 1' '```' '```sh run' 'test -e docs' 'mkdir runs' '```' \
  '```sh run' 'false' 'true' '```' '```sh run slow' 'exit 1' '```' >"$tree/docs/page.md"
wants 1 '2 passed, 1 failed, 1 skipped' --quick # check_layers, luacheck, two of four blocks
says 'docs/page.md:9'
[ ! -e "$tree/runs" ] || { echo 'a block wrote into the tree'; exit 1; }
wants 1 '2 passed, 3 failed, 1 skipped' # and the page as one script
wants 0 '1 passed, 0 failed, 0 skipped' docs/page.md:5
# Each block of this page works alone; the second fails after the first.
printf '%s\n' '```sh run' 'mkdir one' '```' text '```sh run' 'mkdir one' '```' >"$tree/docs/page.md"
wants 1 '2 passed, 1 failed, 0 skipped' docs/page.md
says 'docs/page.md                          0 passed, 1 FAILED'
sed -i '6s/mkdir/mkdir -p/' "$tree/docs/page.md"
wants 0 '3 passed, 0 failed, 0 skipped' docs/page.md
# What a user made in a checkout is not seen: blocks make models and runs of these names.
mkdir "$tree/one"
wants 1 '1 passed, 2 failed, 0 skipped' docs/page.md # no checkout
git -C "$tree" init -q && git -C "$tree" add docs tools
wants 0 '3 passed, 0 failed, 0 skipped' docs/page.md
wants 2 "run_tests: unknown option --fast; usage: tools/run_tests [--quick] [FILTER]" --fast
