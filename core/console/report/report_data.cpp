// What a run was trained on, and what it answered.
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "core/base/count_text.h"
#include "core/base/counted.h"
#include "core/base/error.h"
#include "core/base/json_member.h"
#include "core/base/utf8.h"
#include "core/console/page/html_page.h"
#include "core/console/page/html_table.h"
#include "core/console/report/report_parts.h"
#include "core/console/terminal/shown_text.h"
#include "core/data/rows/ledger.h"

namespace xrun {

namespace {

constexpr size_t kListedRows = 20;  // bad, cut and repaired ones of each source
constexpr size_t kShownAnswers = 8;
constexpr size_t kPromptBytes = 600, kAnswerBytes = 4000;

std::string dim(const std::string& text) { return "<p class=\"dim\">" + text + "</p>\n"; }

std::string lines_of(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += html_escape(line) + "\n";
  return "<pre>" + out + "</pre>";
}

// What was dropped and noted, and the rows behind it.
std::string source_details(const SourceLedger& source) {
  HtmlTable reasons({"rows", ""}, {Align::kRight});
  for (const auto& [reason, rows] : source.dropped) {
    reasons.add({count_text(rows), "dropped: " + html_escape(reason)}, "bad");
  }
  for (const auto& [note, rows] : source.notes) {
    reasons.add({count_text(rows), html_escape(note)});
  }
  std::string out = reasons.html();
  struct List {
    const char* what;
    std::vector<std::string> lines;
    size_t all;
  };
  for (const List& list :
       {List{"bad rows", source.bad_lines(kListedRows), source.bad.size()},
        List{"cut rows", source.cut_lines(kListedRows), source.cut_at.size()},
        List{"repaired rows", source.repaired_lines(kListedRows), source.repaired_at.size()}}) {
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

// The answers to one row of the data, by the order of the steps that are shown.
struct Answers {
  std::string prompt;
  std::map<size_t, std::string> texts;
};

// What is asked: the row's own `prompt` column where it was kept, else the whole rendered prompt.
std::string prompt_text(const Json& answer) {
  const std::string column = text_member(answer.find("kept"), "prompt");
  return shortened(column.empty() ? text_member(answer, "prompt") : column, kPromptBytes);
}

// The blanks at an answer's end are marked: they would not be seen, or be all that is seen.
std::string answer_html(const std::string& text) {
  const size_t end = text.find_last_not_of(" \t\n") + 1;  // 0 if all is blank
  const std::string blanks = shown_text(text.substr(end), Blanks::kMarked);
  return "<div class=\"answer\">" + html_escape(text.substr(0, end)) + "<span class=\"dim\">" +
         blanks + "</span></div>";
}

std::string samples_of(const RunFiles& run) {
  std::vector<std::string> header = {"prompt"};
  std::vector<int64_t> order;  // rows of the data
  std::map<int64_t, Answers> rows;
  for (size_t i = 0; i < run.samples.size(); ++i) {
    header.push_back(fmt::format("step {}", run.samples[i].step));
    for (const Json& answer : run.samples[i].answers) {
      const Json* row = answer.find("row");
      const int64_t number = row != nullptr && row->is_int() ? row->as_int() : -1;
      auto found = rows.find(number);
      if (found == rows.end()) {
        if (order.size() >= kShownAnswers) continue;
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
      cells.push_back(text == answers.texts.end() ? "" : answer_html(text->second));
    }
    table.add(cells);
  }
  if (run.samples_left_out == 0) return table.html();
  return table.html() +
         dim("the run's folder holds the answers of " + counted(run.samples_left_out, "more step"));
}

}  // namespace

std::string report_ledger(Runs runs) {
  std::string out;
  for (size_t i = 0; i < runs.size(); ++i) {
    const RunFiles& run = runs[i];
    if (i > 0 && !run.ledger.is_null() && run.ledger == runs[0].ledger) {
      out += run_heading(runs, run) + dim("the same as of " + html_escape(runs[0].name));
      continue;
    }
    out += run_heading(runs, run);
    if (run.ledger.is_null()) {
      out += dim("the run has no ledger.json");
      continue;
    }
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
    out += run.samples.empty()
               ? dim("none: the recipe asked for no answers (run:sample writes them)")
               : samples_of(run);
  }
  return out;
}

}  // namespace xrun
