#!/usr/bin/env python3
"""Writes chats.jsonl, tasks.jsonl and text.txt, the data of sft.lua and pretrain.lua.

chats.jsonl   conversations of one to three turns about public facts, {"messages"}, terse answers
tasks.jsonl   small exercises with one right result, {"instruction", "input", "output"}
text.txt      short articles about invented towns, a blank line between two: what no model has
              read, so that falling loss is learning and not recall
Facts come from make_preferences.py. Standard library only, no random numbers: the same bytes on
every machine.

    python3 recipes/data/make_chats.py        # rewrites the three files beside it
"""

import json
import pathlib

from make_preferences import TOPICS, split_facts, stable

CHATS, TASKS, ARTICLES = 240, 160, 200

ASK = {"capital": "What is the capital of {}?", "state capital": "Which city is the capital of {}?",
       "symbol": "What is the chemical symbol for {}?",
       "language": "Which language is official in {}?", "opposite": "What is the opposite of {}?"}
MORE = {"capital": "And of {}?", "state capital": "And of {}?", "symbol": "And for {}?",
        "language": "And in {}?", "opposite": "And of {}?"}

UNITS = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
fifteen sixteen seventeen eighteen nineteen""".split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
WORDS = """apple river stone cloud garden window paper silver mountain bridge winter candle orange
market finger yellow forest island mirror pocket""".split()

FIRST = "Al Bra Cor Dun El Fen Gar Hol Il Jar Kel Lor Mar Nor Os Pel Quin Ros Sel Tor".split()
LAST = "bury dale field ford ham mouth port stead ton wick".split()
GOODS = "salt wool slate honey glass barley timber rope brick paper".split()
WATERS = "Ash Birch Cold Deer Elm Fox Grey Hart Iron Jade".split()
FEASTS = ["the first day of spring", "the longest night", "the end of the harvest",
          "the return of the boats", "the day of the two markets"]


def number_words(n):
    if n < 20:
        return UNITS[n]
    tens, rest = TENS[n // 10 - 2], n % 10
    return tens if rest == 0 else f"{tens}-{UNITS[rest]}"


def chat(topic, facts, start):
    turns = 1 + stable(topic + facts[start][0]) % 3
    messages = []
    for turn, (subject, answer) in enumerate(facts[start:start + turns]):
        ask = (ASK if turn == 0 else MORE)[topic].format(subject)
        messages += [{"role": "user", "content": ask},
                     {"role": "assistant", "content": f"{answer}."}]
    return {"messages": messages}


def chats():
    rows = []
    for topic, (facts, _, _, _) in TOPICS.items():
        facts = split_facts(facts)
        rows += [chat(topic, facts, start) for start in range(len(facts))]
        rows += [chat(topic, facts[::-1], start) for start in range(0, len(facts), 2)]
    rows.sort(key=lambda row: stable(json.dumps(row)))
    return rows[:CHATS]


def tasks():
    rows = []
    for n in range(13, 93):
        rows.append(("Write the number in words.", str(n), number_words(n)))
        rows.append(("Add the two numbers.", f"{n} and {n % 7 + 2}", str(n + n % 7 + 2)))
    for word in WORDS:
        rows.append(("Write the word in capital letters.", word, word.upper()))
        rows.append(("How many letters has this word?", word, str(len(word))))
        rows.append((f"Name the first letter of \"{word}\".", "", word[0]))
    rows.sort(key=stable_row)
    keys = ("instruction", "input", "output")
    return [dict(zip(keys, row)) for row in rows[:TASKS]]


def stable_row(row):
    return stable("|".join(row))


def article(i):
    name = FIRST[i % len(FIRST)] + LAST[i // len(FIRST)]
    pick = lambda words, salt: words[stable(name + salt) % len(words)]
    water, goods = pick(WATERS, "water"), pick(GOODS, "goods")
    people = 300 + stable(name + "people") % 9000
    return (f"{name} is a town on the {water} Water with {people} people.\n"
            f"It is known for its {goods}, which is sold at the market below the hill. "
            f"The people of {name} keep one feast, on {pick(FEASTS, 'feast')}. "
            f"Whoever comes to {name} by the {water} Water lands at the {goods} quay, "
            f"and whoever asks there for the way is told to follow the smell of {goods}.")


def write_rows(name, rows):
    with open(pathlib.Path(__file__).with_name(name), "w", encoding="utf-8", newline="\n") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def main():
    write_rows("chats.jsonl", chats())
    write_rows("tasks.jsonl", tasks())
    text = "\n\n".join(article(i) for i in range(ARTICLES)) + "\n"
    pathlib.Path(__file__).with_name("text.txt").write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
