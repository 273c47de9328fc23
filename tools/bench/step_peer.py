"""What dpo_peer.py and sft_peer.py share: the template, the model, and timed runs of xrun."""
import json
import os
import pathlib
import resource
import statistics
import subprocess

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
    """tokenizer.json as it stands: transformers 5 builds Llama's anew and encodes otherwise."""
    import transformers
    return transformers.PreTrainedTokenizerFast(
        tokenizer_file=f"{folder}/tokenizer.json", bos_token="<s>", eos_token="</s>",
        pad_token="</s>", chat_template=TEMPLATE)


def rss_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run_json(command):
    """The object that a command prints as its last line."""
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def xrun_steps(arguments, folder, settings):
    """Runs a recipe: seconds, loss and tokens of each step, and the peak RSS of the process."""
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


def spread(values, digits):
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"
