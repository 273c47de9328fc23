#!/usr/bin/env python3
"""Compares `xrun render --json` with transformers, row by row.

    python3 tools/oracle/template_oracle.py TOKENIZER_DIR [ROWS.jsonl]
    python3 tools/oracle/template_oracle.py TEMPLATE.jinja [ROWS.jsonl]
    python3 tools/oracle/template_oracle.py FOLDER_OF_TEMPLATES [ROWS.jsonl]

Given a tokenizer's folder, it compares text, ids and mask under the tokenizer's own template; given a
template, only the text. A row is an object with "messages"; every other key is an argument of the
template. The default rows are the conversations of the goldens. Prints "identical" or the first
difference of each template; exit status 1 if there is a difference. A row that fails must fail on both
sides. In xrun a special token spelled in a message stays plain text on purpose, so ids are compared only
for rows that spell none.

Options: --xrun PATH (build/bin/xrun), --date 2024-07-26, --tokenizer DIR for bare templates.
Made with transformers 5.23.0.
"""
import argparse
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/golden/make"))

from template_conversations import conversations  # noqa: E402
from transformers import AutoTokenizer  # noqa: E402
from transformers.utils import chat_template_utils  # noqa: E402


def read_rows(path):
    if path is None:
        return [{"messages": messages, **kwargs} for _, messages, kwargs in conversations()]
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def ours(arguments, tokenizer, template, rows):
    """Returns xrun's output for each row."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")
        file.flush()
        command = [arguments.xrun, "render", "--json", "--tokenizer", str(tokenizer), "--date",
                   arguments.date] + (["--template", str(template)] if template else []) + [file.name]
        done = subprocess.run(command, capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stdout.split("\n") if line]
    if len(lines) != len(rows):
        sys.exit("xrun render gave %d lines for %d rows:\n%s" % (len(lines), len(rows), done.stderr))
    return lines


def theirs(row, source, tokens, tokenizer):
    """Returns text, blocks in code points and, with a tokenizer, ids and mask; None on failure."""
    messages = [{key: value for key, value in message.items() if value is not None}
                for message in row["messages"]]
    variables = {**tokens, **{key: value for key, value in row.items() if key != "messages"}}
    try:
        texts, blocks = chat_template_utils.render_jinja_template(
            [messages], chat_template=source, return_assistant_tokens_mask=True, **variables)
        if tokenizer is None:
            return texts[0], blocks[0], None, None
        kwargs = {key: value for key, value in row.items() if key != "messages"}
        out = tokenizer.apply_chat_template(row["messages"], chat_template=source, tokenize=True,
                                            return_dict=True, return_assistant_tokens_mask=True, **kwargs)
        return texts[0], blocks[0], out["input_ids"], out["assistant_masks"]
    except Exception:  # any failure counts
        return None


def spells_special(row, tokenizer):
    data = json.dumps(row, ensure_ascii=False)
    return any(token in data for token in tokenizer.added_tokens_encoder)


def difference(name, got, wanted):
    at = next((i for i, (a, b) in enumerate(zip(got, wanted)) if a != b), min(len(got), len(wanted)))
    return "%s differs at %d: xrun %r, transformers %r" % (
        name, at, got[max(0, at - 20):at + 40], wanted[max(0, at - 20):at + 40])


def compare(row, got, wanted, tokenizer, marked):
    """Returns the first difference, or None."""
    if wanted is None or "error" in got:
        if wanted is None and "error" in got:
            return None
        return "xrun %s, transformers %s" % (
            "fails: " + got["error"] if "error" in got else "renders", "fails" if wanted is None else "renders")
    text, _, ids, mask = wanted
    if got["text"] != text:
        return difference("text", got["text"], text)
    if tokenizer is None or spells_special(row, tokenizer):
        return None
    if got["ids"] != ids:
        return difference("ids", got["ids"], ids)
    if marked and got["mask"] != mask:
        return difference("mask", got["mask"], mask)
    return None


def check(arguments, name, source, tokens, folder, template, tokenizer, rows):
    marked = "{% generation" in source or "{%- generation" in source
    for number, (row, got) in enumerate(zip(rows, ours(arguments, folder, template, rows)), 1):
        what = compare(row, got, theirs(row, source, tokens, tokenizer), tokenizer, marked)
        if what is not None:
            print("%s: row %d: %s" % (name, number, what))
            return 1
    print("%s: %d rows identical" % (name, len(rows)))
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", type=pathlib.Path)
    parser.add_argument("rows", nargs="?")
    parser.add_argument("--xrun", default=str(ROOT / "build/bin/xrun"))
    parser.add_argument("--date", default="2024-07-26")
    parser.add_argument("--tokenizer", type=pathlib.Path, default=ROOT / "tests/data/tiny_tokenizer")
    arguments = parser.parse_args()
    date = datetime.datetime.fromisoformat(arguments.date)
    chat_template_utils.datetime = type("Pinned", (datetime.datetime,),
                                        {"now": classmethod(lambda cls, tz=None: date)})
    chat_template_utils.logger.setLevel("ERROR")
    rows = read_rows(arguments.rows)
    if (arguments.what / "tokenizer.json").exists():
        tokenizer = AutoTokenizer.from_pretrained(arguments.what)
        return check(arguments, str(arguments.what), tokenizer.get_chat_template(),
                     tokenizer.special_tokens_map, arguments.what, None, tokenizer, rows)
    files = sorted(arguments.what.glob("*.jinja")) if arguments.what.is_dir() else [arguments.what]
    bare = AutoTokenizer.from_pretrained(arguments.tokenizer)
    return max(check(arguments, file.stem, file.read_text(), bare.special_tokens_map,
                     arguments.tokenizer, file, None, rows) for file in files)


if __name__ == "__main__":
    sys.exit(main())
