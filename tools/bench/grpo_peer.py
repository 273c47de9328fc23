#!/usr/bin/env python3
"""Times GRPO steps (sample, score, train) of grpo_step.lua against TRL's GRPOTrainer.

    python3 tools/bench/grpo_peer.py XRUN ROWS TOKENIZER [PRESET...] [--steps N] [--pairs N]
                                     [--length N] [--tokens N] [--threads N]

PRESET is tiny or mid (both if none is given), with random weights in fp32. ROWS is a text file, whose
lines are cut to prompts of --length tokens. Each of the 4 prompts of a step gets 8 answers of up to
--tokens tokens at temperature 1 over the whole vocabulary, scored by their share of even ids. Both sides
train on DAPO's token mean without a reference, one update per step. Each run is a separate process and
begins with 2 uncounted steps; runs alternate, and each pair of runs reverses the order. TRL samples with
transformers.generate, without gradient checkpointing, with sdpa attention. Checked: the ratio of xrun's
first update is 1, the mean lengths of both sides' answers agree within 5 %, and their mean rewards within
0.05. Prints samples/s, the ratio of each pair of runs and peak RSS of the whole process, median (lowest to
highest). Packages: trl 1.16, transformers 5.23, torch.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from step_peer import (ROOT, TEMPLATE, WARM_UP, alternate, describe, init_model, main, open_tokenizer, rss_mb,
                       run_json, step_clock)

PROMPTS, SAMPLES, LR = 4, 8, 1e-5


def trl_run(options):
    """Trains with TRL in this process; prints seconds, lengths and rewards as one line."""
    import datasets
    import torch
    import transformers
    import trl
    torch.set_num_threads(options["threads"])
    tokenizer = open_tokenizer(options["model"])
    model = transformers.AutoModelForCausalLM.from_pretrained(
        options["model"], dtype=torch.float32, attn_implementation="sdpa")
    prompts = [json.loads(line)["prompt"] for line in open(options["rows"])]
    stamps, lengths, rewards = [], [], []

    def even(completion_ids, **_):
        scores = [sum(1 - token % 2 for token in ids) / len(ids) for ids in completion_ids]
        lengths.extend(map(len, completion_ids))
        rewards.extend(scores)
        return scores

    with tempfile.TemporaryDirectory() as out:
        config = trl.GRPOConfig(
            output_dir=out, per_device_train_batch_size=PROMPTS * SAMPLES, num_generations=SAMPLES,
            max_completion_length=options["tokens"], temperature=1.0, top_k=0, beta=0.0,
            max_steps=options["steps"], learning_rate=LR, lr_scheduler_type="constant",
            gradient_checkpointing=False, logging_steps=1, save_strategy="no", report_to=[],
            disable_tqdm=True, use_cpu=True, bf16=False, shuffle_dataset=False, max_grad_norm=1.0)
        trainer = trl.GRPOTrainer(
            model=model, reward_funcs=even, args=config, processing_class=tokenizer,
            train_dataset=datasets.Dataset.from_list(
                [{"prompt": [{"role": "user", "content": text}]} for text in prompts]),
            callbacks=[step_clock(stamps)])
        trainer.train()
    print(json.dumps({"seconds": [b - a for a, b in zip(stamps, stamps[1:])], "rss_mb": rss_mb(),
                      "length": statistics.mean(lengths), "reward": statistics.mean(rewards)}))


def ours(arguments, folder, rows, work, name):
    out = f"{work}/{name}"
    settings = {"model": folder, "template": f"{work}/template.jinja", "data.1.path": rows,
                "sampling.max_tokens": arguments.tokens, "steps": WARM_UP + arguments.steps,
                "optim.lr": LR, "save.minutes": 0, "batch.max_tokens": arguments.max_tokens}
    command = [arguments.xrun, str(ROOT / "tools/bench/grpo_step.lua"), "--run", out, "--threads",
               str(arguments.threads)]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, said[-4000:]
    steps = [json.loads(line) for line in open(f"{out}/metrics.jsonl")]
    steps = [step for step in steps if "train/loss" in step]
    assert steps[0]["train/ratio"] == 1, steps[0]
    return {"seconds": [sum(step[f"perf/{part}_s"] for part in ("sample", "reward", "step"))
                        for step in steps], "rss_mb": usage.ru_maxrss / 1024,
            "length": statistics.mean(step["rollout/length"] for step in steps),
            "reward": statistics.mean(step["rollout/reward"] for step in steps)}


def peer(arguments, folder, rows):
    options = {"model": folder, "rows": rows, "threads": arguments.threads,
               "tokens": arguments.tokens, "steps": WARM_UP + arguments.steps}
    return run_json([sys.executable, __file__, "--trl", json.dumps(options)])


def prompt_rows(arguments, work):
    """Writes as many prompts of --length tokens as the steps need, and returns the file."""
    tokenizer = open_tokenizer(arguments.tokenizer)
    ids = tokenizer(pathlib.Path(arguments.rows).read_text()[:2_000_000],
                    add_special_tokens=False)["input_ids"]
    wanted = PROMPTS * (WARM_UP + arguments.steps)
    assert len(ids) >= wanted * arguments.length, f"{arguments.rows} is too short"
    path = pathlib.Path(work) / "prompts.jsonl"
    with path.open("w") as out:
        for i in range(wanted):
            cut = ids[i * arguments.length:(i + 1) * arguments.length]
            out.write(json.dumps({"prompt": tokenizer.decode(cut)}) + "\n")
    return str(path)


def rate(run):
    return PROMPTS * SAMPLES * len(run["seconds"][WARM_UP:]) / sum(run["seconds"][WARM_UP:])


def compare(arguments, preset):
    with tempfile.TemporaryDirectory() as work:
        rows = prompt_rows(arguments, work)
        pathlib.Path(work, "template.jinja").write_text(TEMPLATE)
        folder = init_model(arguments, preset, work)
        os.environ["XRUN_CACHE"] = f"{work}/cache"
        pairs = []
        for pair in alternate(arguments.pairs, lambda n: {
                "xrun": lambda: ours(arguments, folder, rows, work, f"run{n}"),
                "TRL": lambda: peer(arguments, folder, rows)}):
            mine, theirs = pair["xrun"], pair["TRL"]
            assert abs(mine["length"] / theirs["length"] - 1) < 0.05, (mine, theirs)
            assert abs(mine["reward"] - theirs["reward"]) < 0.05, (mine, theirs)
            pairs.append(pair)
        print(f"{preset}: {describe(pairs, rate, 'samples/s', 2)}; answers of "
              f"{pairs[0]['xrun']['length']:.0f} and {pairs[0]['TRL']['length']:.0f} tokens", flush=True)


if __name__ == "__main__":
    main(__doc__, trl_run, compare, length=256, tokens=64, max_tokens=4096)
