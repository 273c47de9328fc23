#!/usr/bin/env python3
"""Renders small random templates from a grammar with jinja2, under transformers' settings, and with xrun.

    python3 tools/oracle/jinja_fuzz.py [--cases 50000] [--seed 1] [--test build/bin/test_text]
    python3 tools/oracle/jinja_fuzz.py --golden tests/golden/jinja_fuzz.json --cases 2000
    python3 tools/oracle/jinja_fuzz.py --golden tests/golden/jinja_fuzz.json --update

The first form writes the cases to a file and runs test_text on it, which prints every template that
renders differently; exit status 0 means that all agree, failures included. The second form writes the
fixed sample of the test run; the third renders that sample's templates again. Made with transformers
5.23.0 and jinja2 3.1.6.

Jinja is set up to fail when a template reaches a filter, test, method or format that xrun refuses
(docs/templates.md lists the supported ones). Excluded are integers beyond 64 bits (an error in xrun),
texts with a Python address, and filters that do not exist (Jinja looks them up while it compiles, xrun
when it reaches them).
"""
import argparse
import datetime
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import warnings

from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from transformers.utils import chat_template_utils

MESSAGES = [{"role": "system", "content": " Be brief.\n"}, {"role": "user", "content": "Grüne, 世界 <|x|>"},
            {"role": "assistant", "content": "", "tool_calls": [
                {"type": "function", "function": {"name": "f", "arguments": {"a": 1, "b": [True, None]}}}]},
            {"role": "tool", "content": "[1, 2.50]", "name": "f"},
            {"role": "assistant", "content": "<think>\nhm\n</think>\n\nDone.", "reasoning_content": "r"}]
VARIABLES = {
    "s": "Hello, Wörld 🙂", "t": "  padded\t\n", "e": "", "n": 7, "z": 0, "m": -3, "f": 2.5, "g": 1e16,
    "yes": True, "no": False, "nil": None, "l": [3, 1, 2], "w": ["b", "A", "c", "a"], "el": [],
    "d": {"b": 1, "a": [1, 2.0, None, True, "x'y"], "items": "key"}, "ed": {}, "csv": "a,b,,c\nd",
    "q": "say \"hi\" 'now'\n", "html": "<a href='x'>&</a>", "mix": [1, "1", None, [2], {"k": "v"}],
    "rows": [{"role": "user", "n": 1, "tag": "x"}, {"role": "tool", "n": 2},
             {"role": "user", "n": 3, "tag": "y", "deep": {"k": [5, 6]}}],
}
TEXTS = ["''", "'a'", "'ab'", "' x '", "'é🙂'", "'\\n'", "'<b>'", "'a,b'", "'Hello'", "'1'", "'2.5'",
         "\"it's\"", "'user'", "'{}'", "','", "'ΑΣ ΣΑΣ.Σ'", "'ªⅧ'", "'一②½'", "'\\u00a0x\\u3000'",
         "'1_0'", "'٣'", "'{{}}{}'"]
NUMBERS = ["0", "1", "2", "-1", "3", "10", "2.5", "0.1", "1e3", "-4", "100"]
NAMES = list(VARIABLES) + ["undef", "messages", "x", "ns.v", "loop.index", "loop.first"]
ATTRIBUTES = ["role", "content", "n", "b", "a", "items", "k", "tag", "deep", "nope", "first", "name",
              "function", "v"]
TEXT_METHODS = ["strip()", "strip('x ')", "lstrip()", "rstrip()", "rstrip('\\n')", "upper()", "lower()",
                "title()", "capitalize()", "split()", "split(',')", "split(',', 1)", "startswith('H')",
                "endswith(('d', '\\n'))", "replace('l', 'LL')", "replace('', '-', 2)", "isdigit()",
                "format(1, 2)", "nope()", "split('')", "replace(s, 'x')", "strip('\\u00a0')",
                "lower().title()", "casefold()"]
OTHER_METHODS = ["items()", "keys()|list", "values()", "get('a')", "get('zz', 5)", "get('b', s)", "index(1)",
                 "append(1)", "pop()", "update({})"]
FILTERS = ["trim", "trim('H ')", "upper", "lower", "title", "capitalize", "length", "count", "string",
           "list", "first", "last", "join", "join(', ')", "join('-', attribute='n')", "sort",
           "sort(reverse=true)", "sort(attribute='n')", "sort(case_sensitive=true)", "unique|list",
           "reverse", "reverse|list", "min", "max", "int", "int(9)", "float", "round", "round(1)",
           "round(1, 'floor')", "default('D')", "default('D', true)", "d('D')", "tojson",
           "tojson(indent=2)", "tojson(ensure_ascii=true)", "tojson(sort_keys=true)",
           "tojson(separators=(',', ':'))", "items|list", "dictsort", "dictsort(reverse=true)",
           "dictsort(by='value')", "map('upper')|list", "map('length')|list", "map(attribute='role')|list",
           "map(attribute='n', default=0)|list", "map('string')|join", "select|list", "select('string')|list",
           "select('odd')|list", "reject('none')|list", "reject|list", "selectattr('tag')|list",
           "selectattr('n', 'gt', 1)|list", "selectattr('role', 'equalto', 'user')|map(attribute='n')|list",
           "rejectattr('role', 'eq', 'user')|list", "rejectattr('tag', 'defined')|list", "replace('l', 'L')",
           "replace('a', s, 1)", "indent", "indent(2, true)", "indent('>', blank=true)", "safe", "wordcount"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "true", "false",
         "mapping", "sequence", "iterable", "odd", "even", "eq 1", "equalto('a')", "ne 2", "gt 1", "ge 1",
         "lt 3", "le 2", "in l", "in('abc')", "sameas none"]
OPERATORS = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", ">", "<=", ">=", "in", "not in", "and",
             "or", "**"]


SUPPORTED_FILTERS = set("""capitalize count d default dictsort first float indent int items join last length
    list lower map max min reject rejectattr replace reverse round safe select selectattr sort string title
    tojson trim unique upper""".split())
SUPPORTED_TESTS = set("""boolean defined eq equalto == even false float ge >= greaterthan gt > in integer
    iterable le <= lessthan lt < mapping ne != none number odd sequence string true undefined""".split())
SUPPORTED_METHODS = {str: set("""capitalize endswith format isdigit lower lstrip replace rstrip split startswith
    strip title upper""".split()), dict: {"get", "items", "keys", "values"}, list: set(), tuple: set()}
UNSUPPORTED_FUNCTIONS = ["cycler", "joiner", "lipsum"]


def refuse(*_, **__):
    raise SecurityError("not supported in chat templates")


class SupportedEnvironment(ImmutableSandboxedEnvironment):
    """transformers' environment without the features that xrun refuses."""
    intercepted_binops = frozenset(["%"])

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        for table, supported in ((self.filters, SUPPORTED_FILTERS), (self.tests, SUPPORTED_TESTS)):
            table.update(dict.fromkeys(set(table) - supported, refuse))
        self.globals.update(dict.fromkeys(UNSUPPORTED_FUNCTIONS, refuse))

    def call_binop(self, context, operator, left, right):
        return refuse() if isinstance(left, str) else super().call_binop(context, operator, left, right)

    def call(*arguments, **options):  # the template may name an argument `self`
        self, _, callee = arguments[:3]
        callee = getattr(callee, "__wrapped__", callee)  # jinja2 wraps str.format
        owner = getattr(callee, "__self__", None)
        for kind, methods in SUPPORTED_METHODS.items():
            if isinstance(owner, kind) and callee.__name__ not in methods:
                refuse()
        if isinstance(owner, str) and callee.__name__ == "format":
            if re.search(r"[{}]", re.sub(r"\{\{|\}\}|\{\}", "", owner)):
                refuse()
        return ImmutableSandboxedEnvironment.call(*arguments, **options)


class Grammar:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, options):
        return self.random.choice(options)

    def atom(self):
        kind = self.random.random()
        if kind < 0.55:
            return self.pick(NAMES)
        if kind < 0.75:
            return self.pick(TEXTS)
        if kind < 0.88:
            return self.pick(NUMBERS)
        return self.pick(["true", "false", "none", "[]", "{}", "()", "[1, 2]", "(1, 'a')", "{'k': 1}",
                          "messages[0]", "messages[-1]", "range(4)|list", "dict(a=1)", "namespace(v=2).v",
                          "rows[0]", "d['a']", "'a' 'b'"])

    def expression(self, depth):
        if depth <= 0:
            return self.atom()
        below = lambda: self.expression(depth - 1 - self.random.randrange(2))
        kind = self.random.random()
        if kind < 0.10:
            return self.atom()
        if kind < 0.27:
            return "%s|%s" % (self.operand(depth), self.pick(FILTERS))
        if kind < 0.36:
            return "%s is %s%s" % (self.operand(depth), self.pick(["", "", "not "]), self.pick(TESTS))
        if kind < 0.52:
            left, right = below(), below()
            operator = self.pick(OPERATORS)
            if operator == "**":
                left, right = self.pick(["n", "f", "m", "2"]), self.pick(["2", "0", "-1"])
            if operator == "*":
                right = self.pick(["2", "0", "3", "s", "l", "-1"])
            return self.pick(["%s %s %s", "(%s %s %s)"]) % (left, operator, right)
        if kind < 0.60:
            return "%s.%s" % (self.operand(depth), self.pick(TEXT_METHODS))
        if kind < 0.65:
            return "%s.%s" % (self.operand(depth), self.pick(OTHER_METHODS))
        if kind < 0.73:
            # Names only: Jinja slices a folded constant by other rules than a variable.
            return "%s%s" % (self.pick(NAMES), self.subscript())
        if kind < 0.79:
            return "%s if %s%s" % (below(), below(), self.pick(["", " else " + below()]))
        if kind < 0.84:
            return self.pick(["not %s", "-%s", "+%s", "not (%s)"]) % below()
        if kind < 0.90:
            return self.pick(["[%s, %s]", "(%s, %s)", "{'p': %s, 'q': %s}", "[%s] + [%s]"]) % (below(), below())
        if kind < 0.95:
            return "(%s)" % below()
        return self.pick(["'{} {}'.format(%s, %s)", "%s ~ ':' ~ %s", "dict(a=%s, b=%s)", "%s < 2 < %s",
                          "[%s, %s]|tojson"]) % (below(), below())

    def operand(self, depth):
        text = self.expression(depth - 2)
        return text if re.fullmatch(r"[\w.]+|'[^']*'|\(.*\)|\[.*\]", text) else "(%s)" % text

    def subscript(self):
        index = lambda: self.pick(["", "0", "1", "-1", "2", "-2", "9"])
        kind = self.random.random()
        if kind < 0.3:
            return "[%s]" % self.pick(["0", "-1", "1", "'role'", "'k'", "n", "s", "'a'", "none", "5"])
        if kind < 0.6:
            return ".%s" % self.pick(ATTRIBUTES)
        if kind < 0.8:
            return "[%s:%s]" % (index(), index())
        return "[%s:%s:%s]" % (index(), index(), self.pick(["-1", "2", "-2", "1", ""]))

    def tag(self, text):
        return "{%%%s %s %s%%}" % (self.pick(["", "", "-"]), text, self.pick(["", "", "-"]))

    def data(self):
        return self.pick(["", "", " ", "\n", "x", " y\n", "\n\n z ", "<|im|>\n", "  ",
                          "\u00a0", "x\n\u3000 ", "\u2028"])

    def body(self, depth):
        return "".join(self.data() + self.statement(depth) for _ in range(1 + self.random.randrange(2))) + self.data()

    def statement(self, depth):
        write = "{{%s %s %s}}" % (self.pick(["", "-"]), self.expression(self.random.randrange(4)), self.pick(["", "-"]))
        kind = self.random.random()
        if depth <= 0 or kind < 0.35:
            return write
        inner = lambda: self.body(depth - 1)
        test = lambda: self.expression(self.random.randrange(3))
        tag = self.tag
        if kind < 0.47:
            middle = tag("elif " + test()) + inner() if self.random.random() < 0.3 else ""
            other = tag("else") + inner() if self.random.random() < 0.4 else ""
            return tag("if " + test()) + inner() + middle + other + tag("endif")
        if kind < 0.64:
            return self.loop(depth)
        if kind < 0.72:
            return tag("set x = " + test()) + self.data() + "{{ x }}"
        if kind < 0.77:
            block = self.pick(["set x", "set x | upper", "set x | trim"])
            return tag(block) + inner() + tag("endset") + "{{ x }}[{{ x|length }}]"
        if kind < 0.83:
            call = self.pick(["mac(%s)", "mac(%s, b=2)", "mac()", "mac(1, 2, %s)", "mac(a=%s)"])
            call = call % test() if "%s" in call else call
            return tag("macro mac(a, b=%s)" % self.atom()) + inner() + "{{ a }}|{{ b }}" + tag("endmacro") + "{{ %s }}" % call
        if kind < 0.88:
            return (tag("set ns = namespace(v=%s)" % self.atom()) + tag("for x in " + self.pick(["l", "rows", "w"])) +
                    tag("set ns.v = " + self.pick(["x", "loop.index", "ns.v ~ '.'", "[ns.v, x]"])) + tag("endfor") + "{{ ns.v }}")
        if kind < 0.92:
            return tag("generation") + inner() + tag("endgeneration")
        if kind < 0.94:
            return tag("with x = %s" % test()) + inner() + tag("endwith")
        if kind < 0.96:
            return tag("filter " + self.pick(["upper", "trim", "replace('a', 'b')", "indent"])) + inner() + tag("endfilter")
        if kind < 0.98:
            return "{#%s %s %s#}" % (self.pick(["", "-"]), self.pick(["c", "{{ n }}", "\n"]), self.pick(["", "-"]))
        return tag("raw") + self.pick(["{{ n }}", "{% if %}", " x\n"]) + tag("endraw")

    def loop(self, depth):
        head = self.pick(["x in l", "x in rows", "x in messages", "x in d.items()", "k, v in d.items()", "x in s",
                          "x in range(3)", "x in w", "x in %s", "x in messages if x.role != 'tool'",
                          "x in l[::-1]", "k, v in d|dictsort", "x in rows|selectattr('tag')", "x in l if x > 1",
                          "k, v in ed|items", "x, y in [(1, 2), (3, 4)]", "x in undef", "x in nil"])
        head = head % self.expression(1) if "%s" in head else head
        inside = self.pick(["{{ x }}", "{{ loop.index }}", "{{ loop.last }}", "{{ loop.previtem }}", "{{ loop.nextitem.role }}",
                            "{{ loop.revindex0 }}/{{ loop.length }}", "{{ loop.cycle('a', 'b') }}", "{{ x.role }}", "{{ k }}",
                            "{{ loop.changed(x) }}", "{{ loop.depth }}"])
        jump = self.pick(["", "", "", "{% if loop.index > 1 %}{% break %}{% endif %}", "{% if loop.first %}{% continue %}{% endif %}"])
        other = self.tag("else") + self.data() + "none" if self.random.random() < 0.2 else ""
        return self.tag("for " + head) + jump + inside + self.body(depth - 1) + other + self.tag("endfor")


class PinnedDate(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime(2024, 7, 26)


def render(source):
    """Returns the text and the turns, or two Nones if Jinja fails."""
    try:
        texts, turns = chat_template_utils.render_jinja_template(
            [MESSAGES], chat_template=source, return_assistant_tokens_mask=True, **VARIABLES)
        return texts[0], turns[0]
    except Exception:  # any failure counts
        return None, None


def is_comparable(text):
    """Returns False for texts with an address or an integer beyond 64 bits."""
    return text is None or (" at 0x" not in text.lower() and len(text) < 2000 and
                            not any(int(number) > 2 ** 63 - 1 for number in re.findall(r"\d{19,}", text)[:50]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=50000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--test", default="build/bin/test_text")
    parser.add_argument("--golden")
    parser.add_argument("--update", action="store_true")
    arguments = parser.parse_args()
    chat_template_utils.datetime = PinnedDate
    chat_template_utils.ImmutableSandboxedEnvironment = SupportedEnvironment
    chat_template_utils.logger.setLevel("ERROR")
    warnings.simplefilter("ignore")  # Python's warnings about the code that jinja2 generates
    grammar = Grammar(arguments.seed)
    cases = []
    if arguments.update:
        with open(arguments.golden, encoding="utf-8") as file:
            cases = [(source, *render(source)) for source, _ in json.load(file)["cases"]]
        arguments.cases = len(cases)
    while len(cases) < arguments.cases:
        source = grammar.body(3) if len(cases) % 3 else "{{ %s }}" % grammar.expression(4)
        text, turns = render(source)
        # Most random templates fail; keep a tenth of those.
        if is_comparable(text) and (text is not None or grammar.random.random() < 0.1):
            cases.append((source, text, turns))
    print(len(cases), "cases,", sum(text is None for _, text, _ in cases), "of them fail in Jinja")
    if arguments.golden:
        golden = {"messages": MESSAGES, "variables": VARIABLES, "cases": [case[:2] for case in cases]}
        with open(arguments.golden, "w", encoding="utf-8") as file:
            file.write(json.dumps(golden, ensure_ascii=False, separators=(",", ":")) + "\n")
        return 0
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", delete=False, encoding="utf-8") as file:
        for source, text, _ in cases:
            file.write(json.dumps({"template": source, "messages": MESSAGES, "kwargs": VARIABLES,
                                   "text": text}) + "\n")
    status = subprocess.run([arguments.test, "--gtest_filter=JinjaCases.CasesOfTheEnvironment*", "--gtest_brief=1"],
                            env={**os.environ, "XRUN_JINJA_CASES": file.name}).returncode
    os.unlink(file.name)
    return status


if __name__ == "__main__":
    sys.exit(main())
