"""A program on a pseudo-terminal, and the screen that it draws: for tests of what users see.

    t = Terminal(["xrun", "repl"], columns=80, rows=24)
    t.until("xrun> ")          # waits for text in what was written since the last until
    t.send("1 + 1\\r")
    t.wants_screen("2")        # waits until a line of the screen is this text
    assert t.wait() == 0
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

SEQUENCE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z~])")


class Screen:
    """The contents of a terminal: rows of characters and the cursor; wraps and scrolls."""

    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.lines, self.row, self.column = [""], 0, 0

    def put(self, character):
        if self.column >= self.columns:
            self.row, self.column = self.row + 1, 0
        while len(self.lines) <= self.row:
            self.lines.append("")
        line = self.lines[self.row].ljust(self.column)
        self.lines[self.row] = line[: self.column] + character + line[self.column + 1 :]
        self.column += 1

    def sequence(self, numbers, letter):
        count = int(numbers) if numbers.isdigit() else 1
        if letter == "A":
            self.row = max(0, self.row - count)
        elif letter == "B":
            self.row += count
        elif letter == "C":
            self.column = min(self.columns - 1, self.column + count)
        elif letter == "D":
            self.column = max(0, self.column - count)
        elif letter == "H":
            self.row = self.column = 0
        elif letter == "J" and numbers == "2":
            self.lines = [""]
        elif letter in "JK":
            while len(self.lines) <= self.row:
                self.lines.append("")
            self.lines[self.row] = self.lines[self.row][: self.column]
            if letter == "J":
                del self.lines[self.row + 1 :]

    def write(self, text):
        at = 0
        while at < len(text):
            found = SEQUENCE.match(text, at)
            if found:
                self.sequence(found.group(1), found.group(2))
                at = found.end()
                continue
            character = text[at]
            if character == "\r":
                self.column = 0
            elif character == "\n":
                self.row += 1
                while len(self.lines) <= self.row:
                    self.lines.append("")
            elif character == "\b":
                self.column = max(0, self.column - 1)
            elif character >= " ":
                self.put(character)
            at += 1

    def text(self):
        return [line.rstrip() for line in self.lines]


class Terminal:
    def __init__(self, command, columns=80, rows=24, env=None):
        self.screen = Screen(columns, rows)
        self.seen = b""  # since the last until
        self.rest = b""  # of a character that is not whole yet
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.environ.update({"TERM": "xterm-256color", "NO_COLOR": "1", **(env or {})})
            os.execvp(command[0], command)
        self.resize(columns, rows)

    def resize(self, columns, rows):
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, size)
        self.screen.columns = columns

    def read(self, timeout):
        """Reads once, within the time; returns False if the program has ended."""
        ready, _, _ = select.select([self.terminal], [], [], max(0, timeout))
        if not ready:
            return True
        try:
            piece = os.read(self.terminal, 1 << 16)
        except OSError:
            piece = b""
        self.seen += piece
        whole = self.rest + piece
        text = whole.decode(errors="ignore")
        self.rest = whole[len(text.encode()) :] if len(whole) - len(text.encode()) < 4 else b""
        cut = text.rfind("\x1b")
        if cut >= 0 and not SEQUENCE.match(text, cut):
            self.rest = text[cut:].encode() + self.rest
            text = text[:cut]
        self.screen.write(text)
        return bool(piece)

    def wait_for(self, holds, what, timeout):
        end = time.time() + timeout
        while not holds():
            if not self.read(min(0.2, end - time.time())) and not holds():
                self.fail(f"ended before {what}")
            if time.time() > end and not holds():
                self.fail(f"no {what} within {timeout} s")

    def until(self, text, timeout=60):
        """Reads until the text has come; removes it and everything before it, and returns the latter."""
        wanted = text.encode()
        self.wait_for(lambda: wanted in self.seen, repr(text), timeout)
        before, self.seen = self.seen.split(wanted, 1)
        return before.decode(errors="replace")

    def wants_screen(self, line, timeout=30):
        """Waits until a whole line of the screen is this text."""
        self.wait_for(lambda: line in self.screen.text(), f"line {line!r}", timeout)

    def send(self, text):
        os.write(self.terminal, text.encode() if isinstance(text, str) else text)

    def kill(self, number):
        os.kill(self.pid, number)

    def wait(self, timeout=30):
        """Reads to the end; returns the exit status, or the negated number of a signal."""
        end = time.time() + timeout
        while self.read(0.2) and time.time() < end:
            pass
        while time.time() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
        self.fail("it does not end")

    def fail(self, why):
        print(f"{why}; the screen:", file=sys.stderr)
        for line in self.screen.text():
            print("  |" + line, file=sys.stderr)
        print(f"unread: {self.seen[-2000:]!r}", file=sys.stderr)
        os.kill(self.pid, signal.SIGKILL)
        sys.exit(1)
