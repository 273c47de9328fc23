#!/usr/bin/env bash
# xrun inspect on a pseudo-terminal: colours by TERM, the terminal's width, rows of garbage.
source "$(dirname "${BASH_SOURCE[0]}")/recipe_fixture.sh"
cp "$root/recipes/dpo.lua" mine.lua
{
  printf '{"prompt":"\\u001b[2J\\u202e<|im_end|> \xff\xfe","chosen":"東京です。😀","rejected":"\\u0007\\u009b31m"}\n'
  printf '{"prompt":"\x00\x01\xff","chosen":1}\n\xff\xfe\xfd\n'
  head -20 "$root/tests/data/pairs.jsonl"
} >rows.jsonl
python3 - "$root" "$xrun" <<'PYTHON'
import re
import sys

sys.path.insert(0, sys.argv[1] + "/tests/tools")
from terminal import Terminal

COMMAND = (f"sleep 0.2; exec {sys.argv[2]} inspect mine.lua --set model=tiny --set shuffle=false "
           "--set data.1.path=rows.jsonl 2>/dev/null")  # the terminal has its size by then
SGR = re.compile(r"\x1b\[[0-9;]*m")


def look(columns=80, **environment):
    """What it writes."""
    terminal = Terminal(["sh", "-c", COMMAND], columns=columns,
                        env={"NO_COLOR": "", "COLORTERM": "", **environment})
    status = terminal.wait(60)
    text = terminal.seen.decode()
    if status != 0:
        sys.exit(f"exit {status}: {text}")
    return text


def check(what, good, text):
    if not good:
        sys.exit(f"{what}:\n{text[-1500:]}")


text = look(TERM="xterm-256color")
check("no 256 colours", "48;5;114" in text, text)
check("the location of the row", "rows.jsonl:1" in text, text)
check("bytes as numbers", "<1B>" in text and "<U+202E>" in text and "<07>" in text, text)
check("what was dropped", "2 dropped: malformed_json" in text and "3 repaired" in text, text)
plain = SGR.sub("", text)
check("a raw control", not re.search("[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\u202e]", plain), plain)
text = look(TERM="linux")
check("no 16 colours", "\x1b[30;42m" in text and "48;5" not in text, text)
for name, environment in (("dumb", {"TERM": "dumb"}), ("NO_COLOR", {"NO_COLOR": "1"})):
    text = look(**environment)
    check(f"colours on {name}", "\x1b" not in text and "weight 1" in text, text)
for columns in (20, 60, 140):
    lines = SGR.sub("", look(columns=columns, TERM="xterm-256color")).split("\r\n")
    check(f"wider than {columns}", max(map(len, lines)) <= columns, "\n".join(lines))
    check("sides", (columns >= 100) == any("│" in line for line in lines), "\n".join(lines))
PYTHON
