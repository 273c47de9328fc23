#!/usr/bin/env python3
"""Times caching chat rows against `datasets.map` with apply_chat_template and save_to_disk.

    cache_peer.py BUILD/bin/cache_bench TOKENIZER_DIR ROWS.jsonl [PAIRS]

First it compares ids and masks of the first 200 rows. Runs alternate, each on one thread. Prints MB of
the file per CPU second (user and system), median (lowest to highest). xrun's time includes reading the
file; the peer's begins after `load_dataset`. Packages: pip install datasets transformers jinja2.
"""

import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile

import datasets
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "oracle"))
from read_cache import rows_of  # noqa: E402


def cpu_seconds():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def run_ours(bench, tokenizer_dir, path, keep):
    """Returns MB per CPU second with one worker; `keep` receives the cache."""
    text = subprocess.run([bench, "build", tokenizer_dir, "chat", path, "1", keep],
                          check=True, capture_output=True, text=True).stdout
    return float(re.search(r"cache, 1 worker: ([0-9.]+) MB a CPU second", text)[1])


def check_rows(cache, rows, encode):
    """Compares ids and masks of the first 200 rows of xrun's cache with the peer's."""
    for index, ours in zip(range(200), rows_of(cache)):
        theirs = encode(rows[index:index + 1])
        assert ours["tokens_ids"] == theirs["input_ids"][0], f"row {index}: other ids"
        assert ours["tokens_mask"] == theirs["assistant_masks"][0], f"row {index}: other mask"


def spread(values, unit):
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f}) {unit}"


def main():
    bench, tokenizer_dir, path = sys.argv[1:4]
    pairs = int(sys.argv[4]) if len(sys.argv) > 4 else 3
    datasets.disable_progress_bars()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tokenizer_dir)
    tokenizer.chat_template = (ROOT / "core/text/chat/templates/chatml.jinja").read_text()
    mb = os.path.getsize(path) / 1e6

    def encode(batch):
        return tokenizer.apply_chat_template(batch["messages"], tokenize=True, return_dict=True,
                                             return_assistant_tokens_mask=True)

    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        rows = datasets.load_dataset("json", data_files=path, split="train",
                                     cache_dir=str(folder / "loaded"))

        def run_theirs(number):
            cpu = cpu_seconds()
            rows.map(encode, batched=True, remove_columns=rows.column_names,
                     load_from_cache_file=False).save_to_disk(str(folder / f"saved{number}"))
            return mb / (cpu_seconds() - cpu)

        (folder / "ours").mkdir()
        run_ours(bench, tokenizer_dir, path, str(folder / "ours"))
        check_rows(next((folder / "ours").iterdir()), rows, encode)
        print(f"{len(rows)} rows, {mb:.1f} MB; ids and masks of the first 200 rows are the same")
        figures = []
        for number in range(pairs):
            (folder / f"kept{number}").mkdir()
            figures.append((run_ours(bench, tokenizer_dir, path, str(folder / f"kept{number}")),
                            run_theirs(number)))

    print("xrun:    ", spread([ours for ours, _ in figures], "MB a CPU second"))
    print("datasets:", spread([theirs for _, theirs in figures], "MB a CPU second"))
    print("ratio:   ", spread([ours / theirs for ours, theirs in figures], f"x, {pairs} pairs"))


if __name__ == "__main__":
    main()
