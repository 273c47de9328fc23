#!/usr/bin/env bash
# Sets xrun up and builds it: packages, LibTorch, configure, compile. Called by the wrapper ./xrun
# when something is missing or a source is newer than the build; does nothing that is done already.
#   tools/setup/build.sh [test]     "test" builds the tests too
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build="$root/build"
source "$root/tools/setup/is_current.sh"
cache="${XRUN_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/xrun}"
torch_home="$cache/torch-2.11.0"
goal="${1:-run}"
# CPU seconds of a clean build without a compiler cache (docs/numbers.md).
program_cpu_s=500 tests_cpu_s=500

say() { printf 'xrun: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

missing_packages() {
  local missing=() name
  while read -r name; do
    case $name in ''|'#'*) continue ;; esac
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || missing+=("$name")
  done <"$root/tools/setup/apt-packages.txt"
  # Any Python 3 with pip will do to fetch the wheels.
  if [ -z "${XRUN_TORCH:-}" ] && [ ! -e "$torch_home/complete" ] &&
    ! python3 -m pip --version >/dev/null 2>&1; then
    missing+=(python3 python3-pip)
  fi
  echo "${missing[*]:-}"
}

install_packages() {
  local packages=$1 as_root=()
  command -v apt-get >/dev/null || fail "this system has no apt-get; install its counterparts of these packages, then run again: $packages"
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || fail "needs root for: apt-get install $packages
      run that as root once, then run again"
    as_root=(sudo)
  fi
  mkdir -p "$build"
  # shellcheck disable=SC2086  # a list of words
  if ! { "${as_root[@]}" apt-get update &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y --no-install-recommends $packages; } >"$build/apt.log" 2>&1; then
    tail -n 5 "$build/apt.log" >&2
    fail "the packages could not be installed (whole output: $build/apt.log); run again with a network, or install by hand: $packages"
  fi
}

# Downloads a list of wheels, checks each one's sha256 (pip does), and unpacks them into a folder.
unpack_wheels() { # LIST FOLDER
  local platforms=(--platform manylinux2014_x86_64) n wheel
  for n in 28 27 26 25 24 18 17; do platforms+=(--platform "manylinux_2_${n}_x86_64"); done
  # Without a terminal pip prints a line for each wheel, with its size.
  local bar=(--progress-bar off); [ -t 2 ] && bar=()
  python3 -m pip download "${bar[@]}" --disable-pip-version-check --no-deps --require-hashes \
    --only-binary=:all: --implementation cp --python-version 3.11 "${platforms[@]}" \
    -d "$2.wheels" -r "$1" >&2 || return 1
  for wheel in "$2.wheels"/*.whl; do
    python3 -m zipfile -e "$wheel" "$2"
    rm "$wheel"
  done
}

# Unpacks into a temporary folder and renames it, so a folder with the mark "complete" is whole.
install_torch() {
  local work
  mkdir -p "$cache"
  rm -rf "$cache"/torch-unpacking.*
  work=$(mktemp -d "$cache/torch-unpacking.XXXXXX")
  # shellcheck disable=SC2064
  trap "rm -rf '$work'" EXIT
  unpack_wheels "$root/tools/setup/wheels.txt" "$work/unpacked" ||
    fail "LibTorch could not be fetched; run again with a network, or set XRUN_TORCH to the folder of a LibTorch 2.11 (the one that holds lib/ and include/)"
  rm -rf "$torch_home"
  mkdir "$work/home"
  mv "$work/unpacked/torch" "$work/unpacked/nvidia" "$work/home/"
  sync -f "$work/home"
  touch "$work/home/complete"
  mv "$work/home" "$torch_home"
}

# True if a run can use a GPU here once it is built: nvcc of CUDA 13, and a driver.
has_cuda() {
  local nvcc
  nvcc=$(PATH="$PATH:/usr/local/cuda/bin" command -v nvcc) || return 1
  [[ $("$nvcc" --version) == *"release 13."* && $(ldconfig -p) == *libcuda.so.1* ]]
}

# Installs them beside LibTorch. On the CPU xrun runs without them.
install_cuda_libraries() {
  local work
  rm -rf "$cache"/cuda-unpacking.*
  work=$(mktemp -d "$cache/cuda-unpacking.XXXXXX")
  if unpack_wheels "$root/tools/setup/cuda-wheels.txt" "$work/unpacked"; then
    cp -a "$work/unpacked/nvidia/." "$torch_home/nvidia/"
    sync -f "$torch_home"
    touch "$torch_home/cuda-complete"
  else
    say "the CUDA libraries could not be fetched; --device cuda will not run until they are (docs/gpu.md)"
  fi
  rm -rf "$work"
}

# Without the published templates, tests that compare with them are skipped.
install_templates() {
  local work
  mkdir -p "$cache"
  work=$(mktemp -d "$cache/trl-unpacking.XXXXXX")
  say "fetching the chat templates that tests compare with (trl, a wheel of 1 MB, checksum verified) into $cache/trl"
  if unpack_wheels "$root/tools/setup/test-wheels.txt" "$work/unpacked"; then
    mv -T "$work/unpacked" "$cache/trl" || true  # another one was first
  else
    say "they could not be fetched; tests that need them are skipped"
  fi
  rm -rf "$work"
}

announce() {
  local packages=$1 torch=$2 cuda=$3
  [ -z "$packages$torch$cuda" ] || say "this will be installed, once:"
  [ -z "$packages" ] || say "  system packages (apt-get): $packages"
  [ -z "$torch" ] || say "  LibTorch 2.11.0 and two CUDA run-time libraries (wheels, 545 MB to fetch, 1.2 GB unpacked, checksums verified) into $torch_home"
  [ -z "$cuda" ] || say "  for --device cuda, as this machine has a CUDA 13 toolkit and a driver: cuDNN 9, NCCL, NVSHMEM, cuSPARSELt and cuFile (wheels, 794 MB to fetch, checksums verified) into $torch_home/nvidia"
}

# A compile job may take 1.6 GB.
jobs() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/MemAvailable/ {print int($2 / 1677722)}' /proc/meminfo)
  [ "$memory" -ge 1 ] || memory=1
  echo $((cores < memory ? cores : memory))
}

# Reads ninja's output "[done/total] ...": shows percent and time left, on one line of a terminal, elsewhere a
# line every tenth. Anything else (a warning, an error) goes to the log alone.
show_progress() { # WHAT LOG
  local what=$1 log=$2 line shown=0 percent left began=$SECONDS
  while IFS= read -r line; do
    printf '%s\n' "$line" >>"$log"
    [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
    [ "${BASH_REMATCH[1]}" -gt 0 ] || continue
    percent=$((100 * BASH_REMATCH[1] / BASH_REMATCH[2]))
    left=$(((SECONDS - began) * (BASH_REMATCH[2] - BASH_REMATCH[1]) / BASH_REMATCH[1]))
    if [ -t 2 ]; then
      printf '\r\033[Kxrun: building %s: %d %%, about %d:%02d min left' "$what" "$percent" $((left / 60)) $((left % 60)) >&2
    elif [ "$percent" -ge $((shown + 10)) ] && [ $((SECONDS - began)) -ge 2 ]; then
      shown=$((percent / 10 * 10))
      say "building $what: $percent %, about $((left / 60)):$(printf %02d $((left % 60))) min left"
    fi
  done
  [ ! -t 2 ] || printf '\r\033[K' >&2
}

# Compiles targets; on failure prints the compiler's messages. Under CI=true a warning is a failure: not by -Werror,
# so that both kinds of build share their objects.
compile() { # WHAT TARGET...
  local what=$1 status=0
  shift
  : >"$build/build.log"
  NINJA_STATUS='[%f/%t] ' ninja -C "$build" -j "$(jobs)" "$@" 2>&1 | show_progress "$what" "$build/build.log" ||
    status=${PIPESTATUS[0]}
  if [ "$status" != 0 ]; then
    grep -vE '^\[[0-9]+/[0-9]+\] (Building|Linking|Generating)' "$build/build.log" | tail -n 60 >&2
    fail "the build failed (again in full: ninja -C $build)"
  fi
  if [ "${CI:-}" = true ] && grep -q ' warning: ' "$build/build.log"; then
    grep -A 5 ' warning: ' "$build/build.log" | head -n 60 >&2
    fail "the build printed warnings, and CI=true allows none ($build/build.log)"
  fi
}

configure() {
  local torch=$1 tests=$2
  if [ -e "$build/build.ninja" ] && grep -qxF "XRUN_TORCH:PATH=$torch" "$build/CMakeCache.txt" &&
    grep -qxF "XRUN_TESTS:BOOL=$tests" "$build/CMakeCache.txt"; then
    return 0
  fi
  cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release "-DXRUN_TORCH=$torch" \
    "-DXRUN_TESTS=$tests" >"$build/configure.log" 2>&1 || {
    rm -f "$build/build.ninja" # of other settings
    tail -n 20 "$build/configure.log" >&2
    fail "configuring failed (whole output: $build/configure.log)"
  }
}

# The CUDA plug-in is built where nvcc is, and never needed.
build_cuda() {
  grep -q '^build xrun_cuda:' "$build/build.ninja" || return 0
  : >"$build/cuda.log"
  NINJA_STATUS='[%f/%t] ' ninja -C "$build" -j "$(jobs)" xrun_cuda 2>&1 |
    show_progress "the CUDA plug-in" "$build/cuda.log" ||
    say "the CUDA plug-in did not build ($build/cuda.log); everything runs without it"
}

# Waits for the lock of another build and shows its progress from ninja's "[done/total] ..." lines in its log: one
# line on a terminal, elsewhere a line every tenth. Exits with 0 once the program is built if the other build continues
# with tests that this one does not need.
wait_for_build() {
  local last percent shown=0
  say "another xrun is building in $build; this one starts when $([ "$goal" = test ] && echo the build is done ||
    echo the program is built)"
  until flock -w 1 9; do
    if [ "$goal" = run ] && is_current run; then
      [ ! -t 2 ] || printf '\r\033[K' >&2
      exit 0
    fi
    last=$(grep -oE '^\[[0-9]+/[0-9]+\]' "$build/build.log" 2>/dev/null | tail -n 1) || last=""
    if [[ $last =~ ([0-9]+)/([0-9]+) ]] && [ "${BASH_REMATCH[2]}" -gt 0 ]; then
      percent=$((100 * BASH_REMATCH[1] / BASH_REMATCH[2]))
    else
      continue # it installs or configures
    fi
    if [ -t 2 ]; then
      printf '\r\033[Kxrun: waiting for the other build: %d %%' "$percent" >&2
    elif [ "$percent" -ge $((shown + 10)) ]; then
      shown=$((percent / 10 * 10))
      say "waiting for the other build: $percent %"
    fi
  done
  [ ! -t 2 ] || printf '\r\033[K' >&2
}

main() {
  local packages torch="" cuda="" torch_dir tests=OFF
  [ "$goal" != test ] || tests=ON
  # Once configured with tests, keep them: switching back and forth would configure again each time.
  grep -qsxF XRUN_TESTS:BOOL=ON "$build/CMakeCache.txt" && tests=ON
  mkdir -p "$build"
  exec 9>"$build/lock"
  flock -n 9 || wait_for_build
  : >"$build/build.log" # that of an earlier build would tell a waiting xrun that this one is done
  local cpu_s=0 first="first use: compiles"
  [ -e "$build/built-run" ] || cpu_s=$program_cpu_s
  if [ "$goal" = test ] && [ ! -e "$build/built-test" ]; then
    [ $cpu_s != 0 ] || first="first use of the tests: compiles them"
    cpu_s=$((cpu_s + tests_cpu_s))
  fi
  [ $cpu_s = 0 ] ||
    say "$first in $build, about $(((cpu_s / $(jobs) + 59) / 60)) minutes with $(jobs) jobs at a time, once"
  packages=$(missing_packages)
  if [ -n "${XRUN_TORCH:-}" ]; then
    torch_dir=$(cd "$XRUN_TORCH" 2>/dev/null && pwd) || fail "XRUN_TORCH=$XRUN_TORCH: no such folder"
    [ -e "$torch_dir/lib/libtorch_cpu.so" ] || fail "XRUN_TORCH=$XRUN_TORCH: has no lib/libtorch_cpu.so; it must be the folder that holds LibTorch's lib/ and include/"
  else
    torch_dir="$torch_home/torch"
    [ -e "$torch_home/complete" ] || torch=missing
    [ -e "$torch_home/cuda-complete" ] || ! has_cuda || cuda=missing
  fi
  announce "$packages" "$torch" "$cuda"
  [ -z "$packages" ] || install_packages "$packages"
  [ -z "$torch" ] || install_torch
  [ -z "$cuda" ] || install_cuda_libraries
  [ "$goal" != test ] || [ -e "$cache/trl" ] || install_templates
  local began=$SECONDS
  touch "$build/begun"
  configure "$torch_dir" "$tests"
  compile "the program" xrun
  build_cuda
  echo "${XRUN_TORCH:-}" >"$build/torch-setting"
  # Sources edited during the build stay newer than the mark.
  cp -p "$build/begun" "$build/built-run"
  if [ "$goal" = test ]; then
    # The program is ready: a run that starts now does not wait for the tests.
    compile "the tests" all
    mv "$build/begun" "$build/built-test"
  fi
  [ $((SECONDS - began)) -lt 5 ] || say "built in $((SECONDS - began)) s"
}

main
