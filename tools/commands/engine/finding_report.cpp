// Findings are printed as they arrive, above a status line on a terminal.

#include "tools/commands/engine/finding_report.h"

#include <unistd.h>

#include <cstdio>

namespace xrun {

namespace {

void write_out(std::string_view text) { write_through(stdout, text); }

}  // namespace

FindingReport::FindingReport(bool json, int subject_columns)
    : json_(json),
      subject_columns_(subject_columns),
      console_(write_out, console_traits(STDOUT_FILENO)) {}

void FindingReport::begin(const std::string& what) {
  if (!json_) console_.set_status(what);
}

void FindingReport::add(Finding finding) {
  console_.set_status("");
  console_.print_raw(json_ ? dump_json(finding_json(finding))
                           : finding_text(finding, console_, subject_columns_));
  trouble_ += any_trouble({finding}) ? 1 : 0;
  ++size_;
}

void FindingReport::add(std::vector<Finding> findings) {
  for (Finding& finding : findings) add(std::move(finding));
}

void FindingReport::say(const std::string& text) {
  console_.set_status("");
  if (!json_) console_.print_escaped(text);
}

}  // namespace xrun
