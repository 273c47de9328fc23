#!/usr/bin/env bash
# The wrapper ./xrun and its set-up, in a separate tree: builds if needed, never twice, and refuses a
# LibTorch with a wrong checksum.
set -euo pipefail
root=${XRUN_ROOT:?}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

source "$root/tests/tools/checks.sh"

tree=$work/tree
mkdir -p "$tree"/{core,kernels,lua,tests,tools/setup}
cp "$root/xrun" "$tree/"
cp "$root/tools/setup/is_current.sh" "$tree/tools/setup/"
echo 'project(xrun)' >"$tree/CMakeLists.txt"
echo 'int x;' >"$tree/core/x.cpp"

# A stub of the build that only records its calls.
cat >"$tree/tools/setup/build.sh" <<'END'
#!/usr/bin/env bash
set -e
build=$(cd "$(dirname "$0")/../.." && pwd)/build
mkdir -p "$build/bin"
echo "$1" >>"$build/../calls"
printf '#!/bin/sh\necho "ran $*"\n' >"$build/bin/xrun"
chmod +x "$build/bin/xrun"
echo "${XRUN_TORCH:-}" >"$build/torch-setting"
touch "$build/built-$1"
END
printf '#!/bin/sh\necho "tests $*"\n' >"$tree/tools/run_tests"
chmod +x "$tree/tools/setup/build.sh" "$tree/tools/run_tests"
find "$tree" -exec touch -d '1 hour ago' {} +
calls() { tr '\n' ' ' <"$tree/calls"; }
unset XRUN_TORCH

is "$("$tree/xrun" test --help)" "tests --help"
is "$("$tree/xrun" test --quick -h)" "tests --help"
[ ! -e "$tree/calls" ] || fail "help builds: $(calls)"
is "$("$tree/xrun" a b)" "ran a b"
is "$("$tree/xrun" again)" "ran again"
is "$(calls)" "run "
touch "$tree/core/x.cpp" && "$tree/xrun" >/dev/null
is "$(calls)" "run run "
touch "$tree/tests/new_test.cpp" && "$tree/xrun" >/dev/null # what only the tests need
is "$(calls)" "run run "
is "$("$tree/xrun" test --quick x)" "tests --quick x"
is "$(calls)" "run run test "
rm "$tree/core/x.cpp" && "$tree/xrun" >/dev/null
is "$(calls)" "run run test run "
XRUN_TORCH=/somewhere "$tree/xrun" >/dev/null
is "$(calls)" "run run test run run "
ln -s "$tree/xrun" "$work/link"
is "$(cd / && XRUN_TORCH=/somewhere "$work/link" from elsewhere)" "ran from elsewhere"

# The real set-up refuses before it builds.
cp "$root"/tools/setup/* "$tree/tools/setup/"
setup() { # VARIABLE=VALUE...
  local status=0
  env "$@" bash "$tree/tools/setup/build.sh" run >out 2>err </dev/null || status=$?
  echo $status
}
cd "$work"
is "$(setup XRUN_TORCH=nowhere)" 1
grep -q 'XRUN_TORCH=nowhere: no such folder' err || fail "$(cat err)"
mkdir empty
is "$(setup XRUN_TORCH=empty)" 1
grep -q 'has no lib/libtorch_cpu.so' err || fail "$(cat err)"

# A wheel with the right name and the wrong bytes.
mkdir wheels
printf 'PK' >wheels/torch-2.11.0-cp311-cp311-manylinux_2_28_x86_64.whl
is "$(setup XRUN_CACHE="$work/cache" PIP_NO_INDEX=1 PIP_FIND_LINKS="$work/wheels")" 1
grep -q 'this will be installed, once' err || fail "nothing is announced beforehand: $(cat err)"
grep -q 'LibTorch could not be fetched' err || fail "$(cat err)"
grep -qi 'hash' err || fail "the checksum is not mentioned: $(cat err)"
is "$(find cache -mindepth 1 | wc -l)" 0

# The GPU libraries are fetched if there is a toolkit and a driver; a failed fetch stops nothing.
mkdir -p bin cache/torch-2.11.0/torch/lib cache/torch-2.11.0/nvidia
touch cache/torch-2.11.0/complete
printf '#!/bin/sh\necho "Cuda compilation tools, release 13.0, V13.0.88"\n' >bin/nvcc
printf '#!/bin/sh\necho "	libcuda.so.1 (libc6,x86-64) => /lib/libcuda.so.1"\n' >bin/ldconfig
chmod +x bin/nvcc bin/ldconfig
for name in cudnn_cu13-9.19.0.56 cusparselt_cu13-0.8.0 nccl_cu13-2.28.9 nvshmem_cu13-3.4.5 cufile-1.15.1.6; do
  printf 'PK' >"wheels/nvidia_$name-py3-none-manylinux_2_17_x86_64.whl"
done
gpu=(XRUN_CACHE="$work/cache" PIP_NO_INDEX=1 PIP_FIND_LINKS="$work/wheels" PATH="$work/bin:$PATH")
setup "${gpu[@]}" >/dev/null
grep -q 'for --device cuda, as this machine has' err || fail "nothing is announced beforehand: $(cat err)"
grep -qi 'hash' err || fail "the checksum is not mentioned: $(cat err)"
grep -q 'CUDA libraries could not be fetched' err || fail "$(cat err)"
is "$(find cache -name '*cuda*')" ""
rm bin/ldconfig
printf '#!/bin/sh\n' >bin/ldconfig && chmod +x bin/ldconfig # no driver
setup "${gpu[@]}" >/dev/null
! grep -q 'cuda' err || fail "fetches for a GPU that is not there: $(cat err)"

# Compiling shows percent and time left; the program is ready before the tests are compiled; CI=true
# allows no warning, with the same compiler flags.
rm -rf "$tree/build" bin/ldconfig bin/nvcc
touch cache/torch-2.11.0/torch/lib/libtorch_cpu.so
cat >bin/cmake <<'END'
#!/bin/sh
while [ $# -gt 0 ]; do [ "$1" != -B ] || touch "$2/build.ninja"; shift; done
END
cat >bin/ninja <<'END'
#!/bin/sh
for target; do :; done
[ "$target" != all ] || [ -e "$2/built-run" ] || exit 1
mkdir -p "$2/bin" && printf '#!/bin/sh\n' >"$2/bin/xrun" && chmod +x "$2/bin/xrun"
echo "[0/2] Re-checking globbed directories..."
for n in 1 2 3 4; do [ -n "$WARNING" ] || sleep 0.8; echo "[$n/4] Building CXX object $target.o"; done
[ -z "$WARNING" ] || echo "core/x.cpp:1:5: warning: unused variable"
END
chmod +x bin/cmake bin/ninja
mkdir cache/trl
build=(XRUN_CACHE="$work/cache" PATH="$work/bin:$PATH")
env "${build[@]}" bash "$tree/tools/setup/build.sh" test >first.out 2>first.err </dev/null &
first=$!
sleep 1
# Another xrun waits for the program, not for the tests, and shows how far the build is.
is "$(setup "${build[@]}")" 0
[ -e "$tree/build/built-run" ] || fail "it does not wait for the program"
[ ! -e "$tree/build/built-test" ] || fail "it waits for the tests, too"
wait $first
grep -q 'another xrun is building in .*; this one starts when the program is built' err || fail "$(cat err)"
grep -qE 'waiting for the other build: (25|50|75) %' err || fail "$(cat err)"
cp first.err err
grep -q 'first use: compiles in .*, about [0-9]* minutes with [0-9]* jobs at a time, once' err || fail "$(cat err)"
grep -q 'building the program: 75 %, about 0:0[0-2] min left' err || fail "$(cat err)"
grep -q 'building the tests: 100 %' err || fail "$(cat err)"
is "$(setup "${build[@]}" WARNING=1 CI=)" 0
is "$(setup "${build[@]}" WARNING=1 CI=true)" 1
grep -q 'core/x.cpp:1:5: warning: unused variable' err || fail "$(cat err)"
