#!/usr/bin/env bash
# xrun sample --chat on a terminal: history, commands, line editing, Ctrl-C in an answer and at the
# prompt.
set -euo pipefail
xrun=${XRUN_BUILD:?}/bin/xrun
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONPATH=${XRUN_ROOT:?}/tests/tools
cd "$work"
"$xrun" init-model tiny --tokenizer "$XRUN_ROOT/tests/data/tiny_tokenizer" --layers 1 \
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

cat >head.py <<'PYTHON'
import os, sys
from terminal import Terminal

t = Terminal(sys.argv[1:], env={"TERM": os.environ["TERM"]})
until, send = t.until, t.send


def ended():
    status = t.wait()
    assert status == 0, f"status {status}, last output {t.seen.decode(errors='replace')!r}"


PYTHON
chat() { # TERMINAL MAX_TOKENS: a conversation that standard input drives
  cat head.py - >drive.py
  TERM=$1 python3 drive.py "$xrun" sample --chat --model tiny --template turns.jinja --temperature 1 \
    --max-new-tokens "$2" --ignore-eos
}

chat dumb 8 <<'PYTHON'
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

# On a terminal that moves its cursor, messages are edited and earlier ones come back.
chat xterm 8 <<'PYTHON'
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

# Ctrl-C ends a long answer; the text printed so far stays. A signal in the middle of a write does not
# fail the output (it once made two of ten runs end with status 1).
chat dumb 900000 <<'PYTHON'
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
