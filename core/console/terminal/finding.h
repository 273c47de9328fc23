#pragma once
// What a command that looks for trouble says: one finding a line, with the way out below it.

#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/console/terminal/console.h"

namespace xrun {

enum class Verdict {
  kOk,
  kNote,     // worth knowing; nothing is wrong
  kMissing,  // not there
  kWrong,
};

struct Finding {
  Verdict verdict = Verdict::kOk;
  std::string subject;      // a word or two: "memory"
  std::string text;         // what was found; of foreign text only what shown_text made of it
  std::string remedy = {};  // the way out; "" of what is in order
  std::string place = {};   // "dpo.lua:24", or ""
  bool needed = true;       // false: everything else works without it
};

// "ok", "note", "missing", "wrong".
const char* verdict_name(Verdict verdict);

// One finding as lines, each with its newline: verdict, subject, place and text, the remedy behind
// an arrow; later lines of either are indented. Nothing in it moves a cursor (shown_text.h).
// Wrapped to the console's width where it is a terminal. `subject_columns` aligns the texts of
// several findings.
std::string finding_text(const Finding& finding, const Console& console, int subject_columns);

// {"verdict", "subject", "text", "needed"} and, where they are not empty, "remedy", "file", "line".
Json finding_json(const Finding& finding);

// Whether something needed is missing or wrong.
bool any_trouble(const std::vector<Finding>& findings);

}  // namespace xrun
