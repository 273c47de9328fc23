#!/usr/bin/env python3
"""Runs the recipes of tests/hostile as recipes that are not trusted.

  hostile.py XRUN WORK together     those that an error ends, in one process, under pcall
  hostile.py XRUN WORK alone [N]    each in a separate process, N at a time
  hostile.py XRUN WORK trusted [N]  recursion, parser, operators, errors, primitives and metatables
                                    without limits; they may end in any way but by a signal

$HOSTILE is a prefix: only recipes whose names begin with it run.
The first line of a recipe says what must happen:
  -- expect: [alone] error TEXT     the recipe fails with TEXT, status 1 or 2; only an error without
                                    a message omits TEXT, since a typo would pass too
  -- expect: [alone] ended TEXT     a limit ends it with TEXT, status 1
  -- expect: [alone] harmless       it runs to its end, status 0
"alone" marks those that need a separate process. In every case the folder outside keeps its bytes,
nothing of it is printed, no escape byte reaches the output, and no signal ends a process.
"""
import concurrent.futures, glob, hashlib, os, re, shutil, subprocess, sys

CORPUS = os.path.join(os.path.dirname(__file__), "..", "hostile")
SECRET = "CANARY-SECRET"
TOGETHER = ("files processes bytecode debug jit metatables addresses environments operators "
            "primitives errors").split()


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def prepare(work):
    """Makes work/outside, which no recipe may read or change, and work/recipe, where they run."""
    outside, recipe = work + "/outside", work + "/recipe"
    for name in ("secret.txt", "keep", "secret.jinja"):
        write(f"{outside}/{name}", SECRET + "\n")
    write(f"{outside}/secret.jsonl", '{"text": "%s"}\n' % SECRET)
    write(f"{outside}/secret.lua",
          'local cfg = xrun.config { answers = "%s" }\nreturn "%s"\n' % (SECRET, SECRET))
    shutil.copytree(work + "/tiny", outside + "/model")
    shutil.copytree(work + "/tiny", recipe + "/tiny")
    shutil.copytree(work + "/tiny", recipe + "/mixed_model")
    os.remove(recipe + "/mixed_model/tokenizer.json")
    os.symlink(outside + "/model/tokenizer.json", recipe + "/mixed_model/tokenizer.json")
    os.symlink(outside + "/model", recipe + "/linked_model")
    os.symlink(outside + "/secret.lua", recipe + "/linked.lua")
    os.symlink(outside + "/secret.jsonl", recipe + "/linked.jsonl")
    os.symlink(outside + "/absent.jsonl", recipe + "/dangling.jsonl")
    shutil.copytree(work + "/tiny", recipe + "/pipe_model")
    os.remove(recipe + "/pipe_model/tokenizer.json")
    for name in ("pipe.jsonl", "pipe_model/tokenizer.json"):
        os.mkfifo(f"{recipe}/{name}")
    write(recipe + "/outside_adapter/adapter_config.json",
          '{"base_model_name_or_path": "%s/absent", "peft_type": "LORA", "r": 4, "lora_alpha": 8, '
          '"target_modules": ["q_proj"]}' % outside)
    write(recipe + "/tasks.jsonl", '{"prompt": "a", "answer": "b"}\n')
    write(recipe + "/chat.jsonl", '{"messages": [{"role": "user", "content": "a"}]}\n')
    write(recipe + "/circle.lua", 'require "circle"\nerror("circle")\n')
    write(recipe + "/bytecode.lua", "\x1bLJ\x02")
    return outside, recipe


def state_of(folder):
    digest = hashlib.sha256()
    for path in sorted(glob.glob(folder + "/**", recursive=True)):
        info = os.lstat(path)
        digest.update(f"{path} {info.st_mode} {info.st_size} {info.st_mtime_ns}\n".encode())
        if os.path.isfile(path):
            digest.update(open(path, "rb").read())
    return digest.hexdigest()


def corpus(outside):
    for path in sorted(glob.glob(f"{CORPUS}/{os.environ.get('HOSTILE', '')}*.lua")):
        text = open(path).read().replace("@OUTSIDE@", outside)
        said = re.match(r"-- expect: (alone )?(error|ended|harmless) ?(.*)\n", text)
        assert said, f"{path}: its first line does not say what to expect"
        yield os.path.basename(path)[:-4], text, bool(said[1]), said[2], said[3].strip()


def run(xrun, recipe, file, limits, trust="--untrusted", timeout=None):
    child = subprocess.run([xrun, file, trust, "--threads", "1"] + limits, cwd=recipe,
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, timeout=timeout)
    # Of an endless log, the beginning and the end.
    out = child.stdout
    return child.returncode, (out if len(out) < 1 << 20 else out[:1 << 16] + out[-(1 << 16):])


def wrong(status, out, outcome, text):
    """Returns a description of a wrong outcome, or ''."""
    if status < 0 or status > 127:
        return f"a signal ended it: status {status}"
    if b"\x1b" in out:
        return "an escape byte reached the output"
    if SECRET.encode() in out:
        return "it printed bytes of the folder outside"
    if (status == 0) != (outcome == "harmless"):
        return f"status {status}, wanted that of {outcome}"
    if text.encode() not in out:
        return f'it does not say "{text}"'
    return ""


def together(xrun, outside, recipe):
    rows = [row for row in corpus(outside) if not row[2] and row[0].split("_")[0] in TOGETHER]
    lines = ["local seen = {}",
             "local function run(name, text)",
             "  local f, message = load(text, name)",
             "  local ok = f ~= nil",
             "  if f then ok, message = pcall(f) end",
             "  local shown, as_text = pcall(tostring, message)",
             "  print('@' .. name .. (ok and ' harmless ' or ' error ') .. (shown and as_text or ''))",
             "end"]
    for name, text, *_ in rows:
        lines.append(f"run({name!r}, [==[{text}]==])")
    write(recipe + "/together.lua", "\n".join(lines) + "\nprint('@end')\n")
    status, out = run(xrun, recipe, "together.lua", ["--limit-seconds", "60"])
    found = dict(re.findall(rb"^@(\w+) (.*?)(?=^@)", out, re.M | re.S))
    failed = []
    if status != 0 or b"@end" not in out:
        failed.append(f"together: status {status}: {out[-2000:].decode(errors='replace')}")
    for name, _, _, outcome, text in rows:
        said = found.get(name.encode(), b"absent")
        problem = wrong(int(said.startswith(b"error")), said, outcome, text)
        if problem:
            failed.append(f"{name}: {problem}: {said[:400].decode(errors='replace')}")
    return len(rows), failed


def alone(xrun, outside, recipe, workers):
    def one(row):
        name, text, _, outcome, wanted = row
        write(f"{recipe}/{name}.lua", text)
        seconds = "2" if outcome == "ended" and "seconds" in wanted else "300"
        status, out = run(xrun, recipe, f"{name}.lua",
                          ["--limit-seconds", seconds, "--limit-memory", "1000",
                           "--limit-output", "50"])
        problem = wrong(status, out, outcome, wanted)
        return f"{name}: {problem}: {out[-600:].decode(errors='replace')}" if problem else ""
    rows = list(corpus(outside))
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        return len(rows), [problem for problem in pool.map(one, rows) if problem]


def trusted(xrun, outside, recipe, workers):
    def one(row):
        write(f"{recipe}/{row[0]}.lua", row[1])
        try:
            status, out = run(xrun, recipe, f"{row[0]}.lua", [], "--trusted", timeout=10)
        except subprocess.TimeoutExpired:  # an endless loop of tail calls: nothing limits it here
            return ""
        ended = status < 0 or status > 127
        return f"{row[0]}: status {status}: {out[-600:].decode(errors='replace')}" if ended else ""
    rows = [row for row in corpus(outside)
            if row[3] != "ended" and row[0].split("_")[0] in
            ("recursion", "parser", "operators", "errors", "primitives", "metatables")]
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        return len(rows), [problem for problem in pool.map(one, rows) if problem]


def main():
    xrun, work, manner = sys.argv[1:4]
    outside, recipe = prepare(os.path.abspath(work))
    before = state_of(outside)
    if manner == "together":
        count, failed = together(xrun, outside, recipe)
    else:
        runs = {"alone": alone, "trusted": trusted}[manner]
        count, failed = runs(xrun, outside, recipe, int(sys.argv[4]) if len(sys.argv) > 4 else 2)
    if state_of(outside) != before:
        failed.append("the folder outside has changed")
    for problem in failed:
        print("FAILED:", problem)
    print(f"{count} hostile recipes, {len(failed)} with a wrong outcome")
    sys.exit(bool(failed))


main()
