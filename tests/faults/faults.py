#!/usr/bin/env python3
"""Fails or kills the commands of xrun that write, and judges what is left.

  faults.py XRUN [--writer NAME]... [--kind KIND]... [--most N]   one failing call a run
  faults.py XRUN [--writer NAME]... --kills N [--seed S]          kill -9 at random moments

In every writer (writers.py) each call of a kind fails once: the 1st, the 2nd, and so on; with --most N
at most N of them, evenly spread. After each failure:
- no signal ended the program, and it did not hang;
- the failure was reported: status 1 or 2, the file, the system's reason. Short reads and writes are
  not failures, and writers.COPES lists what a writer may lose silently;
- a file that is replaced holds all of the old bytes or all of the new ones;
- the same command (for a run that began, its resume) then succeeds, with the bytes and metrics of an
  undisturbed one, and leaves no temporary file.
"""
import argparse, os, random, re, shutil, signal, struct, subprocess, sys, tempfile, time

sys.dont_write_bytecode = True
from writers import COPES, WRITERS

KINDS = ("write short_write fsync rename close read short_read map allocation").split()
LOST = {"write", "fsync", "rename", "close"}
REASONS = {"write": "No space left on device", "rename": "No space left on device",
           "fsync": "Input/output error", "close": "Input/output error",
           "read": "Input/output error", "map": "Cannot allocate memory", "allocation": "memory"}
TEMPORARY = r"\.tmp\w*|\.unfinished\d*|^\.old_|\.work$"
HANG_S = 300  # a full machine is slow


class Bench:
    """One writer in a scratch folder: `prepared` is copied to `trial` for every run."""

    def __init__(self, xrun, writer, home, library):
        self.xrun, self.writer = xrun, writer
        self.prepared, self.trial = home + "/prepared", home + "/trial"
        self.left_in_caches = 0  # kills that left a temporary file there
        self.library, self.state_file = library, home + "/state"
        os.makedirs(self.trial + "/tmp")
        if writer.prepare:
            writer.prepare(self.must, self.trial)
        shutil.copytree(self.trial, self.prepared, symlinks=True)
        self.old = self.kept()
        began = time.monotonic()
        self.must(writer.command)
        self.took_s = time.monotonic() - began
        self.wanted, self.new = writer.outcome(self.trial), self.kept()
        assert self.wanted, f"{writer.name}: makes nothing"

    def start(self, arguments, fault=None):
        environment = dict(os.environ, XRUN_CACHE=self.trial + "/cache", HOME=self.trial,
                           TMPDIR=self.trial + "/tmp", OMP_NUM_THREADS="1")
        if self.writer.path:
            environment["PATH"] = f"{self.trial}/{self.writer.path}:{environment['PATH']}"
        if fault:
            environment.update(fault, LD_PRELOAD=self.library)
        return subprocess.Popen([self.xrun] + arguments, cwd=self.trial, env=environment,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, errors="replace")

    def finish(self, child):
        try:
            out, _ = child.communicate(timeout=HANG_S)
        except subprocess.TimeoutExpired:
            child.kill()
            return None, child.communicate()[0]
        return child.returncode, out

    def must(self, arguments):
        status, out = self.finish(self.start(arguments))
        assert status == 0, f"{arguments}: status {status}: {out}"

    def renew(self):
        shutil.rmtree(self.trial)
        shutil.copytree(self.prepared, self.trial, symlinks=True)

    def kept(self):
        def read(name):
            path = f"{self.trial}/{name}"
            return open(path, "rb").read() if os.path.exists(path) else None
        return [read(name) for name in self.writer.keeps]

    def run_with(self, kind, nth, smallest):
        """Returns status, output, the calls of the kind, and the path whose call failed or ""."""
        with open(self.state_file, "wb") as file:
            file.write(bytes(4096))
        fault = {"XRUN_FAULT": f"{kind}:{nth}:{self.trial}", "XRUN_FAULT_BYTES": str(smallest),
                 "XRUN_FAULT_STATE": self.state_file}
        status, out = self.finish(self.start(self.writer.command, fault))
        state = open(self.state_file, "rb").read()
        return (status, out, struct.unpack("Q", state[:8])[0],
                state[8:].split(b"\0")[0].decode(errors="replace"))

    def difference(self, failed=""):
        """Returns the difference from an undisturbed run, "" for none. `failed` is the path whose call
        failed: values that a sidecar lacks are computed again when they are needed."""
        got = self.writer.outcome(self.trial)
        if got == self.wanted:
            return ""
        lost = os.path.relpath(failed, self.trial) if "/columns/" in failed else ""
        names = sorted(name for name in set(got) | set(self.wanted)
                       if got.get(name) != self.wanted.get(name) and name != lost
                       and not ("#" in name and name not in got)  # writers.is_of_teacher
                       and not re.search(TEMPORARY, name))  # leftovers() reports those
        return "differ from an undisturbed run: " + ", ".join(names[:4]) if names else ""

    def gaps(self):
        """Returns the text of the output that reports which input it could not read."""
        return open(f"{self.trial}/{self.writer.gaps}").read() if self.writer.gaps else ""

    def torn(self):
        for name, now, old, new in zip(self.writer.keeps, self.kept(), self.old, self.new):
            if now not in (old, new):
                return f"{name} is neither the old file nor the new one"
        return ""

    def unusable(self, failed=""):
        """Returns what is wrong with the state after a failure or a kill, or ""."""
        if not self.writer.run and not self.difference(failed):
            return ""  # nothing is missing; a command may refuse to make it twice
        status, out = self.finish(self.start(self.writer.again(self.trial)))
        if status != 0:
            return f"does not run again: status {status}: {out[-600:]}"
        return self.difference(failed)

    def leftovers(self, killed=False):
        """Returns the temporary files that are left, or "". A kill may leave one, which no later run
        reads, beside a file that the user named or in a cache; those in caches are counted."""
        left = [os.path.relpath(os.path.join(folder, name), self.trial)
                for folder, folders, files in os.walk(self.trial)
                for name in folders + files if re.search(TEMPORARY, name)]
        left += os.listdir(self.trial + "/tmp")
        if killed:
            left = [name for name in left if re.sub(TEMPORARY, "", name) not in self.writer.keeps]
            self.left_in_caches += any(name.startswith("cache/") for name in left)
            left = [name for name in left if not name.startswith("cache/")]
        return "leaves " + ", ".join(left[:4]) if left else ""


def misreported(kind, status, out, path, differs, gaps):
    """Returns what is wrong with the report of a failed call, or ""."""
    if status is None:
        return "hangs"
    if status < 0 or status > 2:
        return f"status {status}"
    if re.search(r"terminate called|std::|c10::|\[enforce fail|Traceback", out):
        return "an internal error is shown"
    if kind.startswith("short_"):
        return "" if status == 0 and not differs else f"status {status} {differs}"
    name = re.sub(TEMPORARY, "", os.path.basename(path)).lstrip("._")
    if status == 0:
        if differs:
            return "" if REASONS[kind] in gaps and name in gaps else differs
        if kind in LOST and name not in out and not any(re.search(p, path) for p in COPES):
            return "a lost write is not reported"
        return ""
    if "error" not in out:
        return "no error is printed"
    if REASONS[kind] not in out:
        return f"the reason, {REASONS[kind]}, is not given"
    # For a synced folder, the file that was renamed into it may be named.
    named = name in out or os.path.isdir(path) and any(entry in out for entry in os.listdir(path))
    return "" if kind == "allocation" or named else f"{name} is not named"


def spread(count, most):
    """Returns the numbers 1 to count, or `most` of them, evenly spread."""
    if not most or count <= most:
        return list(range(1, count + 1))
    return sorted({1 + round(i * (count - 1) / max(most - 1, 1)) for i in range(most)})


def fail_each(bench, kinds, most, smallest):
    problems = 0
    for kind in kinds:
        bench.renew()
        status, out, calls, _ = bench.run_with(kind, 0, smallest)
        assert status == 0, f"{bench.writer.name}: status {status} without a fault: {out}"
        reported = coped = 0
        for nth in spread(calls, most) if most else range(1, 10 ** 6):
            bench.renew()
            status, out, _, path = bench.run_with(kind, nth, smallest)
            if not path:
                break
            differs = bench.difference(path) if status == 0 else ""
            gaps = bench.gaps() if differs else ""
            problem = misreported(kind, status, out, path, differs, gaps)
            problem = problem or not gaps and bench.torn() or bench.unusable(path) or bench.leftovers()
            reported, coped = reported + (status != 0), coped + (status == 0)
            if problem:
                problems += 1
                where = path.replace(bench.trial, "")
                print(f"FAILED: {bench.writer.name}: {kind} {nth} of {where}: {problem}\n"
                      f"    {out.strip()[-500:]}", flush=True)
        print(f"{bench.writer.name}: {kind}: {calls} calls, {reported + coped} failed: {reported} "
              f"reported, {coped} without effect", flush=True)
    return problems


def kill_often(bench, kills, chance):
    """Kills `kills` times, also later starts of a trial; returns the number of bad states."""
    bench.renew()
    began = time.monotonic()
    bench.must(bench.writer.command)
    took_s = min(bench.took_s, time.monotonic() - began)  # one of them may have met a full machine
    done = problems = missed = 0
    while done < kills:
        bench.renew()
        command = bench.writer.command
        for _ in range(3):
            child = bench.start(command)
            time.sleep(chance.random() * took_s)
            if child.poll() is None:
                done += 1
                child.send_signal(signal.SIGKILL)
            else:
                missed += 1
            child.communicate()
            if done == kills or chance.random() < 0.5:
                break
            command = bench.writer.again(bench.trial)
        shutil.rmtree(bench.trial + "/tmp")  # the next process removes a dead one's after an hour
        os.mkdir(bench.trial + "/tmp")
        problem = bench.torn() or bench.unusable() or bench.leftovers(killed=True)
        if problem:
            problems += 1
            print(f"FAILED: {bench.writer.name}: after kill {done}: {problem}", flush=True)
    print(f"{bench.writer.name}: {done} kills, {missed} too late, {problems} bad states, "
          f"{bench.left_in_caches} with a temporary file in a cache", flush=True)
    return problems


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("xrun")
    arguments.add_argument("--writer", action="append", choices=[w.name for w in WRITERS])
    arguments.add_argument("--kind", action="append", choices=KINDS)
    arguments.add_argument("--most", type=int, default=0)
    arguments.add_argument("--smallest", type=int, default=1 << 16, help="bytes of an allocation")
    arguments.add_argument("--kills", type=int, default=0)
    arguments.add_argument("--seed", type=int, default=1)
    asked = arguments.parse_args()
    chance = random.Random(asked.seed)
    chosen = [w for w in WRITERS if not asked.writer or w.name in asked.writer]
    problems = 0
    with tempfile.TemporaryDirectory(prefix="faults-") as home:
        library = home + "/preload.so"
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "preload.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-o", library, source,
                        "-ldl"], check=True)
        for i, writer in enumerate(chosen):
            place = f"{home}/{i}"
            os.mkdir(place)
            bench = Bench(os.path.abspath(asked.xrun), writer, place, library)
            if asked.kills:
                share = asked.kills * (i + 1) // len(chosen) - asked.kills * i // len(chosen)
                problems += kill_often(bench, share, chance)
            else:
                problems += fail_each(bench, asked.kind or KINDS, asked.most, asked.smallest)
            shutil.rmtree(place)
    print(f"{problems} problems")
    sys.exit(bool(problems))


main()
