"""Writes the goldens of chat templates with transformers' own environment as the oracle.

    python template_goldens.py [DATA [MODELS]]
DATA holds tokenizers/, preferences/ and chat/; MODELS is the folder of `xrun models get`.

jinja_snippets.json     small templates and their texts (null: Jinja fails)
template_texts.json     conversations, and the hash of each under each stock template
template_masks.json     ids and assistant masks of every shared row under our marked templates and
                        under SmolLM2's own (its mask all zero), one hash for each 20 rows
Made with transformers 5.23.0, jinja2 3.1.6, tokenizers 0.23.3, xxhash (Python).
"""
import datetime
import json
import pathlib
import struct
import sys

import xxhash
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from transformers.utils import chat_template_utils

from jinja_snippets import VARIABLES, snippets
from template_conversations import conversations

GOLDEN = pathlib.Path(__file__).resolve().parent.parent
ROOT = GOLDEN.parent.parent
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
DATE = datetime.datetime(2024, 7, 26)
BLOCK = 20  # rows of one hash


class PinnedDate(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return DATE


def render(source, messages, variables):
    """The text, or None where rendering fails."""
    messages = [{key: value for key, value in message.items() if value is not None}
                for message in messages]
    try:
        return chat_template_utils.render_jinja_template(
            [messages], chat_template=source, **variables)[0][0]
    except Exception:  # whatever fails, fails
        return None


def write(name, value):
    path = GOLDEN / name
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(path, path.stat().st_size)


def write_snippets():
    cases = []
    for source in snippets():
        text = render(source, [{"role": "user", "content": "x"}], VARIABLES)
        if text is None or " at 0x" not in text:  # an address is never the same
            cases.append([source, text])
    write("jinja_snippets.json", {"variables": VARIABLES, "cases": cases})


def write_texts():
    rows = [{"name": name, "messages": messages, "kwargs": kwargs}
            for name, messages, kwargs in conversations()]
    templates = {}
    for path in sorted((ROOT / "tests/data/templates").glob("*.jinja")):
        hashes = []
        for row in rows:
            text = render(path.read_text(), row["messages"], {**TOKENS, **row["kwargs"]})
            hashes.append(None if text is None else xxhash.xxh3_128_hexdigest(text.encode()))
        templates[path.stem] = hashes
    full = [[name, index, render((ROOT / f"tests/data/templates/{name}.jinja").read_text(),
                                 rows[index]["messages"], {**TOKENS, **rows[index]["kwargs"]})]
            for name in templates for index, row in enumerate(rows)
            if row["name"] in ("system_turns", "tool_call_text", "reasoning")]
    write("template_texts.json", {"tokens": TOKENS, "date": DATE.strftime("%Y-%m-%d"),
                                  "conversations": rows, "templates": templates, "full": full})


def real_rows(data):
    def lines(path):
        return [json.loads(line) for line in open(path, encoding="utf-8")]

    for row in lines(data / "preferences/dpo_en.jsonl"):
        yield {"messages": row["chosen"]}
        yield {"messages": row["rejected"]}
    for name in ("toolcall_en", "alpaca_en"):
        for row in lines(data / f"chat/{name}.jsonl"):
            yield {key: row[key] for key in ("messages", "tools") if row.get(key) is not None}


def load_tokenizer(data, models, name):
    if name == "smollm2-135m-instruct":
        return AutoTokenizer.from_pretrained(models / name)
    folder = data / "tokenizers" / name
    if name == "qwen":
        return AutoTokenizer.from_pretrained(folder)
    named = {} if name == "gpt2" else {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), **named)


def row_bytes(tokenizer, source, row):
    """Ids as int32 and the mask as bytes; "null" where the row does not render."""
    try:
        out = tokenizer.apply_chat_template(
            row["messages"], tools=row.get("tools"), chat_template=source, tokenize=True,
            return_dict=True, return_assistant_tokens_mask=True)
    except Exception:
        return b"null"
    ids, mask = out["input_ids"], out["assistant_masks"]
    return struct.pack("<%di" % len(ids), *ids) + bytes(mask)


def write_masks(data, models):
    rows = list(real_rows(data))
    out = {}
    for name, templates in (("gpt2", ["chatml"]), ("qwen", ["chatml", "qwen2.5", "qwen3", "smollm2"]),
                            ("llama2", ["llama-2", "llama-3", "llama-3.1"]),
                            ("smollm2-135m-instruct", ["own", "smollm2"])):
        tokenizer = load_tokenizer(data, models, name)
        for template in templates:
            source = None if template == "own" else (
                ROOT / f"core/text/templates/{template}.jinja").read_text()
            parts = [row_bytes(tokenizer, source, row) for row in rows]
            out[f"{name}/{template}"] = [
                xxhash.xxh3_64_hexdigest(b"".join(parts[i:i + BLOCK]))
                for i in range(0, len(parts), BLOCK)]
            print(name, template, sum(part == b"null" for part in parts), "rows do not render")
    write("template_masks.json", out)


def main():
    chat_template_utils.datetime = PinnedDate
    data = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT.parent / "shared/data")
    write_snippets()
    write_texts()
    write_masks(data, pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else
                                   pathlib.Path.home() / ".cache/xrun/models"))


if __name__ == "__main__":
    main()
