#!/usr/bin/env bash
# xrun repl in a real terminal multiplexer: its screen after editing, completing, resizing.
source "$(dirname "${BASH_SOURCE[0]}")/checks.sh"
set -euo pipefail
command -v tmux >/dev/null || { echo "skipped: no tmux"; exit 77; }
xrun=${XRUN_BUILD:?}/bin/xrun
work=$(mktemp -d)
socket=$work/tmux
trap 'tmux -S "$socket" kill-server 2>/dev/null || true; rm -rf "$work"' EXIT
export XDG_STATE_HOME=$work/state OMP_NUM_THREADS=1 LC_ALL=C.UTF-8
unset TMUX
tmux -S "$socket" -f /dev/null new-session -d -x 60 -y 20 "NO_COLOR=1 $xrun repl; echo ended \$?; cat"
shows() { # TEXT...: each appears on the screen within 30 s
  for text in "$@"; do
    for _ in $(seq 150); do
      tmux -S "$socket" capture-pane -p >"$work/screen"
      grep -qF -- "$text" "$work/screen" && continue 2
      sleep 0.2
    done
    cat "$work/screen"
    fail "the screen lacks '$text'"
  done
}
keys() { tmux -S "$socket" send-keys "$@"; }

shows "xrun>"
keys -l "xrun.arange(0, 200):float()"
keys Enter
shows "f32[200] cpu" "[0, 1, ..., 198, 199]" "min 0  mean 99.5  max 199" "0 to 199"
keys -l "t = { '世界', "
keys Enter
keys -l "beta = 0.1 }"
keys Enter
keys -l "t"
keys Enter
shows '{ "世界", beta = 0.1 }'
keys -l "xrun.shuf"
keys Tab
shows "xrun> xrun.shuffle"
keys C-u
keys -l "xrun.ones(2):cum"
keys Tab
shows "cummax" "cumsum"
keys C-u
# The typed input survives a window that becomes narrow and wide again.
keys -l "'0123456789abcdefghijklmnopqrstuvwxyz'"
shows "0123456789abcdefghijklmnopqrstuvwxyz"
tmux -S "$socket" resize-window -x 24 -y 20
shows "xrun> '0123456789abcdefg"
tmux -S "$socket" resize-window -x 60 -y 20
shows "xrun> '0123456789abcdefghijklmnopqrstuvwxyz'"
keys Enter
shows "\"0123456789abcdefghijklmnopqrstuvwxyz\""
is "$(grep -c "0123456789a" "$work/screen")" 2
keys -l "print(600 * 70) while true do end"
keys Enter
shows "42000"
keys C-c
shows "interrupted at input"
keys C-d
shows "ended 0"
