"""Writes tests/golden/kd_by_hand.json: every form of a distillation loss on chunks of 1, 2 and 9 tokens.

Each loss is its formula in docs/distillation.md, written out once for one chunk in plain Python floats,
without tensors. Run: python3 kd_by_hand.py ../kd_by_hand.json
"""

import itertools
import json
import math
import sys

SIZES = [(1, 1), (2, 1), (1, 2), (9, 2), (2, 9), (9, 9)]  # tokens of a chunk, student and teacher
VS, VT = 4, 5
PROJECTION = [[(1, 1.0)], [(2, 0.5), (3, 0.5)], [(2, 0.75), (4, 0.25)], [(0, 1.0)]]  # by student token
COMMON = [(0, 1), (3, 0)]  # equal tokens, student and teacher
BETA = 0.5
EPS = 1e-10  # X-Token adds it to a projected distribution and its sum


def rows(count, columns, seed):
    """Probabilities without a pattern that a permutation or a sum would hide."""
    out = []
    for r in range(count):
        weights = [1 + (seed * 7 + r * 13 + v * v * 5 + r * v * 3) % 23 for v in range(columns)]
        out.append([w / sum(weights) for w in weights])
    return out


def softened(row, tau):
    powers = [p ** (1 / tau) for p in row]
    return [x / sum(powers) for x in powers]


def mean_of(kind, chunk, targets):
    n, columns = len(chunk), range(len(chunk[0]))
    if n == 1:
        return list(chunk[0])
    if kind == "arithmetic":
        return [sum(row[v] for row in chunk) / n for v in columns]
    if kind == "geometric":
        return [math.exp(sum(math.log(row[v]) for row in chunk) / n) for v in columns]
    later = math.prod(max(row[y], 1e-8) for row, y in zip(chunk[1:], targets[1:]))
    return [p * later for p in chunk[0]]


def normalised(values):
    return [x / sum(values) for x in values]


def kl(p, q):
    return sum(a * math.log(a / b) for a, b in zip(p, q))


def top(chunk, k):
    """The k columns of the highest mean log-probability; of equal ones the lowest."""
    score = [sum(math.log(row[v]) for row in chunk) for v in range(len(chunk[0]))]
    return sorted(sorted(range(len(score)), key=lambda v: (-score[v], v))[:k])


def sorted_rest(p, q, length):
    p, q = sorted(p, reverse=True), sorted(q, reverse=True)
    p, q = (x + [0.0] * (length - len(x)) for x in (p, q))
    return sum(abs(a - b) for a, b in zip(p[:length], q[:length]))


def p_kl(s, t, ys, yt, o):
    S = top(t, o["topk"])
    # Both sides are normalised after the mean, so a chain's later tokens divide out.
    P = s[0] if o["mean"] == "chain" else mean_of(o["mean"] or "arithmetic", s, ys)
    A = [0.0] * VT
    for i, entries in enumerate(PROJECTION):
        for j, weight in entries:
            A[j] += weight * P[i]
    total = sum(A[j] for j in S) + EPS
    A = [A[j] / total + EPS for j in S]
    if o["mean"]:
        Q = mean_of(o["mean"], t, yt)
        L = [math.log(x) for x in normalised([Q[j] for j in S])]
    else:  # token by token, then the mean of the logs
        each = [normalised([row[j] for j in S]) for row in t]
        L = [sum(math.log(row[i]) for row in each) / len(each) for i in range(len(S))]
    if o["reverse"]:
        return sum(a * (math.log(a) - l) for a, l in zip(A, L))
    return sum(math.exp(l) * (l - math.log(a)) for a, l in zip(A, L))


def gold(s, t, ys, yt, o):
    P, Q = (mean_of(o["mean"] or "geometric", x, y) for x, y in ((s, ys), (t, yt)))
    p, q = [P[i] for i, _ in COMMON], [Q[j] for _, j in COMMON]
    rest_p = [P[i] for i in range(VS) if i not in [c[0] for c in COMMON]]
    rest_q = [Q[j] for j in range(VT) if j not in [c[1] for c in COMMON]]
    length = min(len(rest_p), len(rest_q), o["topk"])
    return (kl(p, q) if o["reverse"] else kl(q, p)) + sorted_rest(rest_p, rest_q, length)


def uld(s, t, ys, yt, o):
    P, Q = (mean_of(o["mean"] or "chain", x, y) for x, y in ((s, ys), (t, yt)))
    return sorted_rest(P, Q, max(VS, VT))


def hybrid(s, t, ys, yt, o):
    P, Q = (mean_of(o["mean"] or "chain", x, y) for x, y in ((s, ys), (t, yt)))
    p, q = [P[i] for i, _ in COMMON], [Q[j] for _, j in COMMON]
    middle = [(1 - BETA) * a + BETA * b for a, b in zip(p, q)]
    jsd = BETA * kl(q, middle) + (1 - BETA) * kl(p, middle)
    rest_p = [P[i] for i in range(VS) if i not in [c[0] for c in COMMON]]
    rest_q = [Q[j] for j in range(VT) if j not in [c[1] for c in COMMON]]
    w = len(COMMON) / VT
    return w * jsd + (1 - w) * sorted_rest(rest_p, rest_q, max(len(rest_p), len(rest_q)))


def one_vocabulary(s, t, ys, yt, o):
    S = top(t, o["topk"])
    P, Q = (mean_of(o["mean"] or "geometric", x, y) for x, y in ((s, ys), (t, yt)))
    p, q = normalised([P[v] for v in S]), normalised([Q[v] for v in S])
    return kl(p, q) if o["reverse"] else kl(q, p)


LOSSES = {"p-kl": p_kl, "gold": gold, "h-kl": gold, "uld": uld, "hybrid": hybrid,
          "topk": one_vocabulary, "full": one_vocabulary}
MEANS = [None, "arithmetic", "geometric", "chain"]


def cases():
    for name, tau, reverse, mean in itertools.product(LOSSES, [1.0, 1.5], [False, True], MEANS):
        if reverse and name in ("uld", "hybrid"):
            continue  # they have no direction
        same = name in ("topk", "full")
        o = {"topk": {"p-kl": 3, "topk": 2, "full": VS}.get(name, 8192), "reverse": reverse, "mean": mean}
        losses = []
        for c, (n, m) in enumerate(SIZES):
            if same:
                m = n
            s = [softened(row, tau) for row in rows(n, VS, c)]
            t = [softened(row, tau) for row in rows(m, VS if same else VT, c + 10)]
            ys, yt = ([(c + r) % v for r in range(k)] for k, v in ((n, VS), (m, VS if same else VT)))
            squared = 1.0 if name in ("uld", "hybrid") else tau * tau
            losses.append(squared * LOSSES[name](s, t, ys, yt, o))
        yield {"name": name, "temperature": tau, "loss": losses, **o}


def main(path):
    side = lambda columns, which, seed: [rows(n[which], columns, c + seed) for c, n in enumerate(SIZES)]
    golden = {"sizes": SIZES, "student": side(VS, 0, 0), "teacher": side(VT, 1, 10),
              "same": side(VS, 0, 10), "projection": PROJECTION, "common": COMMON, "cases": list(cases())}
    with open(path, "w") as out:
        json.dump(golden, out, indent=1)
        out.write("\n")


main(sys.argv[1])
