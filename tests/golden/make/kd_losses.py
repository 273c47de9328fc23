"""Writes tests/golden/kd_losses.json: distillation losses and their gradients, in fp64.

p-kl, gold, h-kl, topk and full come from NeMo-RL's own loss methods at commit 7ea279abf, read out of a
checkout's source and run without its process groups; uld and hybrid from TRL 1.16's ULDLoss. Made with
torch 2.11. Run: python kd_losses.py NEMO_CHECKOUT ../kd_losses.json

Every case is a mean over chunks: "chunks" lists those that enter, "loss" is their mean, "gradient" its
gradient with respect to the student's logits. NeMo chooses its columns by the largest raw logit of a
micro-batch, so a case with fewer columns than the vocabulary has one chunk with one teacher token.
"""

import ast
import json
import os
import pathlib
import sys
import types
from dataclasses import dataclass, fields
from typing import Any, Dict, Mapping, Optional, Tuple, Union

import torch
from trl.experimental.gold.gold_trainer import ULDLoss

VS, VT = 11, 13
SIZES = [(1, 1), (2, 1), (1, 3), (9, 2), (2, 9), (1, 1)]  # tokens of a chunk, student and teacher
LOW = -1e4  # logits of the position after the last row, which no loss may read

# Only the widening to fp64 differs from the published code.
torch.Tensor.float = lambda self: self if self.is_floating_point() else self.double()


def taken(path, names):
    """The named functions and methods of a file, as source nodes."""
    found = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in names:
            found[node.name] = node
    missing = set(names) - set(found)
    assert not missing, missing
    return list(found.values())


def nemo(checkout):
    root = pathlib.Path(checkout) / "nemo_rl"
    space = {
        "torch": torch, "Any": Any, "Dict": Dict, "Mapping": Mapping, "Optional": Optional,
        "Tuple": Tuple, "Union": Union, "dataclass": dataclass, "fields": fields, "os": os,
        "group_all_reduce_sum": lambda x, group=None: x,
        "group_all_reduce_sum_with_grad": lambda x, group=None: x,
        "to_local_if_dtensor": lambda x: x,
        "vocab_parallel_log_softmax": lambda x, t, tp_group=None: torch.log_softmax(x / t, -1),
        "vocab_parallel_full_log_softmax": lambda x, t, tp_group=None: torch.log_softmax(x / t, -1),
        "vocab_parallel_gather_columns": lambda x, i, tp_group=None: x[..., i],
        "_EXACT_TOKEN_MAP_CACHE": {},
    }
    nodes = taken(root / "algorithms/x_token/loss_utils.py", [
        "Fp32SparseMM", "chunk_log_prob_sums", "chunk_average_finalize", "chunk_average_log_probs",
        "slice_sparse_projection_cols", "project_student_to_teacher_vocab",
        "select_teacher_topk_indices", "LocalizedAlignment", "valid_chunk_mask",
        "build_exact_token_map"])
    nodes += taken(root / "distributed/model_utils.py", ["cp_shift_next"])
    nodes += taken(root / "algorithms/utils.py", ["masked_mean"])
    methods = ["_compute_p_kl", "_compute_gold", "_direct_topk_kl", "_direct_full_vocab_kl",
               "_same_vocab_masked_kl"]
    nodes += taken(root / "algorithms/loss/loss_functions.py", methods)
    exec(compile(ast.Module(nodes, []), "nemo", "exec"), space)
    return space, methods


def first_rows(side):
    firsts = [0]
    for sizes in SIZES:
        firsts.append(firsts[-1] + sizes[side])
    return firsts


def rows_of(chunks, side):
    firsts = first_rows(side)
    return [r for c in chunks for r in range(firsts[c], firsts[c + 1])]


def projection():
    """Rows of up to three teacher tokens: exact ones, splits, a collision and an empty row."""
    rows = [[(2, 1.0)], [(0, 1.0)], [(5, 10 / 11), (6, 1 / 11)], [(7, 0.62), (1, 0.38)], [(2, 1.0)],
            [(9, 0.5), (10, 0.3), (11, 0.2)], [], [(12, 1.0)], [(3, 0.7), (4, 0.3)], [(3, 0.65), (8, 0.35)],
            [(11, 1.0)]]
    indices = torch.full((VS, 3), -1)
    likelihoods = torch.zeros(VS, 3)  # fp32, as in a file
    for s, row in enumerate(rows):
        for k, (t, w) in enumerate(row):
            indices[s, k], likelihoods[s, k] = t, w
    return indices, likelihoods


def draw():
    generator = torch.Generator().manual_seed(11)
    new = lambda rows, v: torch.randn(rows, v, generator=generator, dtype=torch.double) * 2
    data = {"student": new(first_rows(0)[-1], VS), "teacher": new(first_rows(1)[-1], VT),
            "same": new(first_rows(0)[-1], VS)}  # a teacher of the student's own tokens
    ids = lambda rows, v: torch.randint(0, v, (rows,), generator=generator)
    data["student_target"] = ids(first_rows(0)[-1], VS)
    data["teacher_target"] = ids(first_rows(1)[-1], VT)
    return {name: torch.tensor([[float(f"{x:.6f}") for x in row] for row in value.tolist()],
                               dtype=torch.double) if value.dim() == 2 else value
            for name, value in data.items()}


class Nemo:
    def __init__(self, checkout):
        self.space, methods = nemo(checkout)
        self.indices, self.likelihoods = projection()
        rows, slots = torch.where(self.indices >= 0)
        sparse = torch.sparse_coo_tensor(torch.stack([rows, self.indices[rows, slots]]),
                                         self.likelihoods[rows, slots].double(), (VS, VT)).coalesce()
        self.space["get_sparse_projection_matrix"] = lambda *a, **k: sparse
        self.space["get_topk_projection"] = lambda *a, **k: (self.indices, self.likelihoods)
        self.loss = types.SimpleNamespace(student_vocab_size=VS, exact_token_match_only=False)
        for name in methods:
            setattr(self.loss, name, types.MethodType(self.space[name], self.loss))

    def common(self, relaxed):
        made = self.space["build_exact_token_map"]("", torch.device("cpu"), xtoken_loss=relaxed,
                                                   teacher_vocab_size=VT)
        return torch.stack([made["common_student"], made["common_teacher"]], 1).tolist()

    def run(self, name, student, teacher, chunks, temperature, reverse, k):
        loss = self.loss
        loss.temperature, loss.reverse_kl, loss.vocab_topk, loss.uncommon_topk = temperature, reverse, k, k
        after = lambda x, v: torch.cat([x, torch.full((1, v), LOW, dtype=torch.double)])[None]
        sides = [0, 1] if name in ("p-kl", "gold", "h-kl") else [0, 0]
        ids = [torch.tensor([[i for i, c in enumerate(chunks) for _ in range(SIZES[c][side])] + [-1]])
               for side in sides]
        rows = len(rows_of(chunks, 0))
        align = self.space["LocalizedAlignment"](
            sample_mask=torch.ones(1), student_chunk_id=ids[0], teacher_chunk_id=ids[1],
            pair_valid=torch.ones(1, len(chunks), dtype=torch.bool),
            student_token_mask=torch.ones(1, rows + 1, dtype=torch.long))
        s, t = after(student, student.shape[1]), after(teacher, teacher.shape[1])
        none = dict(tp_group=None, cp_group=None)
        if name == "p-kl":
            return loss._compute_p_kl(s, t, align, projection_matrix_path="", teacher_vocab_size=VT, **none)[0]
        if name in ("gold", "h-kl"):
            return loss._compute_gold(s, t, align, projection_matrix_path="", teacher_vocab_size=VT,
                                      xtoken_loss=name == "h-kl", **none)[0]
        method = loss._direct_topk_kl if name == "topk" else loss._direct_full_vocab_kl
        count = torch.tensor(rows, dtype=torch.double)
        return method(s, t, align, count, **none) * (1 + 1e-8 / rows)


def trl_loss(name, student, teacher, data, temperature, beta, common):
    loss = object.__new__(ULDLoss)
    torch.nn.Module.__init__(loss)
    loss.device = None
    loss.distillation_weight, loss.use_extended_uld, loss.ignore_index = 1.0, True, -100
    loss.student_temperature = loss.teacher_temperature = temperature
    loss.skip_student_eos = loss.skip_teacher_eos = False
    loss.token_merge_strategy = "observed"
    loss.use_hybrid_loss, loss._vocab_mapping = name == "hybrid", None
    if name == "hybrid":
        loss.hybrid_matched_weight = loss.hybrid_unmatched_weight = None
        loss.beta = beta
        loss._vocab_mapping = {t: s for s, t in common}
        loss._teacher_matched_ids = set(loss._vocab_mapping)
        loss._student_matched_ids = set(loss._vocab_mapping.values())
        loss.mapping_tensor = torch.full((VT,), -1)
        for t, s in loss._vocab_mapping.items():
            loss.mapping_tensor[t] = s
    # Both sides of chunk c end at byte 10 (c + 1); their other tokens end at different bytes.
    ends = [[[0, 10 * (c + 1) if k + 1 == size[side] else 10 * c + (0.25, 0.5)[side] + 0.9 * k]
             for c, size in enumerate(SIZES) for k in range(size[side])] for side in (0, 1)]
    labels = lambda rows: torch.zeros(1, rows, dtype=torch.long)
    return loss._compute_distillation_loss(
        student[None], teacher[None], labels(len(student)), labels(len(teacher)),
        data["student_target"][None], data["teacher_target"][None],
        student_byte_offsets=torch.tensor(ends[0])[None], teacher_byte_offsets=torch.tensor(ends[1])[None])


def main():
    data, peer = draw(), Nemo(sys.argv[1])
    common = {"gold": peer.common(False), "h-kl": peer.common(True)}
    everything = list(range(len(SIZES)))
    cases = []

    def add(name, chunks, temperature=1.0, reverse=False, k=VT, beta=0.5):
        student = data["student"][rows_of(chunks, 0)].clone().requires_grad_(True)
        if name in ("uld", "hybrid"):
            loss = trl_loss(name, student, data["teacher"], data, temperature, beta, common["gold"])
        else:
            teacher = (data["same"][rows_of(chunks, 0)] if name in ("topk", "full")
                       else data["teacher"][rows_of(chunks, 1)])
            loss = peer.run(name, student, teacher, chunks, temperature, reverse, k)
        loss.backward()
        cases.append({"name": name, "chunks": chunks, "temperature": temperature, "reverse": reverse,
                      "topk": k, "beta": beta, "loss": loss.item(),
                      "gradient": [[float(f"{x:.12g}") for x in row] for row in student.grad.tolist()]})

    for name in ("p-kl", "gold", "h-kl"):
        add(name, everything)
        add(name, everything, temperature=1.7)
        add(name, everything, reverse=True)
    add("gold", everything, k=2)
    for chunk in (0, 1, 5):
        add("p-kl", [chunk], k=4)
        add("p-kl", [chunk], k=4, temperature=0.6, reverse=True)
    one_token = [c for c in everything if SIZES[c][0] == 1]
    for name in ("topk", "full"):
        add(name, one_token, k=VS)
        add(name, one_token, k=VS, temperature=2.0, reverse=True)
    for chunk in one_token:
        add("topk", [chunk], k=3)
        add("topk", [chunk], k=3, reverse=True)
    add("uld", everything)
    add("uld", everything, temperature=1.3)
    for beta in (0.0, 0.3, 1.0):
        add("hybrid", everything, beta=beta)
    result = {"sizes": SIZES, "student": data["student"].tolist(), "teacher": data["teacher"].tolist(),
              "same": data["same"].tolist(), "student_target": data["student_target"].tolist(),
              "teacher_target": data["teacher_target"].tolist(),
              "projection": {"id": peer.indices.tolist(), "weight": peer.likelihoods.tolist()},
              "common": common, "cases": cases}
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in result.items() if key != "cases"]
    lines.append('"cases": [\n' + ",\n".join(json.dumps(case) for case in cases) + "\n]")
    pathlib.Path(sys.argv[2]).write_text("{\n" + ",\n".join(lines) + "\n}\n")
    for case in cases:
        print(case["name"], case["chunks"], case["temperature"], case["reverse"], case["topk"], case["loss"])


main()
