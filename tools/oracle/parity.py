#!/usr/bin/env python3
"""Writes docs/parity.md: how far xrun is from the implementations that its goldens come from.

Each row names tests of the build. Their report (GoogleTest's XML) has the number of values that they
compared, and the difference and the bound of the value that uses the largest share of its bound
(tests/parity.h). A row without a passing test is an error, and so is a row that is not EXACT and whose
tests note no difference.

    tools/oracle/parity.py [--build DIR] [--check]

--check runs no test and writes nothing. It compares the page's rows with this script's and checks that
their tests and scripts exist. The goldens come from tests/golden/make, which needs Python packages; this
script needs none.
"""

import argparse
import fnmatch
import functools
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "parity.md"

EXACT = "exact"  # ids, texts, masks or pairs are compared one by one

# (behaviour, peer, test program, tests, golden's script[, EXACT])
SECTIONS = [
    ("Text to tokens", [
        ("ids and offsets of strings over all of Unicode, 12 tokenizers",
         "tokenizers 0.23.3, sentencepiece 0.1.99", "test_text", "*TokenizerGolden.*", "tokenizer_goldens.py", EXACT),
        ("components of tokenizer.json", "tokenizers 0.23.3", "test_text", "TokenizerComponents.*",
         "component_goldens.py", EXACT),
        ("chat templates: text and mask of every family", "transformers 5.23, jinja2 3.1", "test_text",
         "TemplateFamilies.Every*", "template_goldens.py", EXACT),
        ("Tulu 3's chat template: text and trained characters", "open-instruct e6c3044aa", "test_text",
         "OpenInstructChats.*", "open_instruct.py", EXACT),
        ("Jinja snippets and errors", "jinja2 3.1", "test_text", "JinjaCases.*", "jinja_snippets.py", EXACT),
    ]),
    ("Models", [
        ("logits, log-probs and gradients, packed and folded, every family", "transformers 5.23",
         "test_model", "*ModelGoldenTest.*", "model_goldens.py"),
        ("rotary frequencies of every type", "transformers 5.23", "test_model", "Rope.EveryType*",
         "rope_frequencies.py"),
        ("balance loss of a mixture of experts, one layer", "transformers 5.23", "test_model",
         "Moe.BalanceMatches*", "model_goldens.py"),
        ("scores of classifiers", "transformers 5.23", "test_train", "ScorerTest.AgreesWith*", "scores.py"),
        ("kept tokens and log-probs under temperature, top k, top p, min p", "transformers 5.23", "test_model",
         "Sampling.KeepsTheSame*", "sampling_goldens.py"),
    ]),
    ("Losses", [
        ("every loss over pairs: dpo.lua, simpo.lua, orpo.lua, the table of pair_losses.lua", "TRL 1.16",
         "test_lua", "PreferenceLosses.MatchTrl", "preference_losses.py"),
        ("kto.lua with its baseline", "TRL 1.16", "test_lua", "FeedbackLosses.*", "feedback_losses.py"),
        ("losses over rollouts, values and gradients", "TRL 1.16", "test_lua", "PolicyLosses.MatchTrl*",
         "policy_losses.py"),
        ("KL terms, entropy, z-loss", "their formulas in float64", "test_lua",
         "PolicyLosses.KlTerms*:PolicyLosses.*Entropy*", "policy_losses.py"),
        ("losses over pairs, values and gradients: dpo.lua, simpo.lua, dpo_norm and cdpo of pair_losses.lua",
         "open-instruct e6c3044aa", "test_lua", "OpenInstructPairs.*", "open_instruct.py"),
        ("losses over rollouts in its packs, values and gradients: dapo.lua, cispo.lua, dr_grpo.lua, ppo.lua with "
         "`tis`; over padded rows: grpo.lua", "open-instruct e6c3044aa", "test_lua", "OpenInstructRollouts.Match*",
         "open_instruct.py"),
        ("KL terms, log-probs, entropy", "open-instruct e6c3044aa", "test_lua",
         "OpenInstructRollouts.Kl*:OpenInstructRollouts.LogProbs*", "open_instruct.py"),
        ("distillation: p-kl, gold, h-kl, top k, full vocabulary; uld, hybrid",
         "NeMo-RL 7ea279abf; TRL 1.16", "test_rollout", "KdGolden.LossesAndGradients*", "kd_losses.py"),
        ("operators of Lua tensors, rounded to fp32, within 4 units in the last place", "PyTorch 2.11", "test_lua", "OpGolden.*", "lua_ops.py", EXACT),
    ]),
    ("Advantages and alignment", [
        ("advantages of groups: mean, deviation, leave one out", "TRL 1.16", "test_train",
         "GroupAdvantage.MatchesTrl", "policy_losses.py"),
        ("advantages of groups: centred; standard, but for the factor between the deviations", "open-instruct e6c3044aa",
         "test_lua", "OpenInstructRollouts.Advantages*", "open_instruct.py"),
        ("alignment by dynamic programming: pairs and is_correct", "NeMo-RL 7ea279abf", "test_data",
         "DpGolden.N*:DpGolden.R*:DpGolden.SequencesOf*", "make_dp_alignments.py", EXACT),
        ("projections under `--nemo`", "NeMo-RL 7ea279abf", "test_rollout", "NemoProjection.MatchesNemoRlsTools",
         "projection_goldens.py", EXACT),
    ]),
    ("Steps", [
        ("20 steps of DPO: loss, margin, gradient norm; log-probs of step 0",
         "transformers 5.23 under TRL 1.16's loss", "test_train", "*Packing/DpoGolden.*", "dpo_steps.py"),
        ("20 steps of SFT on a weighted mixture", "transformers 5.23", "test_train", "*SftGolden.*", "sft_steps.py"),
        ("20 steps of KTO", "transformers 5.23 under TRL 1.16's loss", "test_train", "*KtoGolden.*", "kto_steps.py"),
        ("AdamW with decay and clipping", "PyTorch 2.11", "test_train", "AdamW.MatchesTorch*", "adamw_goldens.py"),
        ("factors of the learning rate by step", "transformers 5.23", "test_train", "Schedule.FactorsMatch*",
         "adamw_goldens.py"),
        ("the reference's log-probs of pairs in a pack", "each pair alone", "test_train",
         "ReferencePacks.InFloat32*", None, EXACT),
        ("a step over a folded tree: loss and every gradient, DPO and SFT, fp64 and fp32",
         "the same step over separate sequences", "test_train", "*FoldOracle.In*", None),
    ]),
]

ON_PURPOSE = [
    ("a row that does not fit `max_length`", "TRL and open-instruct truncate it silently",
     "an error that names the row; `over_length` = \"drop\" or \"cut\" does it with a count"),
    ("mean of an SFT loss over accumulated micro-batches",
     "older trainers and open-instruct's `finetune.py` average the means",
     "each trained token counts once, whatever the packing"),
    ("ORPO's likelihood term", "TRL counts the tokens of the prompt", "the answer alone, as in the paper"),
    ("chunks of a distillation loss", "NeMo-RL's mean depends on the micro-batch and on its top k of columns",
     "each valid chunk counts once and has the same loss in any micro-batch"),
    ("deviation of a group's rewards", "TRL adds 1e-4", "1e-6; `eps` = 1e-4 gives TRL's numbers"),
    ("advantages of a group",
     "open-instruct's \"standard\" divides by the deviation of a population + 1e-8; its default, \"centered\", does not",
     "the unbiased deviation: advantages are sqrt(1 - 1/G) of \"standard\", G the group's size; `scale` = false is "
     "\"centered\""),
    ("mean of a GRPO loss", "open-instruct divides the sum over all tokens by their number or by a constant",
     "grpo.lua takes the mean over each answer first, as its paper does; dapo.lua divides by the tokens, dr_grpo.lua by "
     "a constant"),
    ("KL terms of a loss", "open-instruct clamps log-ratios to [-40, 40]; takes k1 and ratio * k1 too",
     "no clamp; k1 is refused, since its mean gradient is 0; ratio * k1 is left out"),
    ("weights old / sampler of tokens", "open-instruct caps them at 2 by default and may drop tokens by bounds",
     "ppo.lua's `tis` is off by default, is meant for bf16 or older answers, and drops nothing"),
    ("SimPO's margin", "open-instruct takes gamma / beta", "`gamma`, as in the paper"),
    ("`wpo`", "open-instruct e6c3044aa multiplies sums [B] by masks [B, T], an error for more than one pair unless B = T",
     "left out"),
    ("what is trained of an answer",
     "open-instruct adds the header of an answer that opens a conversation, the line feed before an answer that follows "
     "one, and Zephyr's line feed after one", "the answer and the token that ends it"),
    ("longrope and dynamic frequencies", "transformers uses the padded batch's length and keeps it between calls",
     "the length of each sequence, so that packing changes nothing"),
    ("balance loss of several MoE layers", "transformers pools all layers before it multiplies",
     "per layer, then the mean; one layer agrees"),
    ("`aot` and `aot_unpaired`", "TRL sorts the batch before it pairs it", "left out: not a sum over pairs"),
]

HEADER = """\
# Parity
Made by `tools/oracle/parity.py` from the reports of the tests; `./xrun test parity` checks that the rows and their
tests are there. A figure is the difference that comes closest to its bound; "identical" rows compare ids, texts,
masks or pairs one by one. The goldens are numbers of the peers' own code, made once by the scripts in
`tests/golden/make`. They run single functions of open-instruct, not its trainers.
"""


def wrong(text):
    sys.exit(f"parity.py: {text}")


def report(build, program, tests, exact, folder):
    """Returns the figure and the bound of a row."""
    out = folder / f"{program}.xml"
    run = subprocess.run([build / "bin" / program, f"--gtest_filter={tests}", f"--gtest_output=xml:{out}"],
                         cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if run.returncode != 0:
        wrong(f"{program} --gtest_filter='{tests}' failed:\n{run.stdout[-2000:]}")
    passed, values, most = 0, 0, None
    for case in xml.parse(out).getroot().iter("testcase"):
        if case.get("result") != "completed":
            continue
        passed += 1
        notes = {note.get("name"): note.get("value") for note in case.iter("property")}
        if "difference" not in notes:
            continue
        values += int(notes["values"])
        difference, bound = float(notes["difference"]), float(notes["bound"])
        share = difference / bound if bound else difference
        if most is None or share > most[0]:
            most = (share, notes["difference"], notes["bound"])
    if passed == 0:
        wrong(f"{program} --gtest_filter='{tests}' ran no test; build it, or correct the row")
    if exact:
        return "identical", "exact"
    if most is None:
        wrong(f"{program} --gtest_filter='{tests}' notes no difference; build it, or mark the row EXACT")
    return f"{most[1]}, largest of {values:,} values", most[2]


@functools.cache
def tests_of(program):
    """Returns the names of a program's tests. Cached, since a start with LibTorch takes a while."""
    listed = subprocess.run([program, "--gtest_list_tests"], stdout=subprocess.PIPE, text=True, check=True).stdout
    names, suite = [], ""
    for line in listed.splitlines():
        name = line.split("  #")[0]
        if name.startswith("  "):
            names.append(suite + name.strip())
        else:
            suite = name.strip()
    return names


def find_tests(build, program, tests):
    if not any(fnmatch.fnmatchcase(name, wanted) for name in tests_of(build / "bin" / program)
               for wanted in tests.split(":")):
        wrong(f"{program} has no test '{tests}'")


def page(build, runs):
    lines = [HEADER]
    with tempfile.TemporaryDirectory() as folder:
        for title, rows in SECTIONS:
            lines += [f"## {title}", "| behaviour | peer | figure | bound | tests | golden by |", "|---|---|---|---|---|---|"]
            for behaviour, peer, program, tests, script, *exact in rows:
                if script and not (ROOT / "tests/golden/make" / script).exists():
                    wrong(f"{script} is not in tests/golden/make")
                if runs:
                    figure, bound = report(build, program, tests, bool(exact), pathlib.Path(folder))
                else:
                    find_tests(build, program, tests)
                    figure = bound = "-"
                lines.append(f"| {behaviour} | {peer} | {figure} | {bound} | "
                             f"`bin/{program} --gtest_filter='{tests}'` | {f'`{script}`' if script else '-'} |")
            lines.append("")
    lines += ["## Different on purpose", "| behaviour | there | here |", "|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in ON_PURPOSE]
    return "\n".join(lines) + "\n"


def without_figures(text):
    rows = []
    for line in text.splitlines():
        cells = line.split(" | ")
        if len(cells) == 6 and "gtest_filter" in line:
            cells[2] = cells[3] = "-"
        rows.append(" | ".join(cells))
    return "\n".join(rows) + "\n"


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    options.add_argument("--check", action="store_true")
    given = options.parse_args()
    text = page(given.build.resolve(), runs=not given.check)
    if not given.check:
        PAGE.write_text(text)
    elif without_figures(PAGE.read_text()) != text:
        wrong("docs/parity.md has other rows than this script; run tools/oracle/parity.py")


main()
