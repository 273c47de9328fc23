#!/usr/bin/env bash
# xrun repl without a recipe: scripts through a pipe, and a prompt on a pseudo-terminal.
source "$(dirname "${BASH_SOURCE[0]}")/checks.sh"
set -euo pipefail
xrun=${XRUN_BUILD:?}/bin/xrun
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_STATE_HOME=$work/state PYTHONPATH=${XRUN_ROOT:?}/tests/tools OMP_NUM_THREADS=1
cd "$work"

# A script: values of expressions, errors with their line, status 1 if an input failed.
cat >good.lua <<'LUA'
local x = 2
for i = 1, 3 do
  x = x * i
end
x
xrun.ones(2, 2):sum():item()
LUA
is "$("$xrun" repl <good.lua)" "$(printf '12\n4')"
status=0
printf 'y = 1\n\nerror "no"\ny\n' | "$xrun" repl >out || status=$?
is $status 1
is "$(head -2 out)" "$(printf 'stdin:3: no\n     3 | error "no"')"
is "$(tail -1 out)" 1
status=0
printf 'for i = 1, 2 do\n' | "$xrun" repl >out || status=$?
is $status 1
grep -q "'end' expected" out || fail "an unfinished script: $(cat out)"
status=0
printf 'step(' | "$xrun" repl >out || status=$?
is $status 1
grep -q 'hint: the ( of line 1 is not closed' out || fail "an open bracket: $(cat out)"
# Neither binary input nor a lost reader crashes it: it exits normally or by SIGPIPE.
status=0
head -c 20000 /dev/urandom >noise
"$xrun" repl <noise >out 2>&1 || status=$?
[ $status -le 1 ] || fail "noise ended it with status $status"
[ "$(LC_ALL=C tr -d '\11\12\40-\176\200-\377' <out | wc -c)" = 0 ] || fail "controls were printed"
seq -f "'line %g'" 3000 >lines
("$xrun" repl <lines || echo $? >lost) | head -n 1 >/dev/null
case $(cat lost 2>/dev/null) in '' | 1 | 141) ;; *) fail "a lost reader ended it with $(cat lost)" ;; esac

cat >drive.py <<'PYTHON'
import os, signal, sys
from terminal import Terminal

xrun = sys.argv[1]
t = Terminal([xrun, "repl"])
t.until("xrun> ")
t.send("1 + 1\r")
t.wants_screen("2")

# Several lines, indented; the cursor keys; a top-level local.
t.send("local function f(a)\rreturn a * 2\rend\r")
t.wants_screen("   .. end")
t.wants_screen("   ..   return a * 2")
t.until("\x1b[?2004l")  # the prompt of 1 + 1 has read its input,
t.until("\x1b[?2004l")  # that of the function too,
t.until("\x1b[?2004h")  # and the next one reads keys
t.send("f(20)" + "\x1b[D" * 1 + "\x7f\x7f21\r")  # 20 becomes 21
t.wants_screen("42")

# A bracketed paste waits for Enter.
t.send("\x1b[200~p = 1\nq = 2\x1b[201~")
t.wants_screen("   .. q = 2")
t.send("\rp + q\r")
t.wants_screen("3")
assert t.screen.text().count("xrun> p = 1") == 1, t.screen.text()

# Completion and wide characters.
t.send("name = '世界'\r")
t.send("#nam\t\r")
t.wants_screen("6")
t.send("xrun.ones(3):log_si\t")
t.until("log_sigmoid")
t.send("\x15")

# Ctrl-C stops a busy loop and the session continues; at the prompt it discards the input.
t.until("xrun> ")
t.send("n = 1 print(600 * 70) while true do n = n + 1 end\r")
t.until("42000")  # it runs
t.send("\x03")
t.until("interrupted at input")
t.send("n > 0\r")
t.wants_screen("true")
t.send("half an input\x03")
t.until("^C")
t.until("xrun> ")

# Output without a line end stays on the screen.
t.send("do io.write('no line end') end\r")
t.wants_screen("no line end%")
t.until("xrun> ")

# An error is shown with the typed input.
t.send("xrun.ones(2):matml(1)\r")
t.until("did you mean `matmul`?")

# A narrower window redraws the input; nothing is left over.
t.send("abcdefghijklmnopqrstuvwxyz0123456789")
t.until("9")
t.resize(20, 24)
t.kill(signal.SIGWINCH)
t.wants_screen("xrun> abcdefghijklmn", 10)
t.send("\x15'narrow'\r")
t.wants_screen('"narrow"')
t.resize(80, 24)

# The next session has the history of this one, including search.
t.send("'kept for later'\r")
t.wants_screen('"kept for later"')
t.send("\x04")
assert t.wait() == 0
t = Terminal([xrun, "repl"])
t.until("xrun> ")
t.send("\x1b[A")
t.until("'kept for later'")
t.send("\x03\x12f(a)")
t.until("return a * 2")
t.send("\x07")
t.send(":quit\r")
assert t.wait() == 0

# Ctrl-Z suspends the process and restores the terminal's mode; it resumes where it was.
t = Terminal(["bash", "--norc", "--noediting", "-i"], env={"PS1": "shell$ "})
t.until("shell$ ")
t.send(xrun + " repl\r")
t.until("xrun> ")
t.send("40 + ")
t.until("40 + ")
t.send("\x1a")
t.until("Stopped")
t.until("shell$ ")
t.send("echo typed and echoed\r")
t.until("echo typed and echoed\r\ntyped and echoed")
t.send("fg\r")
t.until("xrun> 40 + ")
t.send("2\r")
t.wants_screen("42")
t.send("\x04")
t.until("shell$ ")
t.send("exit\r")
t.wait()

# SIGTERM ends it and restores the terminal.
t = Terminal([xrun, "repl"])
t.until("xrun> ")
t.kill(signal.SIGTERM)
status = t.wait()
assert status == 143, status
assert t.seen.rfind(b"\x1b[?2004l") > t.seen.rfind(b"\x1b[?2004h"), t.seen

# A terminal that cannot move its cursor gets plain lines.
t = Terminal([xrun, "repl"], env={"TERM": "dumb"})
t.until("xrun> ")
t.send("for i = 1, 2 do\n")
t.until("   .. ")
t.send("print(i) end\n")
t.until("1\r\n2\r\n")
t.until("xrun> ")
t.send("print(600 * 71) while true do end\n")
t.until("42600")
t.send("\x03")
t.until("interrupted at input")
t.send("\x04")
assert t.wait() == 0
assert b"\x1b" not in t.seen, t.seen
PYTHON
python3 drive.py "$xrun"
