#pragma once
// Findings of `check` and `doctor`: one per line, with the fix below it.

#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/console/terminal/console.h"

namespace xrun {

enum class Verdict {
  kOk,
  kNote,  // worth knowing; nothing is wrong
  kMissing,
  kWrong,
};

struct Finding {
  Verdict verdict = Verdict::kOk;
  std::string subject;  // a word or two: "memory"
  std::string text;
  std::string fix = {};       // "" if no action is needed
  std::string location = {};  // "dpo.lua:24", or ""
  bool needed = true;         // false: it is optional
};

// "ok", "note", "missing", "wrong".
const char* verdict_name(Verdict verdict);

// Returns lines, each with its newline: verdict, subject, location and text, then the fix after an
// arrow. All text passes shown_text. On a terminal, lines wrap at its width. `subject_columns`, the
// width of the widest subject, aligns the text of several findings.
std::string finding_text(const Finding& finding, const Console& console, int subject_columns);

// Returns {"verdict", "subject", "text", "needed"}, with "remedy", "file" and "line" where they are
// known. "remedy" is the fix: fields of JSON output are never renamed.
Json finding_json(const Finding& finding);

// Returns true if anything that is needed is missing or wrong.
bool any_trouble(const std::vector<Finding>& findings);

}  // namespace xrun
