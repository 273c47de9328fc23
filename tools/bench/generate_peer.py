#!/usr/bin/env python3
"""Times `xrun sample` against transformers.generate, after checking that greedy ids agree.

    python3 tools/bench/generate_peer.py XRUN [PRESET...] [--batch N,N] [--pairs N] [--threads N]
                            [--prompt N] [--samples N] [--tokens N]

PRESET is tiny or mid (both if none is given), with random weights in fp32. Each prompt is --prompt random
tokens (64) and gets --samples answers (1) of --tokens tokens (64); nothing ends early. --batch counts
answers. Runs alternate, and each pair of runs reverses the order. xrun's time comes from its --rate line,
transformers' time is that of the call, which itself repeats a prompt for its samples; both exclude
loading the weights. transformers runs with sdpa attention, with a dynamic and with a static cache; the
faster of the two is the peer. Prints tokens/s and the ratio of each pair, median (lowest to highest).
Packages: transformers 5.23, torch.
"""
import argparse
import json
import os
import re
import subprocess
import tempfile
import time

from step_peer import ROOT, VOCAB, spread

TOKENIZER = ROOT / "tests/data/tiny_tokenizer"


class Ours:
    def __init__(self, arguments, folder, prompts):
        self.command = [arguments.xrun, "sample", "--model", folder, "--json", "--rate",
                        "--ignore-eos", "--max-new-tokens", str(arguments.tokens), "--batch",
                        str(len(prompts) * arguments.samples), "--samples", str(arguments.samples),
                        "--threads", str(arguments.threads)]
        self.rows = "".join(json.dumps({"ids": ids}) + "\n" for ids in prompts)

    def run(self, temperature):
        """Returns seconds and the ids of each answer."""
        done = subprocess.run([*self.command, "--temperature", str(temperature)], input=self.rows,
                              capture_output=True, text=True, check=True)
        seconds = float(re.search(r" in ([0-9.]+) s,", done.stderr).group(1))
        return seconds, [json.loads(line)["ids"] for line in done.stdout.splitlines()]


class Peer:
    def __init__(self, arguments, folder, prompts, cache):
        import torch
        import transformers
        self.torch = torch
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="sdpa")
        self.prompts = torch.tensor(prompts)
        self.samples = arguments.samples
        self.options = {"max_new_tokens": arguments.tokens, "pad_token_id": 0,
                        "eos_token_id": None, "attention_mask": torch.ones_like(self.prompts)}
        self.model.generation_config.eos_token_id = None
        if cache == "static":
            self.options["cache_implementation"] = "static"
            self.options["disable_compile"] = True

    def run(self, temperature):
        """Returns seconds and the ids of each answer; greedy decoding makes one answer per prompt."""
        draw = {"do_sample": True, "temperature": temperature, "top_k": 0,
                "num_return_sequences": self.samples} if temperature else {"do_sample": False}
        begin = time.perf_counter()
        with self.torch.no_grad():
            ids = self.model.generate(self.prompts, **draw, **self.options)
        return time.perf_counter() - begin, ids[:, self.prompts.shape[1]:].tolist()


def compare(arguments, preset, batch):
    import torch
    generator = torch.Generator().manual_seed(batch)
    prompts = torch.randint(300, VOCAB[preset], (batch // arguments.samples, arguments.prompt),
                            generator=generator).tolist()
    with tempfile.TemporaryDirectory() as work:
        folder = f"{work}/model"
        subprocess.run([arguments.xrun, "init-model", folder, "--preset", preset, "--vocab",
                        str(VOCAB[preset]), "--tokenizer", str(TOKENIZER)], check=True,
                       stdout=subprocess.DEVNULL)
        ours = Ours(arguments, folder, prompts)
        peers = {cache: Peer(arguments, folder, prompts, cache) for cache in ("dynamic", "static")}
        wanted = peers["dynamic"].run(0)[1]
        got = ours.run(0)[1]
        same = sum(a == b for a, b in zip(got[::arguments.samples], wanted))
        assert same == len(prompts), f"{preset}, batch {batch}: {len(prompts) - same} greedy answers differ"
        temperatures = (0, 1) if arguments.samples == 1 else (1,)
        cache = min(peers, key=lambda name: peers[name].run(temperatures[0])[0])
        for temperature in temperatures:
            rates = {"xrun": [], "peer": []}
            for pair in range(arguments.pairs):
                runs = {"xrun": ours, "peer": peers[cache]}
                for name in sorted(runs, reverse=pair % 2 == 0):
                    rates[name].append(batch * arguments.tokens / runs[name].run(temperature)[0])
            ratios = [a / b for a, b in zip(rates["xrun"], rates["peer"])]
            print(f"{preset}, batch {batch}, temperature {temperature}: xrun "
                  f"{spread(rates['xrun'], 0)} tokens/s, transformers ({cache} cache) "
                  f"{spread(rates['peer'], 0)}, ratio {spread(ratios, 2)}, "
                  f"{arguments.pairs} pairs; {same} of {same} greedy answers agree", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("xrun")
    parser.add_argument("presets", nargs="*", default=[])
    parser.add_argument("--batch", default="8,128")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    import torch
    import transformers
    torch.set_num_threads(arguments.threads)
    print(f"transformers {transformers.__version__}, torch {torch.__version__}, "
          f"{arguments.threads} threads, load {os.getloadavg()[0]:.2f}")
    for preset in arguments.presets or ["tiny", "mid"]:
        for batch in arguments.batch.split(","):
            compare(arguments, preset, int(batch))


main()
