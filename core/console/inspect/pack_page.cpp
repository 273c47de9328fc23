// A token is a <span class="t w4 s"> with data-t="id|position|weight|origin|policy|reference" for
// the hover box. Names are short because a page may have a hundred thousand tokens.

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "core/base/strings.h"
#include "core/console/inspect/inspected_pack.h"
#include "core/console/page/html_page.h"
#include "core/console/terminal/palette.h"
#include "core/console/terminal/shown_text.h"

namespace xrun {

namespace {

constexpr const char* kPackPageStyle = R"css(
.node { overflow: hidden; white-space: nowrap; font-size: 0.8em; background: #8882;
  margin-top: 2px; }
.node.shared { background: #4a90d966; }
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

// A search joins the tokens of a .run to one text, so that it finds text that spans several tokens;
// it reads visible blanks as blanks.
constexpr const char* kPackPageScript = R"js(
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
  const box_of_token = token.getBoundingClientRect();
  const left = Math.min(box_of_token.left, innerWidth - box.offsetWidth - 12);
  box.style.left = Math.max(4, left + scrollX) + "px";
  const below = box_of_token.bottom + box.offsetHeight + 8 < innerHeight;
  const above = box_of_token.top - box.offsetHeight - 4;
  box.style.top = scrollY + (below ? box_of_token.bottom + 4 : above) + "px";
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
    for (const token of tokens) {
      text += blanks(token.textContent).toLowerCase();
      ends.push(text.length);
    }
    let token = 0;
    const match = from => text.indexOf(wanted, from);
    for (let from = match(0); from >= 0; from = match(from + wanted.length)) {
      const end = from + wanted.length;
      ++count;
      while (ends[token] <= from) ++token;
      for (let k = token; k < tokens.length && (k === 0 ? 0 : ends[k - 1]) < end; ++k) {
        if (hits[hits.length - 1] === tokens[k]) continue;
        tokens[k].classList.add("hit");
        hits.push(tokens[k]);
      }
    }
  }
  found.textContent = wanted ? count + (count === 1 ? " match" : " matches") : "";
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

// Returns the colours of the weight scale for light and dark pages.
std::string weight_sheet() {
  std::string light, dark;
  // Begins at 1, because masked text has no background.
  for (int i = 1; i < kWeightSteps; ++i) {
    const WeightColor& color = weight_color(static_cast<WeightStep>(i));
    light += fmt::format(".w{} {{ background: {}; color: #1a1a1a; }}\n", i, color.light);
    dark += fmt::format(".w{} {{ background: {}; color: #f2f2f2; }}\n", i, color.dark);
  }
  return light + "@media (prefers-color-scheme: dark) {\n" + dark + "}\n";
}

// Escapes a name, which must stay one line.
std::string escaped(std::string_view text) {
  return html_escape(shown_text(text, Blanks::kBreaksMarked));
}

bool ends_line(const InspectedToken& token) { return token.bytes.find('\n') != std::string::npos; }

class PageWriter {
 public:
  std::string write(const std::vector<InspectedStep>& steps) {
    top(steps);
    for (const InspectedStep& step : steps) {
      step_head(step);
      for (const InspectedPack& pack : step.packs) this->pack(step, pack);
    }
    add("<div id=\"box\" class=\"mono\" role=\"tooltip\" hidden></div>\n");
    return std::move(out_);
  }

 private:
  template <typename... Values>
  void add(fmt::format_string<Values...> text, Values&&... values) {
    fmt::format_to(std::back_inserter(out_), text, std::forward<Values>(values)...);
  }

  void top(const std::vector<InspectedStep>& steps) {
    add("<h1>{}, step {}</h1>\n", escaped(steps.empty() ? "" : steps[0].recipe),
        steps.empty() ? 0 : steps[0].step);
    add("<div class=\"bar\"><input id=\"find\" type=\"search\" placeholder=\"search tokens\" "
        "aria-label=\"search tokens\"> <span id=\"found\" class=\"dim\"></span> "
        "<button id=\"open\">open all</button> <button id=\"close\">close all</button></div>\n");
    add("<p class=\"legend mono\">");
    for (int i = 0; i < kWeightSteps; ++i) {
      const WeightStep step = static_cast<WeightStep>(i);
      // Only colours that occur.
      const bool seen = any_token(
          steps, [&](const InspectedToken& token) { return weight_step(token.weight) == step; });
      if (!seen) continue;
      add("<span class=\"w{}\">{}{}</span> ", i, i == 0 ? "" : "weight ", weight_color(step).name);
    }
    add("<span class=\"s\">special token</span> <span class=\"o\">the template's own</span></p>\n");
  }

  template <typename Which>
  static bool any_token(const std::vector<InspectedStep>& steps, const Which& which) {
    for (const InspectedStep& step : steps) {
      for (const InspectedPack& pack : step.packs) {
        for (const InspectedSegment& segment : pack.segments) {
          if (std::any_of(segment.tokens.begin(), segment.tokens.end(), which)) return true;
        }
      }
    }
    return false;
  }

  void step_head(const InspectedStep& step) {
    add("<h2>{}</h2>\n<p>step {}{}, {} in {}; {} of {} tokens trained</p>\n", escaped(step.data),
        step.step, step.steps > 0 ? " of " + count_text(step.steps) : std::string(),
        counted(step.units, step.unit_name), counted(step.pack_count, "pack"),
        count_text(step.targets), count_text(step.tokens));
    if (step.units_left_out > 0) {
      add("<p>{} more are not shown</p>\n", count_text(step.units_left_out));
    }
    add("<table><tr><th>source</th><th class=\"n\">rows</th><th class=\"n\">kept</th>"
        "<th>dropped</th><th class=\"n\">cut</th><th class=\"n\">repaired</th></tr>\n");
    for (const SourceLedger& source : step.ledger.sources) {
      std::string dropped;
      for (const auto& [reason, rows] : source.dropped) {
        add_item(dropped, fmt::format("{} {}", count_text(rows), reason));
      }
      add("<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td>"
          "<td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
          escaped(source.name), count_text(source.rows), count_text(source.kept), escaped(dropped),
          count_text(source.cut), count_text(source.repaired));
    }
    add("</table>\n");
  }

  void pack(const InspectedStep& step, const InspectedPack& pack) {
    // max_tokens bounds the computed tokens of a folded pack.
    const int64_t computed = pack.fold ? pack.fold->tree.token_count() : pack.tokens;
    const double fill = 100.0 * static_cast<double>(computed) /
                        static_cast<double>(std::max<int64_t>(step.max_tokens, 1));
    add("<details class=\"pack\" open><summary><h3>pack {}</h3> {} of {} tokens, {:.0f}% full; {} "
        "trained</summary>\n",
        pack.index, count_text(computed), count_text(step.max_tokens), fill,
        count_text(pack.targets));
    if (pack.fold) fold(pack, *pack.fold);
    if (!pack.unfolded.empty()) add("<p>not folded: {}</p>\n", html_escape(pack.unfolded));
    for (const BreakGroup& group : break_groups({&pack, 1})) {
      // A short common prefix is not a fault of the data.
      const bool fault = group.example->cause != BreakCause::kShort;
      add("<p class=\"{}\">{}</p>\n", fault ? "bad" : "dim", html_escape(group.text()));
    }
    for (size_t s = 0; s < pack.segments.size();) {
      const InspectedSegment& segment = pack.segments[s];
      // Both sides of a pair are one block.
      const InspectedSegment* const rejected = rejected_after(pack, s);
      block(segment, rejected);
      s += rejected != nullptr ? 2 : 1;
    }
    if (pack.left_out > 0) add("<p>{} not shown</p>\n", counted(pack.left_out, "segment"));
    add("</details>\n");
  }

  // Draws the nodes of a folded pack that the terminal shows too: a bar per node, as long as its
  // tokens, at its position on the path.
  void fold(const InspectedPack& pack, const InspectedFold& fold) {
    add("<details class=\"fold\"><summary>folded {:.1f}x: {} tokens computed as {}</summary>\n",
        fold.tree.ratio(), count_text(pack.tokens), count_text(fold.tree.token_count()));
    const auto& position = fold.tree.position_ids;
    // The longest path takes the full width.
    const double longest =
        position.empty() ? 1 : 1.0 + *std::max_element(position.begin(), position.end());
    const FoldTreeNodes drawn = fold_tree_nodes(fold);
    for (const size_t n : drawn.shared) {
      const InspectedFold::InspectedNode& node = fold.nodes[n];
      const auto begin = static_cast<size_t>(fold.tree.node_begin[n]);
      std::string ends;
      for (const std::string& end : node.ends) add_item(ends, end);
      if (!ends.empty()) ends = " (" + ends + ")";
      // The title shows the text that a short bar cuts off.
      const std::string size = counted(node.tokens, "token") +
                               (node.segments > 1 ? fmt::format(" x{}", node.segments) : "") +
                               escaped(ends);
      add("<div class=\"node{}\" style=\"margin-left:{:.2f}%;width:{:.2f}%\" title=\"{}: {}\">{} "
          "<span class=\"dim\">{}</span></div>\n",
          node.segments > 1 ? " shared" : "", 100 * position[begin] / longest,
          100 * static_cast<double>(node.tokens) / longest, size, html_escape(node.text), size,
          html_escape(node.text));
    }
    if (drawn.alone > 0) add("<p class=\"dim\">{}</p>\n", shares_nothing_text(drawn.alone));
    add("</details>\n");
  }

  // Writes a single row, or both answers of a pair side by side.
  void block(const InspectedSegment& segment, const InspectedSegment* rejected) {
    add("<details class=\"seg\" open><summary>{}<b>{}:{}</b>{}{}</summary>\n",
        segment.pair >= 0 ? fmt::format("pair {} ", segment.pair) : std::string(),
        escaped(segment.file), segment.line,
        segment.label ? fmt::format(", label {}", *segment.label) : std::string(),
        segment.weight == 1 ? std::string() : fmt::format(", weight {:g}", segment.weight));
    if (rejected == nullptr) {
      tokens(segment, 0, segment.tokens.size());
      end_of(segment);
    } else {
      // The shared tokens come once, above both answers.
      const size_t shared = shared_tokens(segment, *rejected);
      tokens(segment, 0, shared);
      add("<div class=\"sides\">");
      for (const InspectedSegment* side : {&segment, rejected}) {
        add("<div><div class=\"dim\">{}: {}, {} trained</div>\n", side_name(side->side),
            counted(std::ssize(side->tokens), "token"), count_text(side->targets()));
        tokens(*side, shared, side->tokens.size());
        end_of(*side);
        add("</div>\n");
      }
      add("</div>\n");
    }
    add("</details>\n");
  }

  void end_of(const InspectedSegment& segment) {
    if (segment.cut_tokens > 0) {
      add("<p class=\"bad\">✂ {} cut off here{}{}</p>\n", counted(segment.cut_tokens, "token"),
          segment.cut_text.empty() ? "" : ": ", html_escape(segment.cut_text));
    }
    for (const std::string& remark : segment.remarks) {
      add("<p class=\"bad\">{}</p>\n", html_escape(remark));
    }
  }

  void tokens(const InspectedSegment& segment, size_t begin, size_t end) {
    if (begin == end) return;
    // `begin` may be inside a turn: a side begins after the shared tokens.
    auto turn = turn_from(segment, begin);
    add("<div class=\"run mono\">");
    for (size_t i = begin; i < end; ++i) {
      if (turn != segment.turns.end() && turn->begin == i) {
        // A role begins a line; the text before it may lack a line end.
        const bool on_new_line = i == begin || ends_line(segment.tokens[i - 1]);
        add("{}<span class=\"role\">{}</span>", on_new_line ? "" : "\n",
            html_escape((turn++)->role));
      }
      token(segment.tokens[i]);
    }
    add("</div>\n");
  }

  void token(const InspectedToken& token) {
    const auto step = static_cast<int>(weight_step(token.weight));
    // In the order of `names` in the script.
    add("<span class=\"t w{}{}{}\" data-t=\"{}|{}|{:g}|{}|", step, token.special ? " s" : "",
        token.origin == TokenOrigin::kTemplate ? " o" : "", token.id, token.position, token.weight,
        token_origin_name(token.origin));
    if (token.policy) add("{:.4f}", *token.policy);
    add("|");
    if (token.reference) add("{:.4f}", *token.reference);
    add("\">{}</span>", html_escape(token.shown));
    if (ends_line(token)) add("\n");
  }

  std::string out_;
};

}  // namespace

std::string pack_page(const std::vector<InspectedStep>& steps) {
  HtmlPage page;
  page.title = steps.empty()
                   ? "xrun inspect"
                   : fmt::format("{} step {}", shown_text(steps[0].recipe), steps[0].step);
  page.style = std::string(kPackPageStyle) + weight_sheet();
  page.script = kPackPageScript;
  page.body = PageWriter().write(steps);
  return html_page(page);
}

}  // namespace xrun
