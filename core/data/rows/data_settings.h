#pragma once
// The settings of data sets that recipes name, and what a row type is made of.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"

namespace xrun {

enum class OverLength { kRaise, kDrop, kCut };
// kAssistant: of a conversation the assistant turns, of a pair those after the shared prompt, of
// prompt and completion the completion; kLast: the last turn; kAll: every token.
enum class TrainOn { kAssistant, kLast, kAll };
enum class SplitBy { kRow, kPrompt };
// When one pass over several weighted sources ends: never; with the first source that is used up;
// with the last one (the others start again).
enum class MixtureStop { kRestart, kFirst, kAll };

// The settings' names in recipes. Throw UsageError that lists the names.
OverLength parse_over_length(const std::string& name);
TrainOn parse_train_on(const std::string& name);
SplitBy parse_split_by(const std::string& name);
MixtureStop parse_mixture_stop(const std::string& name);

const char* over_length_name(OverLength mode);
const char* train_on_name(TrainOn mode);

// What decides how a source's rows become tokens, beside tokenizer and template.
struct RowSettings {
  // (our name, the file's name) of the columns that a row type reads.
  std::vector<std::pair<std::string, std::string>> fields;
  // Columns that stay with the row, numbers or strings as the first row has them. One that the
  // first row lacks is left out, an absent string is "", a row without a number is dropped.
  std::vector<std::string> keep;
  Json template_kwargs = Json::object();  // for every row, below the row's own
  int64_t max_length = 0;                 // tokens of one stream; 0: no limit
  OverLength over_length = OverLength::kRaise;
  TrainOn train_on = TrainOn::kAssistant;
  bool train_on_given = false;  // by the recipe; else each row type's own default holds
  bool end_of_text = true;      // text rows end with the tokenizer's EOS
  bool lost_calls = false;      // tool calls that the template leaves out are noted, not refused
};

}  // namespace xrun
