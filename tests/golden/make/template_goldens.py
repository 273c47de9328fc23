"""Writes the goldens of chat templates with transformers' own environment as the oracle.

    python template_goldens.py snippets
    python template_goldens.py texts FOLDER...       folders of published .jinja files
    python template_goldens.py masks [DATA [MODELS]]
DATA holds tokenizers/, preferences/ and chat/; MODELS is the folder of `xrun models get`.

jinja_snippets.json     small templates and their texts (null: Jinja fails)
template_texts.json     conversations, and hashes of their renderings under published templates
                        and the built-in ones, without anyone's template text. Prints the lines of
                        template_families.cpp.
                        FOLDERs were chat_templates/ of trl 1.16 and the texts of the same models in
                        the tests of huggingface/huggingface.js and in axolotl-ai-cloud/axolotl.
template_masks.json     ids and assistant masks of every shared row under our marked templates and
                        under SmolLM2's own (its mask is all zero), one hash per 20 rows
Made with transformers 5.23.0, jinja2 3.1.6, tokenizers 0.23.3, xxhash (Python).
"""
import datetime
import json
import pathlib
import re
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
BLOCK = 20  # rows per hash


class PinnedDate(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return DATE


def render_with_turns(source, messages, variables):
    """Returns the text and the generation blocks in code points, or two Nones if rendering fails."""
    messages = [{key: value for key, value in message.items() if value is not None}
                for message in messages]
    try:
        texts, turns = chat_template_utils.render_jinja_template(
            [messages], chat_template=source, return_assistant_tokens_mask=True, **variables)
        return texts[0], turns[0]
    except Exception:  # any failure counts
        return None, None


def render(source, messages, variables):
    return render_with_turns(source, messages, variables)[0]


def write(name, value):
    path = GOLDEN / name
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(path, path.stat().st_size)


def write_snippets():
    cases = []
    for source in snippets():
        text = render(source, [{"role": "user", "content": "x"}], VARIABLES)
        if text is None or " at 0x" not in text:  # an address differs in every run
            cases.append([source, text])
    write("jinja_snippets.json", {"variables": VARIABLES, "cases": cases})


def fingerprint(source):
    """As core/text/chat/template_families.h."""
    return xxhash.xxh3_128_hexdigest(re.sub(r"\r\n?", "\n", source).removesuffix("\n").encode())


def hashes(source, rows):
    """Returns eight digits for each conversation's text, dashes if it does not render, and a hash of all
    generation blocks that are not empty, or None if there are none."""
    texts, turns = "", []
    for row in rows:
        text, blocks = render_with_turns(source, row["messages"], {**TOKENS, **row["kwargs"]})
        texts += "-" * 8 if text is None else xxhash.xxh3_64_hexdigest(text.encode())[:8]
        turns.append([list(block) for block in blocks or [] if block[0] < block[1]])
    marked = re.search(r"\{%-?\s*generation", source) is not None
    packed = json.dumps(turns, separators=(",", ":")).encode()
    return {"fingerprint": fingerprint(source), "texts": texts,
            "turns": xxhash.xxh3_64_hexdigest(packed) if marked else None}


def write_texts(folders):
    rows = [{"name": name, "messages": messages, "kwargs": kwargs}
            for name, messages, kwargs in conversations()]
    ours = {path.stem: hashes(path.read_text(), rows)
            for path in sorted((ROOT / "core/text/chat/templates").glob("*.jinja"))}
    family = {}
    for name, made in ours.items():
        assert family.setdefault(made["texts"], name) == name, (name, family[made["texts"]])
    stock = {}
    for folder in folders:
        for path in sorted(pathlib.Path(folder).glob("*.jinja")):
            made = hashes(path.read_text(), rows)
            made["family"] = family.get(made["texts"])
            stock[path.stem if path.stem not in stock else "%s/%s" % (folder.name, path.stem)] = made
            if made["turns"] is None and made["family"]:
                print('    {"%s", "%s"},' % (made["fingerprint"], made["family"]))
    write("template_texts.json", {"tokens": TOKENS, "date": DATE.strftime("%Y-%m-%d"),
                                  "conversations": rows, "ours": ours, "stock": stock})


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
    """Returns ids as int32 and the mask as bytes, or "null" if the row does not render."""
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
                ROOT / f"core/text/chat/templates/{template}.jinja").read_text()
            parts = [row_bytes(tokenizer, source, row) for row in rows]
            out[f"{name}/{template}"] = [
                xxhash.xxh3_64_hexdigest(b"".join(parts[i:i + BLOCK]))
                for i in range(0, len(parts), BLOCK)]
            print(name, template, sum(part == b"null" for part in parts), "rows do not render")
    write("template_masks.json", out)


def main():
    chat_template_utils.datetime = PinnedDate
    chat_template_utils.logger.setLevel("ERROR")
    what, rest = sys.argv[1], [pathlib.Path(path) for path in sys.argv[2:]]
    if what == "snippets":
        write_snippets()
    elif what == "texts":
        write_texts(rest)
    else:
        write_masks(rest[0] if rest else ROOT.parent / "shared/data",
                    rest[1] if len(rest) > 1 else pathlib.Path.home() / ".cache/xrun/models")


if __name__ == "__main__":
    main()
