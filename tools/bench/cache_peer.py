#!/usr/bin/env python3
"""Times `datasets.map` with apply_chat_template and save_to_disk on the rows of cache_bench.

    cache_peer.py TOKENIZER_DIR ROWS.jsonl [CACHE_FOLDER] [MAX_ROWS]

Prints MB of input a CPU second (user and system, children too), comparable with cache_bench's. With
CACHE_FOLDER, the cache that `cache_bench build ... 1 FOLDER` kept, ids and masks are compared first.
"""

import pathlib
import resource
import sys
import tempfile
import time

import datasets
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "oracle"))
from read_cache import rows_of  # noqa: E402


def cpu_seconds():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main():
    tokenizer = transformers.AutoTokenizer.from_pretrained(sys.argv[1])
    tokenizer.chat_template = (ROOT / "core/text/templates/chatml.jinja").read_text()
    cache = sys.argv[3] if len(sys.argv) > 3 else ""
    rows = datasets.load_dataset("json", data_files=sys.argv[2], split="train",
                                 cache_dir=tempfile.mkdtemp())
    if len(sys.argv) > 4:
        rows = rows.select(range(min(int(sys.argv[4]), len(rows))))

    def encode(batch):
        return tokenizer.apply_chat_template(batch["messages"], tokenize=True, return_dict=True,
                                             return_assistant_tokens_mask=True)

    if cache:
        for index, ours in zip(range(200), rows_of(pathlib.Path(cache))):
            theirs = encode(rows[index:index + 1])
            assert ours["tokens_ids"] == theirs["input_ids"][0], f"row {index}: other ids"
            assert ours["tokens_mask"] == theirs["assistant_masks"][0], f"row {index}: other mask"
        print("ids and masks of the first 200 rows are the same")
    mb = sum(len(repr(row).encode()) for row in rows.select(range(min(500, len(rows)))))
    mb = mb / min(500, len(rows)) * len(rows) / 1e6
    cpu, wall = cpu_seconds(), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        rows.map(encode, batched=True, remove_columns=rows.column_names,
                 load_from_cache_file=False).save_to_disk(folder)
    cpu, wall = cpu_seconds() - cpu, time.perf_counter() - wall
    print(f"{len(rows)} rows, {mb:.1f} MB: {len(rows) / wall:.0f} rows/s, "
          f"{mb / cpu:.2f} MB a CPU second")


if __name__ == "__main__":
    main()
