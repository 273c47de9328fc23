#!/usr/bin/env python3
"""Times steps of recipes/xdistill.lua against TRL's GOLDTrainer, after checking that the losses agree.

    python3 tools/bench/gold_peer.py XRUN TEXT STUDENT_TOKENIZER TEACHER_TOKENIZER [PRESET...]
                                     [--steps N] [--pairs N] [--sequences N] [--length N] [--threads N]
                                     [--set KEY=VALUE...] [--peer-only]

Student and teacher are random models of a preset (tiny or mid; tiny if none is given) in fp32, with the two
tokenizers, which must be byte-level, TRL's condition, and have a tokenizer.json. Both sides distil texts of --length
tokens of the student, --sequences a step, by universal logit distillation: the L1 distance of sorted probabilities of
each chunk, where a chunk of several tokens multiplies its first distribution by the probabilities of its later tokens
(TRL's extended ULD, merge strategy "observed"). Each text begins with a newline, a token of its own on both sides: TRL
needs a prompt, and both sides leave the first token out. The copies of the tokenizers add no BOS or EOS, which TRL
would add on one side.

First both sides take one text a step, since TRL averages over texts and xrun over chunks, and TRL's loss gets its
logits shifted by one position, since its "observed" reads those after each token instead of those that predict it. The
losses must agree within 5e-6 in the first step, where a chunk merged in another manner already shows, and within 1e-3
later. Then TRL runs unchanged: runs alternate, each a separate process with 2 uncounted steps, and each pair of runs
reverses the order. Prints steps/s, the ratio of each pair and peak RSS of the whole process, median (lowest to
highest). --set goes to the recipe; --peer-only runs TRL alone. Packages: trl 1.16, transformers 5.23, torch.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from step_peer import (ROOT, WARM_UP, alternate, describe, loss_difference, rss_mb, run_json, spread, step_clock,
                       xrun_steps)

LR = 1e-4
RECIPE = ROOT / "recipes/xdistill.lua"


def open_tokenizer(folder):
    """Loads tokenizer.json unchanged. TRL needs some padding token; the attention mask hides it."""
    import transformers
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=f"{folder}/tokenizer.json")
    tokenizer.pad_token = tokenizer.convert_ids_to_tokens(0)
    return tokenizer


def trl_run(options):
    """Trains with TRL in this process; prints {"seconds", "losses"} of each step."""
    import datasets
    import torch
    import transformers
    import trl.experimental.gold as gold
    torch.set_num_threads(options["threads"])
    student, teacher = (transformers.AutoModelForCausalLM.from_pretrained(
        options[side], dtype=torch.float32, attn_implementation="sdpa") for side in ("student", "teacher"))
    rows = [json.loads(line)["text"] for line in open(options["rows"])]
    stamps, losses = [], []

    class Watched(gold.GOLDTrainer):
        def _get_train_sampler(self, *_):
            return torch.utils.data.SequentialSampler(self.train_dataset)

        def compute_loss(self, *rest, **named):
            loss = super().compute_loss(*rest, **named)
            losses.append(float(loss.detach()))
            return loss

    with tempfile.TemporaryDirectory() as out:
        open_tokenizer(options["teacher"]).save_pretrained(f"{out}/teacher")
        config = gold.GOLDConfig(
            output_dir=out, per_device_train_batch_size=options["sequences"], max_steps=options["steps"],
            learning_rate=LR, lr_scheduler_type="constant", max_length=4096, max_completion_length=1, lmbda=0.0,
            use_uld_loss=True, use_extended_uld=True, uld_token_merge_strategy="observed",
            uld_skip_student_eos=False, uld_skip_teacher_eos=False,
            teacher_tokenizer_name_or_path=f"{out}/teacher", gradient_checkpointing=False, logging_steps=1,
            save_strategy="no", report_to=[], disable_tqdm=True, use_cpu=True, bf16=False, max_grad_norm=1.0)
        trainer = Watched(
            model=student, teacher_model=teacher, args=config, processing_class=open_tokenizer(options["student"]),
            train_dataset=datasets.Dataset.from_list([{"prompt": text[0], "completion": text[1:]} for text in rows]),
            callbacks=[step_clock(stamps)])
        if options["shifted"]:
            loss = trainer.uld_loss_fn._compute_distillation_loss
            trainer.uld_loss_fn._compute_distillation_loss = lambda s, t, *rest, **named: loss(
                s.roll(1, 1), t.roll(1, 1), *rest, **named)
        trainer.train()
    print(json.dumps({"seconds": [b - a for a, b in zip(stamps, stamps[1:])], "losses": losses, "rss_mb": rss_mb()}))


def ours(arguments, work, name, sequences):
    return xrun_steps(arguments, f"{work}/{name}", [
        str(RECIPE), f"model={work}/student", f"teacher={work}/teacher",
        f"data={{ {{ path = \"{work}/rows.jsonl\", name = \"rows\" }} }}", "shuffle=false", "valid.fraction=0",
        f"steps={WARM_UP + arguments.steps}", f"optim={{ lr = {LR}, schedule = \"constant\" }}",
        f"batch.sequences={sequences}", *arguments.set])


def peer(arguments, work, sequences, shifted=False):
    return run_json([sys.executable, __file__, "--trl", json.dumps(
        {"student": f"{work}/student", "teacher": f"{work}/teacher", "rows": f"{work}/rows.jsonl",
         "sequences": sequences, "shifted": shifted, "threads": arguments.threads,
         "steps": WARM_UP + arguments.steps})])


def rate(run):
    return len(run["seconds"][WARM_UP:]) / sum(run["seconds"][WARM_UP:])


def make_models(arguments, preset, work):
    for seed, (side, tokenizer) in enumerate((("student", arguments.student_tokenizer),
                                              ("teacher", arguments.teacher_tokenizer))):
        folder = pathlib.Path(work, f"{side}_tokenizer")
        folder.mkdir()
        description = json.loads(pathlib.Path(tokenizer, "tokenizer.json").read_text(encoding="utf-8"))
        description["post_processor"] = None
        (folder / "tokenizer.json").write_text(json.dumps(description), encoding="utf-8")
        subprocess.run([arguments.xrun, "init-model", f"{work}/{side}", "--preset", preset, "--seed", str(seed),
                        "--max-length", "4096", "--tokenizer", str(folder)], check=True, stdout=subprocess.DEVNULL)


def write_rows(arguments, work):
    """Writes texts of --length tokens of the student after a newline, whole tokens of both sides."""
    tokenizers = [open_tokenizer(f"{work}/{side}") for side in ("student", "teacher")]
    wanted = max(arguments.sequences, 1) * (WARM_UP + arguments.steps)
    # Windows of words: their tokens vary little, so a few are enough to find the size.
    words = pathlib.Path(arguments.text).read_text(encoding="utf-8")[:4_000_000].split()
    rows, at = [], 0
    while len(rows) < wanted:
        assert at < len(words), f"{arguments.text} has text for {len(rows)} rows, {wanted} are needed"
        size = arguments.length
        while len(tokenizers[0](" ".join(words[at:at + size]))["input_ids"]) > arguments.length - 1:
            size -= max(1, size // 16)
        text = " ".join(words[at:at + size])
        at += size
        for tokenizer in tokenizers:
            whole, rest = tokenizer("\n" + text)["input_ids"], tokenizer(text)["input_ids"]
            assert whole[1:] == rest, "the newline is not a token of its own"
        rows.append(json.dumps({"text": "\n" + text}) + "\n")
    pathlib.Path(work, "rows.jsonl").write_text("".join(rows), encoding="utf-8")


def compare(arguments, preset):
    with tempfile.TemporaryDirectory() as work:
        os.environ["XRUN_CACHE"] = f"{work}/cache"
        make_models(arguments, preset, work)
        write_rows(arguments, work)
        size = f"{arguments.sequences} texts of about {arguments.length} tokens a step"
        if arguments.peer_only:
            runs = [peer(arguments, work, arguments.sequences) for _ in range(arguments.pairs)]
            print(f"{preset}: TRL {spread([rate(run) for run in runs], 3)} steps/s, {size}; losses "
                  f"{runs[0]['losses'][0]:.4f} to {runs[0]['losses'][-1]:.4f}", flush=True)
            return
        mine, theirs = ours(arguments, work, "single", 1), peer(arguments, work, 1, True)
        worst, first = loss_difference(mine, theirs), abs(mine["losses"][0] - theirs["losses"][0])
        assert first < 5e-6, f"losses of the first step: {mine['losses'][0]} and {theirs['losses'][0]}"
        pairs = list(alternate(arguments.pairs, lambda pair: {
            "xrun": lambda: ours(arguments, work, f"pair{pair}", arguments.sequences),
            "TRL": lambda: peer(arguments, work, arguments.sequences)}))
        print(f"{preset}: {describe(pairs, rate, 'steps/s', 3)}; {size}; losses of {WARM_UP + arguments.steps} steps "
              f"of one text within {worst:.1e}", flush=True)


def main():
    if sys.argv[1:2] == ["--trl"]:
        return trl_run(json.loads(sys.argv[2]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("xrun", "text", "student_tokenizer", "teacher_tokenizer"):
        parser.add_argument(name)
    parser.add_argument("presets", nargs="*", default=[])
    for name, default in {"steps": 6, "pairs": 5, "sequences": 8, "length": 256, "threads": os.cpu_count()}.items():
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--peer-only", action="store_true")
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    print(f"{arguments.threads} threads, load {os.getloadavg()[0]:.2f}")
    for preset in arguments.presets or ["tiny"]:
        compare(arguments, preset)


if __name__ == "__main__":
    main()
