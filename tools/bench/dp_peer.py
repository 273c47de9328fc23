#!/usr/bin/env python3
"""Times NeMo-RL's aligner on the sequences of dp_bench, after checking that all pairs are equal.

    python3 tools/bench/dp_peer.py BUILD/bin/dp_bench CHECKOUT STUDENT_DIR TEACHER_DIR PROSE CODE
                                   [--runs N] [--only NAME...]

CHECKOUT is a copy of NVIDIA-NeMo/RL; its token_aligner.py runs unchanged. The sequences are 2,048 tokens a side
of prose, code (8 each), one phrase repeated and arithmetic; the last two take NeMo-RL most of a minute each, so
they run once. dp_bench runs before and after the peer, --runs times each; both sides use one thread. Prints
milliseconds of CPU time a sequence, and the ratio of the peer's time to the median of dp_bench's two medians.
Packages: numpy, torch.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["OMP_NUM_THREADS"] = "1"
SLOW = ("repetitive", "numerals")


def load_aligner(checkout):
    path = pathlib.Path(checkout) / "nemo_rl/algorithms/x_token/token_aligner.py"
    spec = importlib.util.spec_from_file_location("token_aligner", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["token_aligner"] = module
    spec.loader.exec_module(module)
    return module.TokenAligner(None, None, "")


def our_rows(arguments, path):
    subprocess.run([arguments.bench, arguments.student, arguments.teacher, arguments.prose, arguments.code,
                    str(arguments.runs), path], check=True, stdout=subprocess.DEVNULL)
    return [json.loads(line) for line in open(path, encoding="utf-8")]


def pairs_of(aligned):
    return [[p.s_start, p.s_end, p.t_start, p.t_end, p.is_correct] for p in aligned]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("bench", "checkout", "student", "teacher", "prose", "code"):
        parser.add_argument(name)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=[])
    arguments = parser.parse_args()
    aligner = load_aligner(arguments.checkout)
    print(f"load {os.getloadavg()[0]:.2f}")
    with tempfile.TemporaryDirectory() as work:
        path = f"{work}/rows.jsonl"
        rows = [row for row in our_rows(arguments, path) if not arguments.only or row["name"] in arguments.only]
        theirs = {row["name"]: [] for row in rows}  # milliseconds of each sequence
        for row in rows:
            times = []
            for _ in range(1 if row["name"] in SLOW else arguments.runs):
                begin = time.process_time()
                aligned = aligner._align_single(row["student"], row["teacher"])
                times.append(1000 * (time.process_time() - begin))
                assert pairs_of(aligned) == row["pairs"], f"{row['name']}: pairs differ"
            theirs[row["name"]].append(statistics.median(times))
        before = {row["name"]: row["ms"] for row in rows}
        after = {row["name"]: row["ms"] for row in our_rows(arguments, path)}
    for name, times in theirs.items():
        peer, ours = statistics.mean(times), statistics.median([before[name], after[name]])
        print(f"{name}: {len(times)} sequences, equal pairs; DpAligner {before[name]:.3f} and {after[name]:.3f} ms, "
              f"NeMo-RL {peer:.1f} ms ({min(times):.1f} to {max(times):.1f}), ratio {peer / ours:.0f}")


if __name__ == "__main__":
    main()
