#!/usr/bin/env python3
"""Writes tests/golden/tensorboard_events.bin with TensorBoard's writer (tensorboard 2.21.0). With
`check DIR` it reads a folder that xrun wrote through TensorBoard's reader and prints its values.

    python tensorboard_events.py            writes the golden file
    python tensorboard_events.py check DIR  prints "tag step value" lines
"""
import pathlib
import sys

from tensorboard.backend.event_processing import event_accumulator
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.record_writer import RecordWriter

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tensorboard_events.bin"


def make():
    scalars = [("train/loss", 0.6931471805599453), ("valid/a b/accuracy", 0.5), ("ü", -1e30)]
    with open(GOLDEN, "wb") as file:
        writer = RecordWriter(file)
        for wall_time, step in ((1700000000.25, 0), (1700000001.5, 1), (1700000002.75, 300)):
            values = [summary_pb2.Summary.Value(tag=t, simple_value=v) for t, v in scalars]
            event = event_pb2.Event(
                wall_time=wall_time, step=step, summary=summary_pb2.Summary(value=values))
            writer.write(event.SerializeToString())


def check(folder):
    reader = event_accumulator.EventAccumulator(folder, size_guidance={"scalars": 0})
    reader.Reload()
    for tag in reader.Tags()["scalars"]:
        for event in reader.Scalars(tag):
            print(tag, event.step, f"{event.value:.9g}")


if __name__ == "__main__":
    check(sys.argv[2]) if sys.argv[1:2] == ["check"] else make()
