"""Writes tests/golden/lua_ops.json: expressions in the syntax of recipes, with PyTorch's results.

Made with torch 2.11.0 (CPU). Run from the repository: python tests/golden/make/lua_ops.py
"""
import json
import pathlib

import torch

# name: (Lua expression, PyTorch's value). x, y, i, m are in scope on both sides.
x = torch.arange(12, dtype=torch.float32).view(3, 4) / 7 - 0.5
y = torch.arange(12, dtype=torch.float32).flip(0).view(3, 4) / 5
i = torch.tensor([2, 0])
m = x > 0.2
F = torch.nn.functional

CASES = [
    ("x:sum()", x.sum()),
    ("x:sum(1)", x.sum(1)),
    ("x:sum({0, 1}, {keepdim = true})", x.sum((0, 1), keepdim=True)),
    ("x:mean{dim = -1}", x.mean(dim=-1)),
    ("x:std(0)", x.std(0)),
    ("x:std{dim = 1, correction = 0}", x.std(dim=1, correction=0)),
    ("x:var()", x.var()),
    ("x:norm()", x.norm()),
    ("x:norm(1, 1)", x.norm(1, 1)),
    ("x:logsumexp(1)", x.logsumexp(1)),
    ("x:log_softmax(-1)", x.log_softmax(-1)),
    ("x:softmax(0)", x.softmax(0)),
    ("x:log_sigmoid()", F.logsigmoid(x)),
    ("xrun.softplus(x, {beta = 2})", F.softplus(x, beta=2)),
    ("x:relu()", x.relu()),
    ("xrun.gelu(x, {approximate = 'tanh'})", F.gelu(x, approximate="tanh")),
    ("x:clamp(-0.2, 0.8)", x.clamp(-0.2, 0.8)),
    ("x:clamp{max = 0}", x.clamp(max=0)),
    ("x:clamp(y, y + 1)", x.clamp(y, y + 1)),
    ("x:minimum(y)", x.minimum(y)),
    ("xrun.where(m, x, 0)", torch.where(m, x, 0)),
    ("x:where(m, y)", x.where(m, y)),
    ("x:masked_fill(m, -1e9)", x.masked_fill(m, -1e9)),
    ("x:masked_select(m)", x.masked_select(m)),
    ("x:gather(0, xrun.tensor{{0, 1, 2, 0}})", x.gather(0, torch.tensor([[0, 1, 2, 0]]))),
    ("x:index_select(0, i)", x.index_select(0, i)),
    ("x:index_add(0, i, y[{{0, 2}}])", x.index_add(0, i, y[:2])),
    ("xrun.zeros(3):scatter(0, i, 5)", torch.zeros(3).scatter(0, i, 5)),
    ("x[i]", x[i]),
    ("x[{{}, i}]", x[:, i]),
    ("x[{1, {1, 3}}]", x[1, 1:3]),
    ("x[-1]", x[-1]),
    ("x:t():contiguous():view(-1)", x.t().contiguous().view(-1)),
    ("x:permute(1, 0)", x.permute(1, 0)),
    ("x:reshape{2, 6}", x.reshape(2, 6)),
    ("x:unsqueeze(1):expand({3, 2, 4})", x.unsqueeze(1).expand(3, 2, 4)),
    ("x:tile{2, 1}", x.tile((2, 1))),
    ("x:flip(0, 1)", x.flip(0, 1)),
    ("x:roll(1, 0)", x.roll(1, 0)),
    ("x:cumsum(1)", x.cumsum(1)),
    ("x:diff()", x.diff()),
    ("x:sort(1, true)", x.sort(1, True)[0]),
    ("x:argmax(1)", x.argmax(1)),
    ("(x:topk(2, 1))", x.topk(2, 1)[0]),
    ("x:quantile(0.25, 1)", x.quantile(0.25, 1)),
    ("xrun.cat({x, y}, 1)", torch.cat([x, y], 1)),
    ("xrun.stack({x, y})", torch.stack([x, y])),
    ("x:split({1, 3}, 1)[2]", x.split([1, 3], 1)[1]),
    ("x:chunk(2, 1)[1]", x.chunk(2, 1)[0]),
    ("x:matmul(y:t())", x.matmul(y.t())),
    ("xrun.einsum('ij,ij->i', {x, y})", torch.einsum("ij,ij->i", x, y)),
    ("xrun.addmm(xrun.ones(3, 3), x, y:t(), {beta = 2, alpha = 0.5})",
     torch.addmm(torch.ones(3, 3), x, y.t(), beta=2, alpha=0.5)),
    ("x:pow(2)", x.pow(2)),
    ("2 ^ x", 2 ** x),
    ("1 / (y + 1)", 1 / (y + 1)),
    ("x:div(0.3, {rounding_mode = 'floor'})", x.div(0.3, rounding_mode="floor")),
    ("x % 0.3", x % 0.3),
    ("x:fmod(0.3)", x.fmod(0.3)),
    ("x:gt(y):any(1)", x.gt(y).any(1)),
    ("x:eq(x):all()", x.eq(x).all()),
    ("x:isnan():sum()", x.isnan().sum()),
    ("x:to('bf16'):float()", x.to(torch.bfloat16).float()),
    ("x:to(xrun.i64)", x.to(torch.int64)),
    ("xrun.arange(2, 11, 3)", torch.arange(2, 11, 3)),
    ("xrun.linspace(0, 1, 5)", torch.linspace(0, 1, 5)),
    ("xrun.full({2, 2}, 7)", torch.full((2, 2), 7)),
    ("xrun.full({2}, 0.5)", torch.full((2,), 0.5)),
    ("xrun.eye(3)", torch.eye(3)),
    ("xrun.tril(xrun.ones(3, 3), -1)", torch.tril(torch.ones(3, 3), -1)),
    ("xrun.one_hot(i, 3)", F.one_hot(i, 3)),
    ("xrun.bincount(i, {minlength = 4})", torch.bincount(i, minlength=4)),
    ("xrun.pad(x, {1, 0}, {value = 9})", F.pad(x, (1, 0), value=9)),
    ("xrun.cross_entropy_loss(x, xrun.tensor{0, 1, 3}, {reduction = 0})",
     F.cross_entropy(x, torch.tensor([0, 1, 3]), reduction="none")),
    ("xrun.kl_div(x, y:softmax(1), {reduction = 0})",
     F.kl_div(x, y.softmax(1), reduction="none")),
    ("xrun.layer_norm(x, {4})", F.layer_norm(x, (4,))),
    ("xrun.embedding(x, i)", F.embedding(i, x)),
    ("xrun.searchsorted(xrun.tensor{1.5, 2.5, 3.5}, y:view(-1))",
     torch.searchsorted(torch.tensor([1.5, 2.5, 3.5]), y.view(-1))),
    ("xrun.repeat_interleave(i, 2)", i.repeat_interleave(2)),
    ("x:median()", x.median()),
    ("xrun.segment_reduce(y:view(-1), 'sum', {lengths = xrun.tensor{5, 7}})",
     torch.segment_reduce(y.view(-1), "sum", lengths=torch.tensor([5, 7]))),
]


def main():
    rows = [{"lua": lua, "dtype": str(value.dtype).removeprefix("torch."),
             "shape": list(value.shape), "values": value.double().flatten().tolist()}
            for lua, value in CASES]
    path = pathlib.Path(__file__).parents[1] / "lua_ops.json"
    text = ",\n".join(json.dumps(row) for row in rows)
    path.write_text('{"made_with": "torch ' + torch.__version__ + '", "cases": [\n' + text + "\n]}\n")


if __name__ == "__main__":
    main()
