"""Writes the goldens of projections with NeMo-RL's own tools, torch 2.11.0 and transformers 5.23.0.

Runs the three steps of tools/x_token unchanged on pairs of the small tokenizers in
tests/data/tokenizers, and writes
  tests/golden/projections.json      settings, and the final ids (int32) and bf16 weights in base64
  tests/golden/projection_dense.pt   the final file of the last pair
  tests/golden/projection_padded.pt  the same with 20 more rows
  tests/golden/projection_sparse.pt  a dict of counts, the other form that NeMo-RL's loss reads
Usage: python projection_goldens.py NEMO_RL_CHECKOUT   (commit 7ea279abf)

With a student's and a teacher's folder as further arguments, prints the CRC-32 of the ids and
weights of that pair instead (gpt2 and llama2 need 8 GB).
"""
import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import torch
from transformers import AutoTokenizer

TESTS = Path(__file__).parents[2]
NEMO = Path(sys.argv[1]).resolve()
# student, teacher, prep top-k, runtime top-k, switches. A prep top-k of 32 makes torch.topk take
# another algorithm on vocabularies below 2,048. llama2 and smol are no pair: transformers knows a plain
# added token that both have by its normalised form.
CASES = [
    ("deepseek", "llama2", 8, 4, []),
    ("llama2", "deepseek", 32, 4, []),
    ("smol", "deepseek", 8, 3, ["--disable-scale-trick"]),
    ("llama3", "unigram", 8, 4, ["--disable-reverse-pass"]),
    ("unigram", "metaspace", 8, 6, ["--disable-special-token-mapping"]),
    ("metaspace", "deepseek", 8, 4, ["--use-canonicalization"]),
    ("deepseek", "smol", 8, 4, []),
]


def folder(source, scratch, name):
    """A model's folder: the tokenizer, and a config with its size."""
    out = scratch / name
    out.mkdir()
    shutil.copyfile(source / "tokenizer.json", out / "tokenizer.json")
    # The class decides that transformers reads tokenizer.json as it is: a LlamaTokenizer would get
    # other components.
    (out / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}))
    size = len(AutoTokenizer.from_pretrained(out))
    (out / "config.json").write_text(json.dumps({"model_type": "gpt2", "vocab_size": size}))
    return out


def step(scratch, module, *arguments):
    env = dict(os.environ, PYTHONPATH=str(NEMO), CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1")
    subprocess.run([sys.executable, "-m", f"tools.x_token.{module}", *map(str, arguments)],
                   check=True, cwd=scratch, env=env, stdout=subprocess.DEVNULL,
                   stderr=subprocess.PIPE)


def build(student, teacher, prep_top_k, top_k, switches):
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        pair = ["--student-model", folder(student, scratch, "student"),
                "--teacher-model", folder(teacher, scratch, "teacher")]
        step(scratch, "minimal_projection_via_multitoken", *pair, "--top-k", prep_top_k,
             "--output-dir", ".", "--output-filename", "one", *switches)
        one = next(scratch.glob("one*.pt"))
        step(scratch, "reapply_exact_map", *pair, "--initial-projection-path", one)
        step(scratch, "sort_and_cut_projection_matrix", "--initial-projection-path",
             next(scratch.glob("*_remapped.pt")), "--top_k", top_k, "--output_path", "final.pt")
        return torch.load(scratch / "final.pt", weights_only=True)


def data_of(final):
    ids = final["indices"].to(torch.int32).numpy().tobytes()
    return ids, final["likelihoods"].view(torch.int16).numpy().tobytes()


def main():
    if len(sys.argv) > 2:
        ids, weights = data_of(build(Path(sys.argv[2]), Path(sys.argv[3]), 32, 4, []))
        print("ids", zlib.crc32(ids), "weights", zlib.crc32(weights))
        return
    golden = []
    for student, teacher, prep_top_k, top_k, switches in CASES:
        data = TESTS / "data/tokenizers"
        final = build(data / student, data / teacher, prep_top_k, top_k, switches)
        ids, weights = data_of(final)
        golden.append({"student": student, "teacher": teacher, "prep_top_k": prep_top_k,
                       "top_k": top_k, "switches": switches, "rows": final["indices"].shape[0],
                       "ids": base64.b64encode(ids).decode(),
                       "weights": base64.b64encode(weights).decode()})
    final["student_model_id"], final["teacher_model_id"] = student, teacher
    torch.save(final, TESTS / "golden/projection_dense.pt")
    # 20 more rows, as of a padded embedding, and the largest weight alone.
    rows = torch.cat([torch.arange(len(final["indices"])), torch.zeros(20, dtype=torch.long)])
    torch.save({key: final[key][rows, :1].clone() for key in ("indices", "likelihoods")},
               TESTS / "golden/projection_padded.pt")
    torch.save({(5, 7): 3.0, (5, 9): 1, (0, 2): 2.5, (698, 0): 1.0},
               TESTS / "golden/projection_sparse.pt")
    (TESTS / "golden/projections.json").write_text(
        "[\n" + ",\n".join(json.dumps(case) for case in golden) + "\n]\n")


main()
