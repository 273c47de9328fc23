"""What the peer benchmarks share: command line, template, model, alternating runs."""
import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time

WARM_UP = 2  # uncounted first steps of a run
ROOT = pathlib.Path(__file__).resolve().parents[2]
VOCAB = {"tiny": 32000, "mid": 50000}
TEMPLATE = """{{ bos_token }}{% for message in messages %}<|im_start|>{{ message['role'] }}
{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] }}<|im_end|>
{% endgeneration %}{% else %}{{ message['content'] }}<|im_end|>
{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def init_model(arguments, preset, work):
    folder = f"{work}/model"
    subprocess.run([arguments.xrun, "init-model", folder, "--preset", preset, "--vocab",
                    str(VOCAB[preset]), "--max-length", "4096", "--tokenizer", arguments.tokenizer],
                   check=True, stdout=subprocess.DEVNULL)
    return folder


def open_tokenizer(folder):
    """Loads tokenizer.json unchanged: transformers 5 rebuilds Llama's and encodes differently."""
    import transformers
    return transformers.PreTrainedTokenizerFast(
        tokenizer_file=f"{folder}/tokenizer.json", bos_token="<s>", eos_token="</s>",
        pad_token="</s>", chat_template=TEMPLATE)


def rss_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run_json(command):
    """Returns the object that a command prints as its last line."""
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def xrun_steps(arguments, folder, settings):
    """Runs a recipe; returns seconds, loss and tokens of each step, and the peak RSS of the process."""
    recipe, *values = settings
    command = [arguments.xrun, recipe, "--run", folder, "--threads", str(arguments.threads)]
    for value in values:
        command += ["--set", value]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, said[-4000:]
    rows = [json.loads(line) for line in open(f"{folder}/metrics.jsonl")]
    rows = [row for row in rows if "train/loss" in row]
    return {"seconds": [row["perf/step_s"] for row in rows],
            "losses": [row["train/loss"] for row in rows], "rss_mb": usage.ru_maxrss / 1024,
            "tokens": [row["perf/tokens_per_s"] * row["perf/step_s"] for row in rows]}


def step_clock(stamps):
    """A callback of transformers that records the start of the first step and the end of each step."""
    import transformers

    class Clock(transformers.TrainerCallback):
        def on_step_begin(self, *_, **__):
            if not stamps:
                stamps.append(time.perf_counter())

        def on_step_end(self, *_, **__):
            stamps.append(time.perf_counter())
    return Clock()


def alternate(pairs, runs_of):
    """Yields {name: result} of each pair. runs_of(pair) returns {name: function}, and every second pair
    runs in reverse order."""
    for pair in range(pairs):
        runs = runs_of(pair)
        yield {name: runs[name]() for name in sorted(runs, reverse=pair % 2 == 0)}


def loss_difference(mine, theirs):
    """Returns the largest difference of a step's losses; asserts as many steps, which agree within 1e-3."""
    worst = max(abs(a - b) for a, b in zip(mine["losses"], theirs["losses"], strict=True))
    assert worst < 1e-3, f"losses differ by {worst}: {mine['losses']} {theirs['losses']}"
    return worst


def spread(values, digits):
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def describe(pairs, rate, unit, digits, peer="TRL"):
    """Returns a line with rates of pairs of runs, their ratios, and the peak of each process."""
    rates = {name: [rate(pair[name]) for pair in pairs] for name in ("xrun", "TRL")}
    memory = {name: statistics.median(pair[name]["rss_mb"] for pair in pairs) for name in rates}
    ratios = [a / b for a, b in zip(rates["xrun"], rates["TRL"])]
    return (f"xrun {spread(rates['xrun'], digits)} {unit}, {peer} {spread(rates['TRL'], digits)}, "
            f"ratio {spread(ratios, 2)}; peak RSS {memory['xrun']:.0f} against "
            f"{memory['TRL']:.0f} MB; {len(pairs)} pairs of runs")


def main(doc, trl_run, compare, **numbers):
    """Compares every requested preset; with --trl, runs as TRL's process. `numbers` are further options
    and their defaults."""
    if sys.argv[1:2] == ["--trl"]:
        return trl_run(json.loads(sys.argv[2]))
    parser = argparse.ArgumentParser(description=doc,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("xrun", "rows", "tokenizer"):
        parser.add_argument(name)
    parser.add_argument("presets", nargs="*", default=[])
    for name, default in {"steps": 8, "pairs": 5, "threads": os.cpu_count(), **numbers}.items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=default)
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    print(f"{arguments.threads} threads, load {os.getloadavg()[0]:.2f}")
    for preset in arguments.presets or ["tiny", "mid"]:
        compare(arguments, preset)
