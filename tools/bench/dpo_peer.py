#!/usr/bin/env python3
"""Times steps of recipes/dpo.lua against TRL's DPOTrainer, after checking that the losses agree.

    python3 tools/bench/dpo_peer.py XRUN ROWS.jsonl TOKENIZER [PRESET...] [--steps N] [--pairs N]
                                    [--length N] [--threads N]

PRESET is tiny or mid (both if none is given), with random weights in fp32. ROWS hold `chosen` and
`rejected` message lists; TOKENIZER has at most 32,000 ids. Both sides train the same 8 rows in the same
order, with AdamW and a constant rate; both exclude rows with more than --length tokens per side. Each run
is a separate process and begins with 2 uncounted steps. Runs alternate, and each pair of runs reverses
the order. TRL runs without gradient checkpointing, with sdpa attention. "cold" compares xrun's first run
over the rows, which computes the reference within the steps, with TRL computing reference log-probs in
each step. "warm" compares xrun's second run with TRL's precomputed reference log-probs; both times
exclude the reference. Losses of all steps must agree within 1e-3. Prints pairs/s, the ratio of each pair
of runs and peak RSS of the whole process, median (lowest to highest). Packages: trl 1.16, transformers
5.23, torch.
"""
import json
import os
import pathlib
import sys
import tempfile

from step_peer import (ROOT, TEMPLATE, WARM_UP, alternate, describe, init_model, loss_difference,
                       main, open_tokenizer, rss_mb, run_json, step_clock, xrun_steps)

BATCH = 8
LR = 1e-4


def trl_run(options):
    """Trains with TRL in this process; prints {"seconds": [...], "losses": [...]} as one line."""
    import datasets
    import torch
    import transformers
    import trl
    torch.set_num_threads(options["threads"])
    tokenizer = open_tokenizer(options["model"])
    model = transformers.AutoModelForCausalLM.from_pretrained(
        options["model"], dtype=torch.float32, attn_implementation="sdpa")
    rows = [json.loads(line) for line in open(options["rows"])]
    stamps, losses = [], []

    class InOrder(trl.DPOTrainer):
        def _get_train_sampler(self, *_):
            return torch.utils.data.SequentialSampler(self.train_dataset)

        def log(self, logs, *rest):
            losses.extend([logs["loss"]] if "loss" in logs else [])
            super().log(logs, *rest)

    with tempfile.TemporaryDirectory() as out:
        config = trl.DPOConfig(
            output_dir=out, per_device_train_batch_size=BATCH, max_steps=options["steps"],
            learning_rate=LR, lr_scheduler_type="constant", max_length=None, beta=0.1,
            gradient_checkpointing=False, logging_steps=1, save_strategy="no", report_to=[],
            precompute_ref_log_probs=options["precompute"], disable_tqdm=True, use_cpu=True,
            bf16=False, dataloader_num_workers=0, max_grad_norm=1.0)
        trainer = InOrder(model=model, args=config, processing_class=tokenizer,
                          train_dataset=datasets.Dataset.from_list(rows), callbacks=[step_clock(stamps)])
        trainer.train()
    print(json.dumps({"seconds": [b - a for a, b in zip(stamps, stamps[1:])],
                      "losses": losses[:options["steps"]], "rss_mb": rss_mb()}))


def ours(arguments, folder, rows, work, name):
    steps = WARM_UP + arguments.steps
    return xrun_steps(arguments, f"{work}/{name}", [
        str(ROOT / "recipes/dpo.lua"), f"model={folder}", f"data.1.path={rows}", "data.1.keep={}",
        f"template={work}/template.jinja", "shuffle=false", "answers=0", "valid.fraction=0",
        f"steps={steps}", f"optim={{ lr = {LR}, schedule = \"constant\" }}",
        f"batch.pairs={BATCH}", f"batch.max_tokens={arguments.max_tokens}"])


def peer(arguments, folder, rows, precompute):
    options = {"model": folder, "rows": rows, "precompute": precompute, "threads": arguments.threads,
               "steps": WARM_UP + arguments.steps}
    return run_json([sys.executable, __file__, "--trl", json.dumps(options)])


def short_rows(arguments, work):
    """Writes the rows that both sides use, as many as the steps need, and returns the file."""
    tokenizer = open_tokenizer(arguments.tokenizer)
    wanted = BATCH * (WARM_UP + arguments.steps)
    kept = []
    for line in open(arguments.rows):
        row = {side: json.loads(line)[side] for side in ("chosen", "rejected")}
        ids = [tokenizer.apply_chat_template(row[side])["input_ids"] for side in row]
        if max(len(side) for side in ids) <= arguments.length:
            kept.append(row)
    assert len(kept) >= wanted, f"{len(kept)} rows fit, {wanted} are needed"
    path = pathlib.Path(work) / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in kept[:wanted]))
    return str(path)


def rate(run):
    return BATCH * len(run["seconds"][WARM_UP:]) / sum(run["seconds"][WARM_UP:])


def compare(arguments, preset):
    with tempfile.TemporaryDirectory() as work:
        rows = short_rows(arguments, work)
        pathlib.Path(work, "template.jinja").write_text(TEMPLATE)
        folder = init_model(arguments, preset, work)
        for state, precompute in (("cold", False), ("warm", True)):
            def runs_of(pair):
                os.environ["XRUN_CACHE"] = f"{work}/cache_{pair if state == 'cold' else 0}"
                return {"xrun": lambda: ours(arguments, folder, rows, work, f"{state}{pair}"),
                        "TRL": lambda: peer(arguments, folder, rows, precompute)}
            pairs, worst = [], 0
            for pair in alternate(arguments.pairs, runs_of):
                pairs.append(pair)
                worst = max(worst, loss_difference(pair["xrun"], pair["TRL"]))
            print(f"{preset}, {state}: {describe(pairs, rate, 'pairs/s', 2)}, losses of "
                  f"{WARM_UP + arguments.steps} steps within {worst:.1e}", flush=True)


if __name__ == "__main__":
    main(__doc__, trl_run, compare, length=1024, max_tokens=4096)
