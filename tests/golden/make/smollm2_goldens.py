"""Writes smollm2.json: SmolLM2-135M-Instruct as transformers reads its GGUF file.

    python smollm2_goldens.py FILE.gguf [DATA]

For sequences of the wiki text it has the ids by the tokenizer that transformers builds from the file,
and some logits and the log-sum-exp of all logits at each sequence's last and middle position, in fp32.
Made with transformers 5.23.0, torch 2.11.0, gguf.
"""
import json
import pathlib
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

GOLDEN = pathlib.Path(__file__).resolve().parent.parent
LENGTHS = [1, 2, 17, 64, 333]
COLUMNS = list(range(0, 49152, 1009))


def main():
    gguf = pathlib.Path(sys.argv[1])
    data = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else GOLDEN.parents[2] / "shared/data")
    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    tokenizer = AutoTokenizer.from_pretrained(**source)
    model = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32).eval()
    text = (data / "text/wiki_en.txt").read_text(encoding="utf-8")
    texts, sequences, begin = [], [], 0
    for length in LENGTHS:
        piece = text[begin:begin + 6 * length]
        begin += len(piece)
        ids = tokenizer(piece, add_special_tokens=False)["input_ids"]
        texts.append({"text": piece, "ids": ids})
        ids = ids[:length]
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0]
        positions = sorted({len(ids) // 2, len(ids) - 1})
        sequences.append({
            "ids": ids, "positions": positions,
            "logits": [[logits[p, c].item() for c in COLUMNS] for p in positions],
            "logsumexp": [torch.logsumexp(logits[p].double(), 0).item() for p in positions]})
    out = {"columns": COLUMNS, "texts": texts, "sequences": sequences}
    (GOLDEN / "smollm2.json").write_text(json.dumps(out, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
