"""Texts for alignments of two tokenizers, equal to those of tests/core/align/dp_golden_test.cpp.

Sequence i is drawn from splitmix64 (generated_strings.Draw) with initial state 10^9 + i. The lists of FRAGMENTS
travel in the golden.
"""
import os
from pathlib import Path

from generated_strings import Draw, generated

DATA = Path(os.environ.get("XRUN_TEST_DATA", Path(__file__).parents[3].parent / "shared/data"))
TOKENIZERS = ["gpt2", "llama2", "qwen"]
FILES = ["text/wiki_en.txt", "text/c4_en.jsonl"]
FRAGMENTS = [
    # code
    ["for (int i = 0; i < n; ++i) {\n", "    ", "\t", "  return x_1 + y_2;\n", "}\n", "\n\n", "def __init__(self, ",
     "self._value", " = ", "None", ")", "(", "[", "]", ", ", "\\n", "\"a\\tb\"", "'", "# ", "// ", "if ", " else ", "!= ",
     "== ", "->", "::", "std::vector<int>", "_x", " _y", "__", "import numpy as np\n", "0x1F", "1e-5", ";", "; ", " ;",
     "camelCaseName", "snake_case_name", "\r\n", "        ", "<div class=\"a\">", "</div>", "&&", "||", "...", " , ", " . "],
    # numerals
    ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "12", "345", "6789", "2024", " + ", " - ", " * ", " = ", ".", ",",
     "\n", " 1", " 22", " 333", " 4444", "1,000,000", "3.14159", "-7", "%", "00", "10", "100", "1000"],
    # Chinese, Japanese, Korean
    ["的", "一", "是", "了", "我们", "他们", "中国", "中", "文", "问题", "工作", "社会", "经济", "发展", "没有", "可以", "自己",
     "，", "。", "、", "！", "？", "「", "」", "日本", "語", "日本語", "こんにちは", "ありがとう", "カタカナ", "한국어", "사람",
     "2024年", "3月", "AI", " ", "\n", "人工智能", "机器学习", "模型", "训练", "数据", "龘", "𠮷"],
    # emoji, accents, signs, other scripts
    ["🙂", "👍🏽", "👩‍👩‍👧‍👦", "🇩🇪", "❤️", "🎉", "ñ", "á", "é", "í", "ó", "ú", "À", "â", "ç", "è", "ë", "î", "ô", "ù", "û",
     "ÿ", "Ã", "Ã©", "naïve", " café", " résumé", "∑", "∏", "∂", "∇", "∞", "√", "∫", "≈", "≠", "≤", "≥", " ∑", " ≠ ", " 中",
     "Русский", "привет", " мир", "العربية", "हिंदी", "हिं", "दी", "ह", "שלום", "ελληνικά", "ไทย", "€", "™", "½", "①", "\u00a0",
     "\u200b", "—", "“", "”", "’s", " ", " a", "b", "c ", ",", " ,", ".", " .", "\n", "\n\n", "\t"],
]


def text_of(draw, size, texts):
    """Returns a text of about `size` tokens; `texts` are the bytes of FILES."""
    kind = draw.below(8)
    if kind < 2:  # a stretch of a file, from one character to another
        data = texts[kind]
        begin = draw.below(len(data) - 20_000)
        while data[begin] & 0xC0 == 0x80:
            begin += 1
        return data[begin:begin + 4 * size].decode("utf-8", "ignore")
    if kind < 6:
        fragments = FRAGMENTS[kind - 2]
        return "".join(fragments[draw.below(len(fragments))] for _ in range(size))
    if kind == 6:  # one to three fragments, repeated
        fragments = FRAGMENTS[draw.below(len(FRAGMENTS))]
        few = [fragments[draw.below(len(fragments))] for _ in range(1 + draw.below(3))]
        return "".join(few[draw.below(len(few))] for _ in range(size))
    return "".join(generated(draw.below(100_000)) for _ in range(1 + size // 20))


def sequence(index, texts):
    """Returns the names of student and teacher, the text, and whether the post-processor's tokens are added."""
    draw = Draw(1_000_000_000 + index)
    student = draw.below(3)
    teacher = (student + 1 + draw.below(2)) % 3
    special = draw.below(4) == 0
    size = 1 + draw.below(1200 if index % 500 == 0 else 250 if index % 20 == 0 else 40)
    return TOKENIZERS[student], TOKENIZERS[teacher], text_of(draw, size, texts), special
