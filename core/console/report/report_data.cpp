// The rows on which a run was trained, and the answers that it sampled with run:sample.

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/strings.h"
#include "core/base/utf8.h"
#include "core/console/page/html_page.h"
#include "core/console/page/plot.h"
#include "core/console/report/report_sections.h"
#include "core/console/terminal/shown_text.h"
#include "core/data/rows/ledger.h"

namespace xrun {

namespace {

constexpr size_t kListedRows = 20;  // bad, cut and repaired ones of each source
constexpr size_t kShownPrompts = 8;
constexpr size_t kPromptBytes = 600, kAnswerBytes = 4000;

std::string dim(const std::string& text) { return "<p class=\"dim\">" + text + "</p>\n"; }

std::string lines_of(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += html_escape(line) + "\n";
  return "<pre>" + out + "</pre>";
}

// Lists the dropped and noted rows by reason, with the first of each.
std::string source_details(const SourceLedger& source) {
  HtmlTable reasons({"rows", ""}, {Align::kRight});
  for (const auto& [reason, rows] : source.dropped) {
    reasons.add({count_text(rows), "dropped: " + html_escape(reason)}, "bad");
  }
  for (const auto& [note, rows] : source.notes) {
    const std::string lines = source.noted_rows(note);  // "7 rows: a.jsonl:3, ..."
    const size_t colon = lines.find(": ");
    reasons.add(
        {count_text(rows),
         html_escape(note +
                     (colon == std::string::npos ? "" : " (" + lines.substr(colon + 2) + ")"))});
  }
  std::string out = reasons.html();
  struct RowList {
    const char* what;
    std::vector<std::string> lines;
    size_t all;
  };
  const size_t repaired = source.repaired_at.size() + source.lone_surrogate_at.size();
  for (const RowList& list :
       {RowList{"bad rows", source.bad_lines(kListedRows), source.bad.size()},
        RowList{"cut rows", source.cut_lines(kListedRows), source.cut_at.size()},
        RowList{"repaired rows", source.repaired_lines(kListedRows), repaired}}) {
    if (list.lines.empty()) continue;
    out += html_details(fmt::format("{} (the first of {})", list.what, list.all),
                        lines_of(list.lines));
  }
  return out;
}

std::string ledger_html(const Ledger& ledger) {
  using A = Align;
  HtmlTable table(
      {"source", "rows", "kept", "dropped", "cut", "repaired", "tokens", "trained"},
      {A::kLeft, A::kRight, A::kRight, A::kRight, A::kRight, A::kRight, A::kRight, A::kRight});
  std::string details;
  for (const SourceLedger& source : ledger.sources) {
    table.add({html_escape(source.name), count_text(source.rows), count_text(source.kept),
               count_text(source.dropped_total()), count_text(source.cut),
               count_text(source.repaired), count_text(source.tokens),
               count_text(source.trained_tokens)});
    const std::string more = source_details(source);
    if (!more.empty()) details += html_details(html_escape(source.name), more);
  }
  return table.html() + details;
}

// The answers to one row of the data.
struct Answers {
  std::string prompt;
  std::map<size_t, std::string> texts;  // by index of the step in RunFiles::samples
};

// Returns the row's own `prompt` column if it is an extra column, else the whole rendered prompt.
std::string prompt_text(const Json& answer) {
  const Json* extra = answer.find("extra");
  if (extra == nullptr) extra = answer.find("kept");  // its name in runs before "extra"
  const std::string column = text_member(extra, "prompt");
  return shortened(column.empty() ? text_member(answer, "prompt") : column, kPromptBytes);
}

// Marks the blanks at the end of an answer, which would be invisible.
std::string answer_html(const std::string& text) {
  const size_t end = text.find_last_not_of(" \t\n") + 1;  // 0 if all is blank
  const std::string blanks = shown_text(text.substr(end), Blanks::kMarked);
  return "<div class=\"answer\">" + html_escape(text.substr(0, end)) + "<span class=\"dim\">" +
         blanks + "</span></div>";
}

// Returns a table with one line per prompt and one column per step, so that an answer can be
// followed through the training.
std::string samples_of(const RunFiles& run) {
  std::vector<std::string> header = {"prompt"};
  std::vector<int64_t> order;  // rows of the data
  std::map<int64_t, Answers> rows;
  std::set<int64_t> left_out;  // further rows
  for (size_t i = 0; i < run.samples.size(); ++i) {
    header.push_back(fmt::format("step {}", run.samples[i].step));
    for (const Json& answer : run.samples[i].answers) {
      const Json* row = answer.find("row");
      // Answers that name no row share one line, which shows the last answer of each step.
      const int64_t number = row != nullptr && row->is_int() ? row->as_int() : -1;
      auto found = rows.find(number);
      if (found == rows.end()) {
        if (order.size() >= kShownPrompts) {
          left_out.insert(number);
          continue;
        }
        order.push_back(number);
        found = rows.emplace(number, Answers{prompt_text(answer), {}}).first;
      }
      found->second.texts[i] = shortened(text_member(answer, "text"), kAnswerBytes);
    }
  }
  HtmlTable table(std::move(header));
  for (const int64_t row : order) {
    const Answers& answers = rows.at(row);
    std::vector<std::string> cells = {"<div class=\"answer dim\">" + html_escape(answers.prompt) +
                                      "</div>"};
    for (size_t i = 0; i < run.samples.size(); ++i) {
      const auto text = answers.texts.find(i);
      // A step that did not sample this row has an empty cell.
      cells.push_back(text == answers.texts.end() ? "" : answer_html(text->second));
    }
    table.add(cells);
  }
  std::string out = table.html();
  if (!left_out.empty()) {
    out += dim("the run's folder has the answers to " + counted(std::ssize(left_out), "more prompt"));
  }
  if (run.samples_left_out > 0) {
    out += dim("the run's folder has the answers of " + counted(run.samples_left_out, "more step"));
  }
  return out;
}

}  // namespace

std::string report_ledger(Runs runs) {
  std::string out;
  for (size_t i = 0; i < runs.size(); ++i) {
    const RunFiles& run = runs[i];
    // Runs that differ only in a setting have the same long ledger.
    if (i > 0 && !run.ledger.is_null() && run.ledger == runs[0].ledger) {
      out += run_heading(runs, run) + dim("the same as for " + html_escape(runs[0].name));
      continue;
    }
    out += run_heading(runs, run);
    if (run.ledger.is_null()) {
      out += dim("the run has no ledger.json");
      continue;
    }
    // A damaged ledger must not cost the other sections.
    try {
      out += ledger_html(Ledger::from_json(run.ledger));
    } catch (const Error& error) {
      out += dim("ledger.json cannot be shown: " + html_escape(error.what()));
    }
  }
  return out;
}

std::string report_samples(Runs runs) {
  std::string out;
  for (const RunFiles& run : runs) {
    out += run_heading(runs, run);
    out += run.samples.empty() ? dim("none: the recipe sampled no answers (run:sample writes them)")
                               : samples_of(run);
  }
  return out;
}

namespace {

std::string side_html(const std::vector<RowPiece>& pieces) {
  std::string out = "<div class=\"row mono\">";
  for (const RowPiece& piece : pieces) {
    const std::string text = html_escape(piece.text);
    out += piece.trained ? "<b class=\"trained\">" + text + "</b>"
                         : "<span class=\"dim\">" + text + "</span>";
  }
  return out + "</div>";
}

std::string source_html(const SourceSample& source) {
  std::string out = fmt::format("<p><b>{}</b>{}</p>\n", html_escape(source.name),
                                source.gap.empty() ? "" : ": " + html_escape(source.gap));
  for (const SampleRow& row : source.rows) {
    // A single stream needs no name.
    std::string names;
    for (const std::string& name : source.streams) {
      if (source.streams.size() > 1) names += (names.empty() ? ": " : ", ") + html_escape(name);
    }
    out +=
        "<div class=\"dim\">" + html_escape(row.location) + names + "</div><div class=\"sides\">";
    for (const auto& pieces : row.streams) out += side_html(pieces);
    out += "</div>\n";
  }
  return out;
}

std::string lengths_html(const SourceSample& source) {
  std::vector<HistogramLine> lines;
  for (size_t i = 0; i < source.lengths.size(); ++i) {
    lines.push_back({i < source.streams.size() ? source.streams[i] : "", source.lengths[i], i});
  }
  return lines.empty() ? "" : histogram_figure("tokens per row", lines);
}

// Returns true if an earlier run of the page was trained on the same rows.
bool shown_already(Runs runs, size_t index) {
  const Json* own = runs[index].record.find("inputs");
  return std::any_of(runs.begin(), runs.begin() + static_cast<std::ptrdiff_t>(index),
                     [&](const RunFiles& run) {
                       const Json* inputs = run.record.find("inputs");
                       return own != nullptr && inputs != nullptr && *inputs == *own;
                     });
}

}  // namespace

std::string report_rows(Runs runs) {
  std::string out =
      dim("some rows of each source from the token cache: <b class=\"trained\">coloured</b> text is "
          "trained, grey text is only read");
  for (size_t i = 0; i < runs.size(); ++i) {
    out += run_heading(runs, runs[i]);
    if (runs[i].sources.empty()) {
      out += dim("run.json names no data");
    } else if (shown_already(runs, i)) {
      out += dim("the same as for a run above");
    } else {
      std::string lengths;
      for (const SourceSample& source : runs[i].sources) {
        out += source_html(source);
        lengths += lengths_html(source);
      }
      if (!lengths.empty()) out += "<div class=\"plots\">\n" + lengths + "</div>\n";
    }
  }
  return out;
}

}  // namespace xrun
