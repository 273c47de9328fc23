"""Writes regex_syntax.json: the pieces of Hugging Face's Split for regexes that PCRE2 reads differently.

    python regex_syntax.py
Made with tokenizers 0.23.3.
"""
import json
import pathlib

from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

REGEXES = [
    r"\p{N}{1,3}+", r"(?:ab){2}+c", r"[0-9]{2,3}+x", r"a{,2}", r"\h", r"\H+", r"[\hz]+",
    r"[a-z&&[^aeiou]]+", r"[\w&&[^b]]+", r"[a&&b]", r"[a[bc]]+", r"[\p{L}&&[^\p{Han}]]+", r"a{2}",
    r"\w+", r"\W+", r"[\w]", r"[^\w]+", r"[\W]+", r"\bto\b", r"\Bo", r"[[:punct:]]+", r"[[:alnum:]]+",
    r"[[:word:]]+", r"[[:lower:]]+", r"[^[:upper:]]+", r"\p{Punct}+", r"\p{Alnum}+", r"\P{Word}+",
    r"\u0061+", r"[\u0062-\u0064\u4e2d]+", r"\p{^Alpha}", r"[\p{Upper}1]+", r"\p{XDigit}+", r"a{x}", r"[a-c]{1,2}+|x{2}", r"(a|b{1,2}+)c", r"[[:alpha:]]+", r"[]a]+", r"\{1,3}+",
    r"[[bc]]+", r"[[^a]]+", r"[^[bc]]+", r"[^[^b]]+", r"[[[bc]]]+", r"[x[[bc]]]+", r"[[:digit:]&&[1-2]]+",
    r"[[:^digit:]&&[a-c]]+", r"ba{2}?", r"(?:ab){2}?c",
]
TEXTS = ["1111111", "ababababc", "12x123x1234x", "aaaaa", "zabcdefghz", "hello world 11", "a&&b[c]",
         "e\u0301to to e\u0301", "a\u203fb_c $+.\u00ac", "\u2167x\u00b2\u2153", "\ufe0f\ufe0fAb",
         "ab\u4e2dcd", "bbbbc acc", "x{1,3}+ a{x}", "{1,3}++ {{"]


def main():
    cases = []
    for regex in REGEXES:
        split = Split(Regex(regex), "isolated")
        for text in TEXTS:
            pieces = [piece for piece, _ in split.pre_tokenize_str(text)]
            cases.append([regex, text, pieces])
    path = pathlib.Path(__file__).resolve().parent.parent / "regex_syntax.json"
    path.write_text(json.dumps(cases, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
