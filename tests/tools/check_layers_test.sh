#!/usr/bin/env bash
# tools/check_layers passes this tree and names the file and line of each kind of breach.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/{core/base,core/text/{tokenizer,jinja,chat},core/model/ops,core/run/record,core/console/terminal,kernels/{cpu,cuda},lua/{bind,prompt},recipes,tools,tests}

plant() { # FILE LINE...; a source opens with a comment, as line 0
  local opening=()
  [[ $1 != *.cpp ]] || opening=('// A source.')
  mkdir -p "$(dirname "$tree/$1")"
  printf '%s\n' "${opening[@]}" "${@:2}" >"$tree/$1"
}
wants() { # FILE:LINE of the one breach
  local found where=$1
  if [[ $where =~ ^(.*\.cpp):([0-9]+)$ ]]; then where=${BASH_REMATCH[1]}:$((BASH_REMATCH[2] + 1)); fi
  if found=$("$root/tools/check_layers" "$tree"); then echo "not found: $where"; exit 1; fi
  [[ $found == "$where:"* && $(wc -l <<<"$found") = 1 ]] || { echo "wanted $where, got: $found"; exit 1; }
}
clean() { rm "$tree/$1"; "$root/tools/check_layers" "$tree" || { echo "$1 was removed"; exit 1; }; }

plant core/run/ok.h '#include "core/base/error.h"' '#include "core/run/run.h"'
plant recipes/ok.lua 'local xrun = require "xrun"' 'local x = require("xrun.objectives.dpo")'
plant core/base/ok.cpp 'snprintf(text, 4, "x");' 'call(f);  // exits at once'
plant core/run/signals.cpp '_exit(1);'
plant core/base/throws.cpp 'fs::exists(path);'
plant core/run/code.cpp 'fs::remove(path, code);' 'for (fs::directory_iterator at(dir, code), end; !code && at != end;' \
  '     at.increment(code)) {' '  if (at->is_regular_file(none)) fs::copy(f(a, b),' '    b, ignored);' '}' \
  'if (fs::is_directory(status) && fs::is_regular_file(symlink_status(path, code))) return;' \
  'if (at != fs::directory_iterator() && Sidecar::exists(root, key)) return;  // fs::exists(path) throws'
"$root/tools/check_layers" "$tree"

plant core/base/up.h '' '#include "core/text/tokenizer/tokenizer.h"'; wants core/base/up.h:2; clean core/base/up.h
plant core/model/data.cpp '#include "core/data/packs/packed_batch.h"'; wants core/model/data.cpp:1; clean core/model/data.cpp
plant core/run/up.cpp '#include "core/console/terminal/table.h"'; wants core/run/up.cpp:1; clean core/run/up.cpp
plant kernels/cpu/up.cpp '#include "core/base/error.h"'; wants kernels/cpu/up.cpp:1; clean kernels/cpu/up.cpp
plant tests/heavy.cpp '#include <torch/torch.h>'; wants tests/heavy.cpp:1; clean tests/heavy.cpp
plant core/text/chat/torch.cpp '#include <ATen/core/Tensor.h>'; wants core/text/chat/torch.cpp:1; clean core/text/chat/torch.cpp
plant tools/torch.cpp '#include <c10/core/Device.h>'; wants tools/torch.cpp:1; clean tools/torch.cpp
plant core/data/rows/files/deep.cpp ''; wants core/data/rows/files/deep.cpp; clean core/data/rows/files/deep.cpp
plant core/run/lua.cpp '#include <lua.h>'; wants core/run/lua.cpp:1; clean core/run/lua.cpp
plant core/run/print.cpp 'int f() {' '  std::cerr << 1;'; wants core/run/print.cpp:2; clean core/run/print.cpp
plant core/run/quit.cpp '  exit(1);'; wants core/run/quit.cpp:1; clean core/run/quit.cpp
plant core/run/quit.cpp '  ::_exit(1);'; wants core/run/quit.cpp:1; clean core/run/quit.cpp
plant core/run/put.cpp '  std::fwrite(a, 1, n, f);'; wants core/run/put.cpp:1; clean core/run/put.cpp
plant core/run/write.cpp '  write(STDERR_FILENO, a, n);'; wants core/run/write.cpp:1; clean core/run/write.cpp
plant core/run/there.cpp '' 'if (fs::exists(path)) return;'; wants core/run/there.cpp:2; clean core/run/there.cpp
plant lua/bind/gone.cpp 'std::filesystem::remove_all(a / f(b, code));'; wants lua/bind/gone.cpp:1; clean lua/bind/gone.cpp
plant tools/here.cpp 'auto a = fs::current_path();'; wants tools/here.cpp:1; clean tools/here.cpp
plant tools/two.cpp 'x = fs::is_directory(a, code) ? fs::canonical(a) : g(a, code);'; wants tools/two.cpp:1; clean tools/two.cpp
plant core/run/lines.cpp 'fs::rename(from,' '           to);'; wants core/run/lines.cpp:1; clean core/run/lines.cpp
plant core/run/entry.cpp 'if (at->is_regular_file()) return;'; wants core/run/entry.cpp:1; clean core/run/entry.cpp
plant core/run/each.cpp 'for (auto& e : std::filesystem::directory_iterator(dir, code)) {'; wants core/run/each.cpp:1; clean core/run/each.cpp
echo 'int x;' >"$tree/core/run/bare.cpp"; wants core/run/bare.cpp:0; clean core/run/bare.cpp
plant recipes/other.lua 'local a = require "recipes.dpo"'; wants recipes/other.lua:1; clean recipes/other.lua
plant core/text/chat/text_util.cpp ''; wants core/text/chat/text_util.cpp; clean core/text/chat/text_util.cpp
plant core/text/chat/new_text.cpp ''; wants core/text/chat/new_text.cpp; clean core/text/chat/new_text.cpp
for n in $(seq 46); do plant "core/base/file_$n.cpp" ''; done
found=$("$root/tools/check_layers" "$tree") && { echo "a room of 46 files passed"; exit 1; }
[[ $found == "core/base: 4"*" file pairs; a room has at most 45"* ]] || { echo "got: $found"; exit 1; }
