"""Writes tests/golden/adamw.json: updates of torch.optim.AdamW with clip_grad_norm_, and the factors
of transformers' get_*_schedule_with_warmup.

Made with torch 2.11.0, transformers 5.23. Run: python adamw_goldens.py ../adamw.json
"""

import json
import math
import sys

import torch
import transformers

SHAPES = {"matrix": (3, 5), "bias": (7,), "late": (2, 2)}
STEPS = 6


def updates(lr, betas, eps, weight_decay, clip, seed):
    torch.manual_seed(seed)
    params = {name: torch.nn.Parameter(torch.randn(shape)) for name, shape in SHAPES.items()}
    start = {name: p.detach().flatten().tolist() for name, p in params.items()}
    decayed = [p for p in params.values() if p.dim() > 1]
    plain = [p for p in params.values() if p.dim() <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": weight_decay}, {"params": plain, "weight_decay": 0.0}],
        lr=lr, betas=betas, eps=eps)
    steps = []
    for k in range(STEPS):
        grads = {}
        for name, p in params.items():
            p.grad = None
            if name == "late" and k < 2:  # a weight without gradient is skipped
                continue
            p.grad = torch.randn(p.shape) * (10.0 ** (k % 3 - 1))
            grads[name] = p.grad.flatten().tolist()
        lr_now = lr * (1 - k / STEPS)
        for group in optimizer.param_groups:
            group["lr"] = lr_now
        if clip > 0:
            norm = torch.nn.utils.clip_grad_norm_(params.values(), clip)
        else:
            norm = torch.nn.utils.get_total_norm([p.grad for p in params.values() if p.grad is not None])
        optimizer.step()
        steps.append({"lr": lr_now, "grads": grads, "grad_norm": norm.item(),
                      "after": {name: p.detach().flatten().tolist() for name, p in params.items()}})
    return {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "clip": clip,
            "start": start, "steps": steps}


def schedules():
    makers = {"constant": lambda o, w, n: transformers.get_constant_schedule_with_warmup(o, w),
              "linear": transformers.get_linear_schedule_with_warmup,
              "cosine": transformers.get_cosine_schedule_with_warmup}
    rows = []
    for name, make in makers.items():
        for warmup, total in [(0, 10), (3, 10), (0.1, 30), (0.07, 30), (10, 10), (0, 1), (0.5, 1)]:
            steps = int(warmup) if warmup >= 1 else math.ceil(total * warmup)
            optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
            schedule = make(optimizer, steps, total)
            factors = []
            for _ in range(total):
                factors.append(optimizer.param_groups[0]["lr"])
                optimizer.step()
                schedule.step()
            rows.append({"schedule": name, "warmup": warmup, "steps": total, "factors": factors})
    return rows


golden = {"made_with": {"torch": torch.__version__, "transformers": transformers.__version__},
          "shapes": {name: list(shape) for name, shape in SHAPES.items()},
          "runs": [updates(1e-2, (0.9, 0.999), 1e-8, 0.0, 0.0, 1),
                   updates(3e-2, (0.8, 0.95), 1e-6, 0.1, 0.5, 2),
                   updates(1e-3, (0.9, 0.98), 1e-8, 0.01, 100.0, 3)],
          "schedules": schedules()}
with open(sys.argv[1], "w") as out:
    json.dump(golden, out)
    out.write("\n")
