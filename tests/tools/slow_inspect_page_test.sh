#!/usr/bin/env bash
# xrun inspect --html in a real browser: hover, search, open and close, light and dark.
source "$(dirname "${BASH_SOURCE[0]}")/recipe_fixture.sh"
python3 -c "import sys; sys.path.insert(0, '$root/tests/tools'); import browser; sys.exit(not browser.find())" ||
  { echo "skipped: there is no Chromium"; exit 77; }
"$xrun" inspect "$root/recipes/dpo.lua" --set model=tiny \
  --set data.1.path="$root/tests/data/pairs.jsonl" --logprobs --html page.html 2>/dev/null
python3 - "$root" <<'PYTHON'
import sys

sys.path.insert(0, sys.argv[1] + "/tests/tools")
from browser import Browser


def check(what, got, wanted):
    if got != wanted:
        sys.exit(f"{what}: got {got!r}, wanted {wanted!r}")


with Browser() as browser:
    browser.open("page.html")
    tokens = browser.evaluate("document.querySelectorAll('.t').length")
    if tokens < 100:
        sys.exit(f"only {tokens} tokens")
    over = "new MouseEvent('mouseover', {bubbles: true})"
    browser.evaluate(f"document.querySelectorAll('.t')[9].dispatchEvent({over})")
    text = browser.evaluate("box.hidden ? '' : box.textContent")
    for line in ("id ", "position ", "weight ", "policy ", "reference ", "difference "):
        if "\n" + line not in text:
            sys.exit(f"the box lacks {line!r}: {text!r}")
    check("visible", browser.evaluate("box.getBoundingClientRect().left >= 0"), True)

    def find(text):
        browser.evaluate(f"find.value = {text!r}; find.dispatchEvent(new Event('input'))")
        return browser.evaluate("found.textContent")

    # A word that the tokenizer of bytes splits into letters.
    matches = int(find("assistant").split()[0])
    check("all letters", browser.evaluate("document.querySelectorAll('.hit').length"), 9 * matches)
    check("nothing", find("no such text anywhere"), "0 matches")
    browser.evaluate("document.getElementById('close').click()")
    check("closed", browser.evaluate("document.querySelectorAll('details[open]').length"), 0)
    find("assistant")
    browser.evaluate("find.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter'}))")
    check("opened where it was found",
          browser.evaluate("document.querySelectorAll('details[open]').length"), 2)
    browser.evaluate("document.getElementById('open').click()")
    light = browser.evaluate("getComputedStyle(document.querySelector('.w4')).backgroundColor")
    browser.dark()
    dark = browser.evaluate("getComputedStyle(document.querySelector('.w4')).backgroundColor")
    check("colours", (light, dark), ("rgb(166, 227, 161)", "rgb(29, 82, 35)"))
    check("wider than the window",
          browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), True)
    check("complaints", browser.complaints(), [])
PYTHON
