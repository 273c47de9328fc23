"""Runs small recipes on several ranks, for the dist_*.py checks of this folder.

They run in a folder that prepare() fills with a dense model "tiny", a mixture of experts "moe", and a
"teacher" with another tokenizer.
"""
import array, json, os, shutil, signal, subprocess, tempfile, threading, time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
XRUN = os.path.join(os.environ.get("XRUN_BUILD", ROOT + "/build"), "bin/xrun")
REWARD = [f"data.1.path={ROOT}/tests/data/pairs.jsonl", "batch.max_tokens=240", "optim.lr=1e-3",
          "valid.every=7"]
PAIRS = REWARD + ["answers=0"]
# By name: recipe, model and settings. A step has fewer than 7 micro-batches, so 7 ranks exceed them.
RECIPES = {
    "dpo": ("dpo", "tiny", PAIRS + ["batch.pairs=5"]),
    "one_pair": ("dpo", "tiny", PAIRS + ["batch.pairs=1"]),
    "sft": ("sft", "tiny", [f"data.1.path={ROOT}/recipes/data/chats.jsonl",
                            f"data.2.path={ROOT}/recipes/data/tasks.jsonl", "template=chatml",
                            "batch.sequences=9", "batch.max_tokens=900", "optim.lr=1e-3",
                            "valid.every=7"]),
    "grpo": ("grpo", "tiny", [f"data.1.path={ROOT}/recipes/data/sums.jsonl", "template=chatml",
                              "sampling.max_tokens=6", "batch.prompts=3", "batch.max_tokens=80",
                              "optim.lr=1e-3", "valid.every=9"]),
    "distill": ("xdistill", "tiny", ["teacher=teacher", f"data.1.path={ROOT}/recipes/data/text.txt",
                                     "max_length=64", "over_length=cut", "batch.sequences=5",
                                     "batch.max_tokens=150",
                                     "optim.lr=1e-3", "valid.every=9"]),
    "moe": ("dpo", "moe", PAIRS + ["batch.pairs=5", "moe.aux=0.01"]),
    "part": ("dpo", "tiny", PAIRS + ["batch.pairs=5", 'train={ "*.mlp.*", "*norm*" }']),
    "reward": ("reward", "tiny", REWARD + ["batch.pairs=5"]),
}


def prepare(name):
    """Makes a folder for one check, enters it and returns it; the caller removes it."""
    work = tempfile.mkdtemp(prefix=name)
    os.environ.update(XRUN_CACHE=work + "/cache", OMP_NUM_THREADS="1")
    os.chdir(work)
    sizes = ["--layers", "2", "--hidden", "32", "--heads", "2", "--kv-heads", "1"]
    tokenizers = ROOT + "/tests/data/"
    for model in (["tiny", "--ffn", "64", "--tokenizer", tokenizers + "tiny_tokenizer"],
                  ["moe", "--preset", "moe-8", "--tokenizer", tokenizers + "tiny_tokenizer"],
                  ["teacher", "--ffn", "64", "--tokenizer", tokenizers + "tokenizers/smol"]):
        subprocess.run([XRUN, "init-model"] + model + sizes, check=True, stdout=subprocess.DEVNULL)
    return work


def command(ranks, name, settings=(), options=()):
    """Returns the command that runs a recipe on `ranks` ranks; 0: one process without a launcher."""
    recipe, model, own = RECIPES[name]
    if not recipe.endswith(".lua"):
        recipe = f"{ROOT}/recipes/{recipe}.lua"
    start = [XRUN, "launch", "-n", str(ranks)] if ranks else [XRUN]
    sets = [word for one in [f"model={model}"] + own + list(settings) for word in ("--set", one)]
    return start + [recipe, "--threads", "1"] + sets + list(options)


def run(words, check=True, **options):
    """Runs a command; returns its status and output."""
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", **options)
    if check and done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}\n{done.stdout}\nstatus {done.returncode}")
    return done.returncode, done.stdout


def metrics(folder):
    """Returns one dict per line of a run's metrics, without times."""
    with open(folder + "/metrics.jsonl") as file:
        return [{key: value for key, value in json.loads(line).items()
                 if not key.startswith("perf/")} for line in file]


def floats(path):
    """Returns the fp32 tensors of a safetensors file by name, None for those of other types."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    header.pop("__metadata__", None)
    found = {}
    for name, tensor in header.items():
        begin, end = tensor["data_offsets"]
        found[name] = array.array("f", data[begin:end]) if tensor["dtype"] == "F32" else None
    return found


def same_file(one, other):
    with open(one, "rb") as a, open(other, "rb") as b:
        return a.read() == b.read()


def same_run(one, other):
    """Returns True if two runs have the same metrics and weights, bit for bit."""
    return (metrics(one) == metrics(other) and
            same_file(one + "/hf/model.safetensors", other + "/hf/model.safetensors"))


class Started:
    """A run in the background: its output with the time of each line, and its processes."""

    def __init__(self, words):
        self.lines = []
        self.child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True, errors="replace")
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.child.stdout:
            self.lines.append((time.monotonic(), line.rstrip("\n")))

    def text(self):
        return "\n".join(line for _, line in list(self.lines))

    def when(self, part):
        """Returns the time of the first line with this text, None if there is none yet."""
        return next((at for at, line in list(self.lines) if part in line), None)

    def ranks(self):
        """Returns the processes of the running ranks by their number."""
        found = {}
        for pid in descendants(self.child.pid):
            try:
                with open(f"/proc/{pid}/environ") as file:
                    names = dict(word.split("=", 1) for word in file.read().split("\0") if "=" in word)
                found.setdefault(int(names["RANK"]), pid)
            except (OSError, KeyError):
                pass
        return found

    def end(self, limit_s):
        """Returns the status; None if the run did not end within the limit and was killed."""
        try:
            status = self.child.wait(limit_s)
        except subprocess.TimeoutExpired:
            for pid in descendants(self.child.pid) + [self.child.pid]:
                kill(pid, signal.SIGKILL)
            self.child.wait()
            return None
        self.reader.join(5)
        return status


def descendants(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            children = [int(word) for word in file.read().split()]
    except OSError:
        return []
    return children + [below for child in children for below in descendants(child)]


def kill(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def alive(pids):
    """Returns the processes that have not ended."""
    left = []
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rsplit(")", 1)[1].split()[0] != "Z":
                    left.append(pid)
        except OSError:
            pass
    return left


def wait_until(condition, limit_s):
    """Waits for a condition; returns False if it does not hold within the limit."""
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def lines_of(path):
    try:
        with open(path, "rb") as file:
            return file.read().count(b"\n")
    except OSError:
        return 0


def clean(*folders):
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
