#!/usr/bin/env python3
"""Times jinja2 with transformers' settings over conversations: the peer of tools/bench/template_bench.

    python3 tools/oracle/template_speed.py ROWS.jsonl [FAMILY...]

Prints the median and the range of microseconds per conversation for xrun's marked templates
(core/text/chat/templates; by default chatml): rendering a compiled template directly, and through
transformers' render_jinja_template. Made with transformers 5.23.0 and jinja2 3.1.6.
"""
import json
import pathlib
import statistics
import sys
import time

from transformers.utils import chat_template_utils

TEMPLATES = pathlib.Path(__file__).resolve().parent.parent.parent / "core/text/chat/templates"
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
RUNS = 9


def spread(run, count):
    took = []
    for _ in range(RUNS + 1):
        begin = time.perf_counter()
        run()
        took.append((time.perf_counter() - begin) / count * 1e6)
    took = took[1:]
    return "%.2f (%.2f to %.2f) us, %d runs" % (statistics.median(took), min(took), max(took), RUNS)


def main():
    chat_template_utils.logger.setLevel("ERROR")
    with open(sys.argv[1], encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    rows = [(row.get("messages") or row["chosen"], row.get("tools")) for row in rows]
    for family in sys.argv[2:] or ["chatml"]:
        source = (TEMPLATES / (family + ".jinja")).read_text()
        compiled = chat_template_utils._compile_jinja_template(source)

        def alone(messages, tools):
            return compiled.render(messages=messages, tools=tools, documents=None,
                                   add_generation_prompt=False, **TOKENS)

        def whole(messages, tools):
            return chat_template_utils.render_jinja_template(
                [messages], tools=tools, chat_template=source, **TOKENS)[0][0]

        good = []
        for row in rows:
            try:
                if alone(*row) == whole(*row):
                    good.append(row)
            except Exception:  # a conversation that does not render is not timed
                continue
        print("%s: %d of %d rows: jinja2 %s; render_jinja_template %s a conversation" % (
            family, len(good), len(rows), spread(lambda: [alone(*row) for row in good], len(good)),
            spread(lambda: [whole(*row) for row in good], len(good))))


if __name__ == "__main__":
    main()
