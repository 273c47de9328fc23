#pragma once
// The style and the script of pack_page: hover box, search, open and close.

namespace xrun {

inline constexpr const char* kPackPageStyle = R"css(
.bar { position: sticky; top: 0; background: var(--paper); padding: .5rem 0; z-index: 2; }
.bar input { font: inherit; padding: .25rem .5rem; width: 18rem; max-width: 60%;
  color: var(--text); background: var(--panel); border: 1px solid var(--edge); }
.bar button { font: inherit; }
.legend span { padding: 0 .35rem; border-radius: 3px; }
details.pack { margin-top: 1.4rem; }
summary h3 { display: inline; }
details.seg { border: 1px solid var(--edge); border-radius: 5px; margin: .6rem 0;
  padding: .4rem .7rem; }
.run { white-space: pre-wrap; overflow-wrap: anywhere; line-height: 1.65; margin: .35rem 0; }
.sides { display: grid; grid-template-columns: 1fr 1fr; gap: 1.2rem; }
@media (max-width: 55rem) { .sides { grid-template-columns: 1fr; } }
.role { color: var(--dim); font-size: .85em; display: inline-block; min-width: 6em;
  padding-right: .6em; user-select: none; }
.t { border-radius: 2px; box-shadow: inset -1px 0 0 var(--paper); }
.w0 { color: var(--dim); }
.s { text-decoration: underline; text-underline-offset: 5px; }
.o { font-style: italic; }
.t:hover, .t.on { outline: 2px solid var(--link); }
.t.hit { outline: 2px solid var(--bad); }
#box { position: absolute; background: var(--panel); color: var(--text); padding: .4rem .6rem;
  border: 1px solid var(--edge); border-radius: 4px; white-space: pre; z-index: 3;
  pointer-events: none; max-width: 90vw; overflow: hidden; }
)css";

// A search looks at the tokens of a run as one text, with visible blanks read as blanks, so that it
// finds what is split over tokens.
inline constexpr const char* kPackPageScript = R"js(
"use strict";
const box = document.getElementById("box");
const names = ["id", "position", "weight", "written by", "policy", "reference"];
let on = null;
function show(token) {
  if (on) on.classList.remove("on");
  on = token;
  box.hidden = !token;
  if (!token) return;
  token.classList.add("on");
  const values = token.dataset.t.split("|");
  let text = JSON.stringify(token.textContent);
  names.forEach((name, i) => { if (values[i]) text += "\n" + name.padEnd(11) + values[i]; });
  if (values[4] && values[5])
    text += "\n" + "difference".padEnd(11) + (values[4] - values[5]).toFixed(4);
  box.textContent = text;
  const place = token.getBoundingClientRect();
  const left = Math.min(place.left, innerWidth - box.offsetWidth - 12);
  box.style.left = Math.max(4, left + scrollX) + "px";
  const below = place.bottom + box.offsetHeight + 8 < innerHeight;
  box.style.top = scrollY + (below ? place.bottom + 4 : place.top - box.offsetHeight - 4) + "px";
}
document.addEventListener("mouseover", event => show(event.target.closest(".t")));
document.addEventListener("keydown", event => { if (event.key === "Escape") show(null); });

const blanks = text => text.replace(/·/g, " ").replace(/→/g, "\t").replace(/⏎/g, "\n");
const find = document.getElementById("find"), found = document.getElementById("found");
let hits = [], at = -1;
function search() {
  hits.forEach(hit => hit.classList.remove("hit"));
  hits = [];
  at = -1;
  const wanted = blanks(find.value).toLowerCase();
  let count = 0;
  if (wanted) for (const run of document.querySelectorAll(".run")) {
    const tokens = run.querySelectorAll(".t"), ends = [];
    let text = "";
    for (const token of tokens) { text += blanks(token.textContent).toLowerCase(); ends.push(text.length); }
    let token = 0;
    for (let from = text.indexOf(wanted); from >= 0; from = text.indexOf(wanted, from + wanted.length)) {
      ++count;
      while (ends[token] <= from) ++token;
      for (let k = token; k < tokens.length && (k === 0 ? 0 : ends[k - 1]) < from + wanted.length; ++k) {
        if (hits[hits.length - 1] === tokens[k]) continue;
        tokens[k].classList.add("hit");
        hits.push(tokens[k]);
      }
    }
  }
  found.textContent = wanted ? count + (count === 1 ? " place" : " places") : "";
}
function next() {
  if (hits.length === 0) return;
  at = (at + 1) % hits.length;
  for (let up = hits[at].parentElement; up; up = up.parentElement)
    if (up.tagName === "DETAILS") up.open = true;
  hits[at].scrollIntoView({ block: "center" });
  show(hits[at]);
}
find.addEventListener("input", search);
find.addEventListener("keydown", event => { if (event.key === "Enter") next(); });
const fold = open => document.querySelectorAll("details").forEach(one => { one.open = open; });
document.getElementById("open").addEventListener("click", () => fold(true));
document.getElementById("close").addEventListener("click", () => fold(false));
)js";

}  // namespace xrun
