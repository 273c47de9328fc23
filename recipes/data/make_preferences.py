#!/usr/bin/env python3
"""Writes preferences.jsonl: pairs that prefer a terse answer to a rambling one.

Both sides of a pair begin with the same right sentence; the chosen one ends there, the rejected
one goes on and on. What is preferred is a form, never a fact, and the shared first sentence
cancels in DPO's gradient. The facts are public and were kept only where SmolLM2-135M-Instruct
begins its own answer with that very sentence, so that answers can be scored as right or wrong
before and after training by looking for the `answer` column in them (as whole words, in either
case; elements whose symbol is an English word are left out).

The last HELD_OUT rows ask about facts that no other row mentions: `valid = { fraction = 0.1 }`.
Standard library only, no random numbers: the same bytes on every machine.

    python3 recipes/data/make_preferences.py        # rewrites recipes/data/preferences.jsonl
"""

import hashlib
import json
import pathlib

ROWS = 300
HELD_OUT = 30

CAPITALS = """France:Paris Italy:Rome Spain:Madrid Portugal:Lisbon Germany:Berlin Austria:Vienna
Greece:Athens Poland:Warsaw Hungary:Budapest Romania:Bucharest Bulgaria:Sofia Sweden:Stockholm
Norway:Oslo Finland:Helsinki Denmark:Copenhagen Ireland:Dublin Iceland:Reykjavik Russia:Moscow
Belgium:Brussels Albania:Tirana Latvia:Riga Lithuania:Vilnius Slovakia:Bratislava Japan:Tokyo
China:Beijing India:New_Delhi South_Korea:Seoul North_Korea:Pyongyang Thailand:Bangkok
Vietnam:Hanoi Indonesia:Jakarta the_Philippines:Manila Nepal:Kathmandu Bangladesh:Dhaka
Pakistan:Islamabad Afghanistan:Kabul Iraq:Baghdad Syria:Damascus Lebanon:Beirut Egypt:Cairo
Tunisia:Tunis Morocco:Rabat Sudan:Khartoum Ethiopia:Addis_Ababa Kenya:Nairobi Uganda:Kampala
Rwanda:Kigali Ghana:Accra Nigeria:Abuja Senegal:Dakar Zimbabwe:Harare Canada:Ottawa
Mexico:Mexico_City Cuba:Havana Argentina:Buenos_Aires Chile:Santiago Peru:Lima
Australia:Canberra New_Zealand:Wellington Cambodia:Phnom_Penh England:London
Scotland:Edinburgh Wales:Cardiff the_Netherlands:Amsterdam Switzerland:Bern Somalia:Mogadishu
Haiti:Port-au-Prince Nicaragua:Managua"""

STATES = """Texas:Austin Georgia:Atlanta Ohio:Columbus Arizona:Phoenix Colorado:Denver
Massachusetts:Boston Hawaii:Honolulu Utah:Salt_Lake_City Tennessee:Nashville Iowa:Des_Moines
Indiana:Indianapolis Oklahoma:Oklahoma_City Louisiana:Baton_Rouge Idaho:Boise Alabama:Montgomery
Wyoming:Cheyenne Rhode_Island:Providence Vermont:Montpelier"""

SYMBOLS = """gold:Au silver:Ag iron:Fe copper:Cu oxygen:O hydrogen:H nitrogen:N lithium:Li
sodium:Na potassium:K calcium:Ca aluminum:Al silicon:Si phosphorus:P sulfur:S chlorine:Cl
argon:Ar neon:Ne zinc:Zn nickel:Ni lead:Pb tin:Sn mercury:Hg uranium:U titanium:Ti chromium:Cr
manganese:Mn cobalt:Co fluorine:F barium:Ba radium:Ra xenon:Xe cadmium:Cd"""

LANGUAGES = """Brazil:Portuguese France:French Germany:German Italy:Italian Spain:Spanish
Russia:Russian Portugal:Portuguese Greece:Greek Turkey:Turkish Poland:Polish Norway:Norwegian
Hungary:Hungarian Thailand:Thai Vietnam:Vietnamese South_Korea:Korean Austria:German
Colombia:Spanish Cuba:Spanish Egypt:Arabic Saudi_Arabia:Arabic Jordan:Arabic Jamaica:English
Bulgaria:Bulgarian Romania:Romanian Angola:Portuguese Mozambique:Portuguese Ecuador:Spanish
Venezuela:Spanish Latvia:Latvian Lithuania:Lithuanian Armenia:Armenian Israel:Hebrew"""

OPPOSITES = """hot:cold big:small fast:slow happy:sad up:down light:dark day:night young:old
strong:weak hard:soft high:low open:closed wet:dry early:late long:short wide:narrow thick:thin
heavy:light clean:dirty war:peace push:pull inside:outside near:far left:right begin:end
easy:difficult front:back male:female king:queen north:south east:west tall:short ugly:beautiful
warm:cool awake:asleep positive:negative entrance:exit success:failure simple:complex odd:even
public:private ancient:modern accept:reject increase:decrease victory:defeat maximum:minimum
remember:forget import:export interior:exterior"""

# topic: facts, what a prompt asks about, the right sentence, facts that are held out, tails
TOPICS = {
    "capital": (CAPITALS, "the capital of {}", 9, "city"),
    "state capital": (STATES, "the capital of the state of {}", 3, "city"),
    "symbol": (SYMBOLS, "the chemical symbol for {}", 6, "symbol"),
    "language": (LANGUAGES, "the official language of {}", 5, "language"),
    "opposite": (OPPOSITES, "the opposite of {}", 7, "word"),
}
PROMPTS = ["Tell me about {}.", "What can you tell me about {}?"]

# How a rambling answer goes on, and how it goes on after that. None of it says anything.
TAILS = {
    "city": (["It's a vibrant city that is known for its rich history, its culture and its sights.",
              "It is a major center for business, finance and culture, with a great deal to offer.",
              "It's a place that is steeped in tradition, and yet it is a modern place as well.",
              "It is a bustling city with museums, parks, markets and many fine restaurants."],
             ["People from all over the world come to see it, and they say that they enjoyed it.",
              "It is also a place with old parts and new parts, each with a character of its own.",
              "Whether you like history, food or music, there is always something for you to do."]),
    "symbol": (["It represents an element that is found in nature and is used in many ways.",
                "It is a symbol that is used by scientists, teachers and students every day.",
                "It's a part of the periodic table, which is an important tool in chemistry.",
                "It is an element that plays a role in industry, in research and in daily life."],
               ["Each element has a symbol of its own, which makes it easier to write reactions.",
                "It is important to note that such symbols are made of one or two letters.",
                "Chemists all over the world agree on these symbols, whatever language they speak."]),
    "language": (["It is a language with a rich history that has been spoken for a very long time.",
                  "It's a language that is used in schools, in newspapers and in everyday life.",
                  "It is a language that has been influenced by many other languages over time.",
                  "It is spoken by a great many people, at home, at work and on television."],
                 ["Many people around the world learn it, because they love its books and its music.",
                  "It also has its own grammar and vocabulary, which makes it unique and interesting.",
                  "There are also other languages and dialects that people speak in some regions."]),
    "word": (["This is a fundamental concept in language, and it is used in a variety of contexts.",
              "It is a word that we often use to compare things and to describe the world.",
              "This is a common contrast, and it makes what we say clearer and more interesting.",
              "It's a word that can be used in many different ways and in many situations."],
             ["It is important to note that what a word means can depend on the context.",
              "Opposites are also known as antonyms, and there are many different kinds of them.",
              "In literature, writers use contrasts like this one to make their work stronger."]),
}


def stable(text):
    """A number that depends on the text alone, the same everywhere."""
    return int(hashlib.sha256(text.encode("utf-8")).hexdigest(), 16)


def pair(topic, subject, answer, prompt):
    _, about, _, tails = TOPICS[topic]
    about = about.format(subject)
    prompt = prompt.format(about)
    chosen = f"The{about[3:]} is {answer}."
    tail = [part[stable(prompt) // (i + 1) % len(part)] for i, part in enumerate(TAILS[tails])]
    return {"prompt": prompt, "chosen": chosen, "rejected": " ".join([chosen] + tail),
            "answer": answer, "topic": topic}


def pairs():
    first, second, held_out = [], [], []
    for topic, (facts, _, held, _) in TOPICS.items():
        facts = [[part.replace("_", " ") for part in fact.split(":")] for fact in facts.split()]
        facts.sort(key=lambda fact: stable(topic + fact[0]))
        for index, (subject, answer) in enumerate(facts):
            rows = [pair(topic, subject, answer, prompt) for prompt in PROMPTS]
            if index < held:
                held_out.append(rows[index % 2])
            else:
                first.append(rows[0])
                second.append(rows[1])
    by_prompt = lambda row: stable(row["prompt"])
    train = first + sorted(second, key=by_prompt)[: ROWS - HELD_OUT - len(first)]
    return sorted(train, key=by_prompt) + sorted(held_out, key=by_prompt)


def main():
    rows = pairs()
    assert len(rows) == ROWS and len({row["prompt"] for row in rows}) == ROWS
    out = pathlib.Path(__file__).with_name("preferences.jsonl")
    with open(out, "w", encoding="utf-8", newline="\n") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
