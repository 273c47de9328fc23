#!/usr/bin/env bash
# The report in a headless browser: its charts, its controls and its time to open. Skipped without
# Chromium. Pictures stay in $XRUN_PICTURES if that is set.
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || exit 77
source "$(dirname "${BASH_SOURCE[0]}")/recipe_fixture.sh"

browse() { # ARGUMENT...: no sound, no network, no profile of the user
  timeout 60 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars \
    --user-data-dir="$work/profile" "$@" 2>browser.err
}
# PAGE SCRIPT: runs the script in a copy of the page once it is laid out; prints what it returns.
in_page() {
  local nonce
  nonce=$(grep -o "nonce-[0-9a-f]*" "$1" | head -n 1 | cut -c7-)
  sed '$d' "$1" | sed '$d' >probe.html # </body> and </html>
  printf '<pre id="result"></pre><script nonce="%s">addEventListener("load", () => {
    const result = (() => { %s })();
    document.getElementById("result").textContent = "[" + result + "]"; });</script></body></html>\n' \
    "$nonce" "$2" >>probe.html
  browse --enable-logging=stderr --dump-dom "file://$work/probe.html" >dom.html
  ! grep -E 'Uncaught|Refused|CONSOLE.*[Ee]rror' browser.err >complaints ||
    fail "the browser reports errors in $1: $(cat complaints)"
  sed -n 's/.*<pre id="result">\[\(.*\)\]<\/pre>.*/\1/p' dom.html
}

dpo --run one >/dev/null
dpo --run two --set seed=1 --set beta=0.2 >/dev/null
"$xrun" report one two -o two.html
"$xrun" report one -o one.html

# Every chart has a line with a shape, and every line is inside its frame.
is "$(in_page one.html '
  const bad = [];
  for (const figure of document.querySelectorAll("figure.plot")) {
    const frame = figure.querySelector("svg").getBoundingClientRect();
    const lines = figure.querySelectorAll(".line");
    if (!lines.length) bad.push(figure.querySelector("b").textContent + ": no line");
    for (const line of lines) {
      const box = line.getBoundingClientRect();
      if (!(box.width > 50)) bad.push("narrow");
      if (box.left < frame.left - 3 || box.right > frame.right + 3) bad.push("outside");
      if (box.top < frame.top - 3 || box.bottom > frame.bottom + 3) bad.push("outside");
    }
  }
  return bad.join() + document.querySelectorAll("figure.plot").length;')" 24
# A checkbox hides its run everywhere and shows it again.
is "$(in_page two.html '
  const box = document.querySelector("input[data-group=run-1]");
  const seen = () => [...document.querySelectorAll(".line.run-1")]
      .filter((line) => line.getBoundingClientRect().width > 0).length;
  const counts = [seen() > 10];
  box.click(); counts.push(seen());
  box.click(); counts.push(seen() > 10);
  return counts.join();')" true,0,true
# "only what differs" shows only the settings that differ.
is "$(in_page two.html '
  document.getElementById("differing").click();
  return [...document.querySelectorAll("#settings tbody tr")]
      .filter((row) => row.getBoundingClientRect().height > 0)
      .map((row) => row.cells[0].textContent).join();')" beta,seed
# The pointer reads a value: the first step of DPO is ln 2.
is "$(in_page one.html '
  const figure = [...document.querySelectorAll("figure.plot")]
      .find((one) => one.querySelector("b").textContent === "loss");
  const mark = figure.querySelector(".axes .base").getBoundingClientRect();
  figure.querySelector("svg").dispatchEvent(new PointerEvent("pointermove",
      {clientX: mark.left + 1, clientY: mark.top - 20, bubbles: true}));
  return figure.querySelector("output").textContent;')" 'step 0: train 0.693, valid 0.693'
# Rows of the token cache, with trained text marked; without the cache, the reason for their absence.
is "$(in_page one.html '
  const rows = [...document.querySelectorAll("#rows .row")];
  const trained = rows.map((row) => row.querySelector("b.trained"));
  return rows.length + " " + trained.every((b) => b && b.textContent.endsWith("<|im_end|>"));')" '6 true'
XRUN_CACHE=$work/elsewhere "$xrun" report one -o gone.html >/dev/null
grep -q 'its token cache is no longer in' gone.html || fail "a missing cache is not reported"
# A script that got into the page as markup does not run.
sed 's|<h1>|<script>document.title = "owned"</script><img src="x" onerror="document.title = 1"><h1>|' \
  one.html >injected.html
browse --dump-dom "file://$work/injected.html" | grep -q '<title>one - xrun report</title>' ||
  fail "a foreign script ran"

# 100,000 steps: the size of the file, and the time until all of it is laid out.
python3 - <<'PYTHON'
import json, math, random
random.seed(1)
names = "loss accuracy margin reward_chosen reward_rejected logprob_chosen length_chosen grad_norm lr"
with open("one/metrics.jsonl", "w") as file:
    for step in range(100000):
        line = {"step": step}
        for i, name in enumerate(names.split()):
            line["train/" + name] = math.exp(-step / 3e4) * (i + 1) + random.gauss(0, 0.1)
        if step % 100 == 0:
            line.update({"valid/loss": 1.0 / (step + 1), "valid/accuracy": step / 1e5})
        line.update({"perf/step_s": random.random(), "perf/tokens_per_s": random.random()})
        line["train/grad_norm"] = 5000 if step == 54321 else line["train/grad_norm"] ** 2 + 0.1
        file.write(json.dumps(line) + "\n")
PYTHON
began=$(date +%s%N)
"$xrun" report one -o long.html
echo "made in $((($(date +%s%N) - began) / 1000000)) ms"
bytes=$(stat -c %s long.html)
[ "$bytes" -lt 3000000 ] || fail "100,000 steps take $bytes bytes"
ms=$(in_page long.html 'document.body.getBoundingClientRect(); return Math.round(performance.now());')
echo "$bytes bytes, laid out after $ms ms"
[ "$ms" -lt 2000 ] || fail "100,000 steps take $ms ms to open"
# The slider sets the smoothing, and a spike of one step reaches the top of its chart.
is "$(in_page long.html '
  const slider = document.getElementById("smooth");
  const shown = () => [...document.querySelectorAll(".line:first-of-type .smooth")]
      .filter((path) => getComputedStyle(path).display !== "none").map((path) => path.classList[1]);
  const seen = [];
  for (const level of [0, 4]) {
    slider.value = level;
    slider.dispatchEvent(new Event("input"));
    seen.push([...new Set(shown())].join(""));
  }
  const norm = [...document.querySelectorAll("figure.plot")]
      .find((one) => one.querySelector("b").textContent.startsWith("grad_norm"));
  const top = norm.querySelector(".raw").getBoundingClientRect().top;
  const frame = norm.querySelector(".axes").getBoundingClientRect().top;
  seen.push(norm.querySelector("b").textContent, top - frame < 12);
  return seen.join();')" ',s4,grad_norm (log scale),true'

# A picture for visual inspection.
pictures=${XRUN_PICTURES:-$work}
browse --window-size=1300,1250 --screenshot="$pictures/report.png" "file://$work/two.html" >/dev/null
browse --window-size=1300,1250 --screenshot="$pictures/report_long.png" "file://$work/long.html" >/dev/null
browse --window-size=420,1400 --screenshot="$pictures/report_narrow.png" "file://$work/two.html" >/dev/null
[ "$(stat -c %s "$pictures/report.png")" -gt 20000 ] || fail "the picture is blank"
