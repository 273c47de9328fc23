#!/usr/bin/env python3
"""Writes tokenizer/: a byte-level BPE of 2,048 pieces, learnt from the texts of this folder.

The student of xdistill.lua reads through it, its teacher through a tokenizer of 49,152 pieces. Needs
the package `tokenizers` (0.23.3 made the files); the same texts give the same bytes:
    python3 recipes/data/make_tokenizer.py
"""

import json
import pathlib

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE / "tokenizer"
PIECES = 2048
END = "<|endoftext|>"


def texts():
    yield (HERE / "text.txt").read_text()
    for name in ("chats", "tasks", "preferences"):
        for line in (HERE / f"{name}.jsonl").open():
            yield from strings(json.loads(line))


def strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from strings(part)


def main():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=PIECES,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts(), trainer)
    OUT.mkdir(exist_ok=True)
    tokenizer.save(str(OUT / "tokenizer.json"), pretty=False)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END, "pad_token": END}
    (OUT / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")


if __name__ == "__main__":
    main()
