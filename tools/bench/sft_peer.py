#!/usr/bin/env python3
"""Times steps of recipes/sft.lua against TRL's SFTTrainer, after checking that the losses agree.

    python3 tools/bench/sft_peer.py XRUN ROWS.jsonl TOKENIZER [PRESET...] [--steps N] [--pairs N]
                                    [--threads N]

PRESET is tiny or mid (both if none is given), with random weights in fp32. ROWS hold `messages`;
TOKENIZER has at most 32,000 ids. Both sides train assistant turns with AdamW and a constant rate. First
both take 16 whole rows per step, padded by TRL, and the losses of all steps must agree within 1e-3. For
the timing TRL has three modes: best-fit packs ("bfd") of 1,024 tokens, whose segments sdpa separates by
a mask; text cut into windows of 1,024 ("wrapped"), without separation; and padded rows. The fastest mode
in a first run is the peer. Each run is a separate process with 4,096 tokens or 16 rows per step and
begins with 2 uncounted steps. Runs alternate, and each pair of runs reverses the order. Prints tokens/s
without padding, the ratio of each pair and peak RSS of the whole process, median (lowest to highest).
Packages: trl 1.16, transformers 5.23, torch.
"""
import json
import os
import pathlib
import sys
import tempfile

from step_peer import (ROOT, TEMPLATE, WARM_UP, alternate, describe, init_model, loss_difference,
                       main, open_tokenizer, rss_mb, run_json, step_clock, xrun_steps)

ROWS = 16
WINDOW = 1024
LR = 1e-4


def trl_run(options):
    """Trains with TRL in this process; prints {"seconds", "losses", "tokens"} of each step."""
    import datasets
    import torch
    import transformers
    import trl
    torch.set_num_threads(options["threads"])
    model = transformers.AutoModelForCausalLM.from_pretrained(
        options["model"], dtype=torch.float32, attn_implementation="sdpa")
    rows = [{"messages": json.loads(line)["messages"]} for line in open(options["rows"])]
    stamps, losses, tokens = [], [], []

    class Watched(trl.SFTTrainer):
        def _get_train_sampler(self, *_):
            return torch.utils.data.SequentialSampler(self.train_dataset)

        def compute_loss(self, model, inputs, *rest, **named):
            mask = inputs.get("attention_mask")
            tokens.append(int((mask if mask is not None else inputs["labels"] * 0 + 1).sum()))
            return super().compute_loss(model, inputs, *rest, **named)

        def log(self, logs, *rest):
            losses.extend([logs["loss"]] if "loss" in logs else [])
            super().log(logs, *rest)

    packing = options["packing"]
    with tempfile.TemporaryDirectory() as out:
        config = trl.SFTConfig(
            output_dir=out, per_device_train_batch_size=4 if packing else ROWS,
            max_steps=options["steps"], learning_rate=LR, lr_scheduler_type="constant",
            max_length=WINDOW if packing else None, packing=bool(packing),
            packing_strategy=packing or "bfd", assistant_only_loss=True,
            gradient_checkpointing=False, logging_steps=1, save_strategy="no", report_to=[],
            disable_tqdm=True, use_cpu=True, bf16=False, max_grad_norm=1.0)
        trainer = Watched(model=model, args=config, processing_class=open_tokenizer(options["model"]),
                          train_dataset=datasets.Dataset.from_list(rows), callbacks=[step_clock(stamps)])
        trainer.train()
    print(json.dumps({"seconds": [b - a for a, b in zip(stamps, stamps[1:])], "losses": losses,
                      "tokens": tokens, "rss_mb": rss_mb()}))


def ours(arguments, folder, work, name):
    steps = WARM_UP + arguments.steps
    return xrun_steps(arguments, f"{work}/{name}", [
        str(ROOT / "recipes/sft.lua"), f"model={folder}",
        f"data={{ {{ path = \"{work}/rows.jsonl\", name = \"rows\" }} }}",
        f"template={work}/template.jinja", "shuffle=false", "valid.fraction=0", f"steps={steps}",
        f"optim={{ lr = {LR}, schedule = \"constant\" }}", f"batch.sequences={ROWS}",
        "batch.max_tokens=4096"])


def peer(arguments, folder, work, packing):
    return run_json([sys.executable, __file__, "--trl", json.dumps(
        {"model": folder, "rows": f"{work}/rows.jsonl", "packing": packing,
         "threads": arguments.threads, "steps": WARM_UP + arguments.steps})])


def rate(run):
    return sum(run["tokens"][WARM_UP:]) / sum(run["seconds"][WARM_UP:])


def write_rows(arguments, work):
    """Returns as many rows as any of the runs needs, of at most WINDOW tokens, so that none is cut."""
    tokenizer = open_tokenizer(arguments.tokenizer)
    wanted = 4 * ROWS * (WARM_UP + arguments.steps)
    kept = []
    for line in open(arguments.rows):
        row = {"messages": json.loads(line)["messages"]}
        if len(tokenizer.apply_chat_template(row["messages"])["input_ids"]) <= WINDOW:
            kept.append(json.dumps(row) + "\n")
        if len(kept) == wanted:
            break
    assert len(kept) >= ROWS * (WARM_UP + arguments.steps), f"only {len(kept)} rows fit"
    pathlib.Path(work, "rows.jsonl").write_text("".join(kept))
    pathlib.Path(work, "template.jinja").write_text(TEMPLATE)


def compare(arguments, preset):
    with tempfile.TemporaryDirectory() as work:
        os.environ["XRUN_CACHE"] = f"{work}/cache"
        write_rows(arguments, work)
        folder = init_model(arguments, preset, work)
        padded, mine = peer(arguments, folder, work, ""), ours(arguments, folder, work, "first")
        worst = loss_difference(mine, padded)
        first = {"": padded, **{how: peer(arguments, folder, work, how) for how in ("bfd", "wrapped")}}
        packing = max(first, key=lambda how: rate(first[how]))
        pairs = list(alternate(arguments.pairs, lambda pair: {
            "xrun": lambda: ours(arguments, folder, work, f"pair{pair}"),
            "TRL": lambda: peer(arguments, folder, work, packing)}))
        tried = ", ".join(f"{how or 'padded'} {rate(run):.0f}" for how, run in first.items())
        peer_name = f"TRL ({packing or 'padded'}; tried {tried})"
        print(f"{preset}: {describe(pairs, rate, 'tokens/s', 0, peer_name)}, losses of "
              f"{WARM_UP + arguments.steps} steps within {worst:.1e}", flush=True)


if __name__ == "__main__":
    main(__doc__, trl_run, compare)
