#!/usr/bin/env bash
# xrun sample --chat on a terminal: history, commands, line editing, Ctrl-C in an answer and at the
# prompt.
set -euo pipefail
xrun=${XRUN_BUILD:?}/bin/xrun
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$xrun" init-model tiny --tokenizer "${XRUN_ROOT:?}/tests/data/tiny_tokenizer" --layers 1 \
  --hidden 32 --heads 2 --ffn 32 --max-length 1000000 >/dev/null

# The template fails at the message "tell" and names the roles so far, which makes the history visible.
cat >turns.jinja <<'JINJA'
{%- if messages|map(attribute='content')|list|last == 'tell' -%}
{{ raise_exception('asked: ' ~ messages|map(attribute='role')|join(',') ~ ', first ' ~ messages[0].content) }}
{%- endif -%}
{%- for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif -%}
JINJA

cat >drive.py <<'PYTHON'
import os, pty, select, sys, time

pid, terminal = pty.fork()
if pid == 0:
    os.environ["NO_COLOR"] = "1"
    os.execv(sys.argv[1], sys.argv[1:])
seen = b""


def until(text, timeout=60):
    """Reads until the text has come, and forgets it with all before it; returns that."""
    global seen
    end = time.time() + timeout
    while text.encode() not in seen:
        ready, _, _ = select.select([terminal], [], [], max(0, end - time.time()))
        if not ready:
            sys.exit(f"no {text!r} within {timeout} s, got {seen.decode(errors='replace')!r}")
        try:
            piece = os.read(terminal, 4096)
        except OSError:
            piece = b""
        if not piece:
            sys.exit(f"ended before {text!r}: {seen.decode(errors='replace')!r}")
        seen += piece
    before, seen = seen.split(text.encode(), 1)
    return before.decode(errors="replace")


def send(text):
    os.write(terminal, text.encode())


def ended():
    """Fails unless the program ends with status 0; shows its last output otherwise."""
    global seen
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code != 0:
        try:
            while piece := os.read(terminal, 4096):
                seen += piece
        except OSError:
            pass  # all was read
        sys.exit(f"status {code}, last output {seen.decode(errors='replace')!r}")


until("/help lists")
until("> ")
send("one\n")
until("one\r\n")
answer = until("\r\n")
assert answer, "an empty answer"
until("> ")
send("two\n")
until("ended after 8 tokens")
until("> ")
send("tell\n")
until("asked: user,assistant,user,assistant,user, first one")
until("> ")
send("/system be brief\n")
until("this system prompt")
until("> ")
send("three\n")
until("ended after 8 tokens")
until("> ")
send("tell\n")
until("asked: system,user,assistant,user, first be brief")
until("> ")
send("/reset\n")
until("a new conversation")
until("> ")
send("tell\n")
until("asked: system,user, first be brief")
until("> ")
send("/rest\n")
until("unknown command /rest; did you mean `/reset`?")
until("> ")
send("half a line\x03")  # Ctrl-C at the prompt
until("> ")
send("//tell\n")  # a message that begins with a slash
until("ended after 8 tokens")
until("> ")
send("\x04")  # Ctrl-D
ended()
PYTHON
TERM=dumb python3 drive.py "$xrun" sample --chat --model tiny --template turns.jinja --temperature 1 \
  --max-new-tokens 8 --ignore-eos

# On a terminal that moves its cursor, messages are edited and earlier ones come back.
sed -i '/^until("\/help/,$d' drive.py
cp drive.py head.py
cat >>drive.py <<'PYTHON'
until("/help lists")
until("> ")
send("tel\x1b[Dl\r")  # Left, then the missing letter
until("asked: user, first tell")
until("> ")
send("\x1b[A\r")  # Up
until("asked: user, first tell")
until("> ")
send("\x1b[200~one\ntwo\x1b[201~\r")  # a paste of two lines is one message
until("ended after 8 tokens")
until("> ")
send("half a line\x03")
until("^C")
until("> ")
send("tell\r")
until("asked: user,assistant,user, first one\r\ntwo")
until("> ")
send("exit\r")
ended()
PYTHON
TERM=xterm python3 drive.py "$xrun" sample --chat --model tiny --template turns.jinja \
  --temperature 1 --max-new-tokens 8 --ignore-eos

# Ctrl-C ends a long answer; the text printed so far stays. A signal in the middle of a write does not
# fail the output (it once made two of ten runs end with status 1).
cp head.py drive.py
cat >>drive.py <<'PYTHON'
until("> ")
send("on and on\n")
until("on and on\r\n")
said = ""
while len(said) < 3000:
    said += until("\ufffd")
# A tiny model can print any byte: control characters are escaped and never reach the terminal.
assert not any(ord(c) < 32 and c not in "\r\n\t" or 127 <= ord(c) < 160 for c in said), ascii(said)
assert "<0" in said or "<1" in said, said
send("\x03")
until("(ended by Ctrl-C)")
until("> ")
send("tell\n")
until("asked: user,assistant,user, first on and on")
for i in range(5):
    until("> ")
    send("on and on\n")
    for _ in range(1 + 3 * i):
        until("\ufffd")
    send("\x03")
    until("(ended by Ctrl-C)")
until("> ")
send("/quit\n")
ended()
PYTHON
TERM=dumb python3 drive.py "$xrun" sample --chat --model tiny --template turns.jinja --temperature 1 \
  --max-new-tokens 900000 --ignore-eos
