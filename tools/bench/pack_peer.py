#!/usr/bin/env python3
"""Times trl's best-fit-decreasing packing on the lengths that pack_bench wrote.

    pack_peer.py LENGTHS_FILE [CAPACITY] [RUNS]

Rows are lists of zeros of these lengths in a pyarrow table, as trl's trainer packs them. The output is
comparable with pack_bench's first line: the number of packs must be equal.
"""

import sys
import time

import numpy
import pyarrow
import trl
from trl.data_utils import _pack_bfd


def main():
    path = sys.argv[1]
    capacity = int(sys.argv[2]) if len(sys.argv) > 2 else 8192
    runs = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    lengths = numpy.loadtxt(path, dtype=numpy.int64)
    offsets = numpy.concatenate([[0], numpy.cumsum(lengths)]).astype(numpy.int64)
    ids = pyarrow.LargeListArray.from_arrays(offsets, numpy.zeros(offsets[-1], dtype=numpy.int32))
    table = pyarrow.table({"input_ids": ids})
    rates = []
    for _ in range(runs):
        begin = time.perf_counter()
        packed = _pack_bfd(table, capacity)
        rates.append(len(lengths) / (time.perf_counter() - begin) / 1e6)
    fill = lengths.sum() / len(packed) / capacity
    rates.sort()
    print(f"trl {trl.__version__}: {len(lengths)} sequences into {len(packed)} packs of {capacity}, "
          f"{100 * fill:.3f} % full: {rates[len(rates) // 2]:.3f} "
          f"({rates[0]:.3f} to {rates[-1]:.3f}) M sequences/s, {runs} runs")


main()
