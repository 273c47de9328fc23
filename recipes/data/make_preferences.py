#!/usr/bin/env python3
"""Writes preferences.jsonl and fresh.jsonl: pairs that prefer a terse answer to a rambling one.

Both sides of a pair begin with the same right sentence; the chosen one ends there, the rejected
one goes on and on. What is preferred is a form, never a fact, and the shared first sentence
cancels in DPO's gradient. The facts are public and were kept only where SmolLM2-135M-Instruct
begins its own answer with that very sentence and gives the name in it (of a city, a symbol, a
language) a probability above one half: so that the share of right answers before and after tells
what training breaks. A right answer has the `answer` column in it, as whole words, in either case;
elements whose symbol is an English word are left out.

The last HELD_OUT rows ask about facts that no other row mentions: `valid = { fraction = 0.1 }`.
fresh.jsonl asks about the facts of FRESH, one prompt each, which preferences.jsonl lacks, some of
them since the model was found unsure of them: what training costs outside the chosen facts.
Standard library only, no random numbers: the same bytes on every machine.

    python3 recipes/data/make_preferences.py        # rewrites both files beside it
"""

import hashlib
import json
import pathlib

ROWS = 300
HELD_OUT = 30

CAPITALS = """France:Paris Italy:Rome Spain:Madrid Portugal:Lisbon Germany:Berlin Austria:Vienna
Greece:Athens Hungary:Budapest Romania:Bucharest Bulgaria:Sofia Sweden:Stockholm Norway:Oslo
Denmark:Copenhagen Ireland:Dublin Russia:Moscow Belgium:Brussels Latvia:Riga Japan:Tokyo
China:Beijing South_Korea:Seoul North_Korea:Pyongyang Thailand:Bangkok Indonesia:Jakarta
Bangladesh:Dhaka Pakistan:Islamabad Afghanistan:Kabul Syria:Damascus Tunisia:Tunis Kenya:Nairobi
Uganda:Kampala Rwanda:Kigali Canada:Ottawa Mexico:Mexico_City Cuba:Havana Argentina:Buenos_Aires
Chile:Santiago Australia:Canberra New_Zealand:Wellington England:London Scotland:Edinburgh
the_Netherlands:Amsterdam Somalia:Mogadishu"""

STATES = """Massachusetts:Boston Hawaii:Honolulu Tennessee:Nashville Indiana:Indianapolis
Louisiana:Baton_Rouge Idaho:Boise"""

SYMBOLS = """gold:Au silver:Ag iron:Fe copper:Cu oxygen:O hydrogen:H nitrogen:N lithium:Li
sodium:Na potassium:K aluminum:Al phosphorus:P sulfur:S chlorine:Cl argon:Ar zinc:Zn nickel:Ni
tin:Sn uranium:U titanium:Ti cobalt:Co barium:Ba xenon:Xe cadmium:Cd"""

LANGUAGES = """France:French Germany:German Italy:Italian Spain:Spanish Russia:Russian
Portugal:Portuguese Greece:Greek Turkey:Turkish Poland:Polish Norway:Norwegian Hungary:Hungarian
Vietnam:Vietnamese Austria:German Colombia:Spanish Cuba:Spanish Egypt:Arabic Saudi_Arabia:Arabic
Jordan:Arabic Bulgaria:Bulgarian Romania:Romanian Mozambique:Portuguese Ecuador:Spanish
Venezuela:Spanish Latvia:Latvian Lithuania:Lithuanian Armenia:Armenian Israel:Hebrew"""

OPPOSITES = """hot:cold big:small fast:slow happy:sad up:down light:dark day:night young:old
strong:weak hard:soft high:low open:closed wet:dry early:late long:short wide:narrow thick:thin
heavy:light clean:dirty war:peace push:pull inside:outside near:far left:right begin:end
easy:difficult front:back male:female king:queen north:south east:west tall:short ugly:beautiful
warm:cool awake:asleep positive:negative entrance:exit success:failure simple:complex odd:even
public:private ancient:modern accept:reject increase:decrease victory:defeat maximum:minimum
remember:forget import:export interior:exterior"""

# topic: facts of fresh.jsonl, chosen without regard to what the model knows of them
FRESH = {
    "capital": """Poland:Warsaw Finland:Helsinki Turkey:Ankara Egypt:Cairo India:New_Delhi Peru:Lima
Vietnam:Hanoi Iran:Tehran Iraq:Baghdad Iceland:Reykjavik Croatia:Zagreb Serbia:Belgrade
Ethiopia:Addis_Ababa Ghana:Accra""",
    "state capital": """Texas:Austin Colorado:Denver Georgia:Atlanta Ohio:Columbus
Utah:Salt_Lake_City Arizona:Phoenix""",
    "symbol": """carbon:C calcium:Ca magnesium:Mg silicon:Si neon:Ne platinum:Pt mercury:Hg""",
    "language": """Japan:Japanese Sweden:Swedish Denmark:Danish Mexico:Spanish Brazil:Portuguese
Thailand:Thai Iceland:Icelandic""",
    "opposite": """empty:full rich:poor loud:quiet smooth:rough deep:shallow buy:sell love:hate
true:false""",
}

# topic: facts, what a prompt asks about, the right sentence, facts that are held out, tails
TOPICS = {
    "capital": (CAPITALS, "the capital of {}", 9, "city"),
    "state capital": (STATES, "the capital of the state of {}", 2, "city"),
    "symbol": (SYMBOLS, "the chemical symbol for {}", 6, "symbol"),
    "language": (LANGUAGES, "the official language of {}", 5, "language"),
    "opposite": (OPPOSITES, "the opposite of {}", 8, "word"),
}
PROMPTS = ["Tell me about {}.", "What can you tell me about {}?", "Please tell me about {}."]

# Continuations of a rambling answer, in the model's own style; {0} is the answer. None of them
# says anything, none begins with "The", as answers do, and none is long: every token of a tail is
# pushed down, against one end of turn that is pushed up.
TAILS = {
    "city": [
        "It's a vibrant city that is known for its rich history, its culture and its sights.",
        "It is a major center for business, finance and culture, with a great deal to offer.",
        "It is a bustling city with museums, parks, markets and many fine restaurants.",
        "{0} is a vibrant city that is steeped in tradition, and yet it is a modern place.",
        "{0} is a city with old parts and new parts, each with a character of its own.",
        "{0}, as it is called, is a place that people from all over the world come to see.",
        "This city is known for its museums, its parks and its lively streets and squares.",
        "Located where it is, the city has a great deal to offer to people of all ages.",
        "Whether you like history, food or music, there is always something for you to do.",
    ],
    "symbol": [
        "It represents an element that is found in nature and is used in many ways.",
        "It is a chemical element that plays a role in industry and in daily life.",
        "It's a part of the periodic table, which is an important tool in chemistry.",
        "This symbol is used by scientists, teachers and students of chemistry every day.",
        "This element has a symbol of its own, which makes it easier to write reactions.",
        "In chemistry, it is important to know that symbols have one or two letters.",
        "{0} is a symbol that chemists use, whatever language they happen to speak.",
    ],
    "language": [
        "It is a language with a rich history that has been spoken for a very long time.",
        "It's a language that is used in schools, in newspapers and in everyday life.",
        "This is a language that has been influenced by many other languages over time.",
        "This language is spoken by a great many people, at home, at work and on television.",
        "{0} is a language with a grammar and a vocabulary that are unique and interesting.",
        "{0} is spoken by a great many people, who love its books, its songs and its jokes.",
        "However, there are also other languages and dialects that people speak.",
    ],
    "word": [
        "This is a fundamental concept in language, and it is used in many contexts.",
        "This refers to a contrast, which makes what we say clearer and more interesting.",
        "It is a word that we often use to compare things and to describe the world.",
        "It's a word that can be used in many different ways and in many situations.",
        "In the context of language, opposites are also known as antonyms by many people.",
        "In literature, writers use contrasts like this one to make their work stronger.",
        "{0} is a word that we use, like many others, to describe the world around us.",
    ],
}


def stable(text):
    """A number that depends on the text alone, the same everywhere."""
    return int(hashlib.sha256(text.encode("utf-8")).hexdigest(), 16)


def pair(topic, subject, answer, prompt):
    _, about, _, tails = TOPICS[topic]
    about = about.format(subject)
    prompt = prompt.format(about)
    chosen = f"The{about[3:]} is {answer}."
    tail = TAILS[tails][stable(prompt) % len(TAILS[tails])].format(answer)
    tail = tail[0].upper() + tail[1:]
    return {"prompt": prompt, "chosen": chosen, "rejected": f"{chosen} {tail}",
            "answer": answer, "topic": topic}


def split_facts(facts):
    return [[part.replace("_", " ") for part in fact.split(":")] for fact in facts.split()]


def fresh_pairs():
    rows = []
    for topic, facts in FRESH.items():
        used = {subject for subject, _ in split_facts(TOPICS[topic][0])}
        for index, (subject, answer) in enumerate(split_facts(facts)):
            assert subject not in used, (topic, subject)
            rows.append(pair(topic, subject, answer, PROMPTS[index % len(PROMPTS)]))
    return rows


def pairs():
    first, more, held_out = [], [], []
    for topic, (facts, _, held, _) in TOPICS.items():
        facts = split_facts(facts)
        facts.sort(key=lambda fact: stable(topic + fact[0]))
        for index, (subject, answer) in enumerate(facts):
            rows = [pair(topic, subject, answer, prompt) for prompt in PROMPTS]
            if index < held:
                held_out.append(rows[index % len(rows)])
            else:
                first.append(rows[0])
                more += rows[1:]
    by_prompt = lambda row: stable(row["prompt"])
    train = first + sorted(more, key=by_prompt)[: ROWS - HELD_OUT - len(first)]
    return sorted(train, key=by_prompt) + sorted(held_out, key=by_prompt)


def write(name, rows):
    assert len({row["prompt"] for row in rows}) == len(rows)
    with open(pathlib.Path(__file__).with_name(name), "w", encoding="utf-8", newline="\n") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def main():
    rows = pairs()
    assert len(rows) == ROWS
    write("preferences.jsonl", rows)
    write("fresh.jsonl", fresh_pairs())


if __name__ == "__main__":
    main()
