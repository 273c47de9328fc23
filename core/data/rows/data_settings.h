#pragma once
// The settings of data sets: choices that recipes name, and how rows become tokens.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"

namespace xrun {

enum class OverLength { kRaise, kDrop, kCut };
// kAssistant: the assistant turns of a conversation, those after the shared prompt of a pair, the
// completion of prompt and completion; kLast: the last turn; kAll: every token.
enum class TrainOn { kAssistant, kLast, kAll };
enum class SplitBy { kRow, kPrompt };
// End of a pass over several weighted sources: never; when the first source is used up; when the
// last one is (the others start again).
enum class MixtureStop { kRestart, kFirst, kAll };

// The order in which a stream takes its sources.
enum class MixtureOrder {
  kBlocks,      // shuffled (or evenly spaced) inside blocks with each source's exact share
  kRoundRobin,  // smooth weighted round robin: A A B A C A A for weights 5, 1, 1
};

// Parse the names of recipes. Throw UsageError that lists the names.
OverLength parse_over_length(const std::string& name);
TrainOn parse_train_on(const std::string& name);
SplitBy parse_split_by(const std::string& name);
MixtureStop parse_mixture_stop(const std::string& name);
MixtureOrder parse_mixture_order(const std::string& name);

const char* mixture_stop_name(MixtureStop stop);
const char* mixture_order_name(MixtureOrder order);
const char* over_length_name(OverLength mode);
const char* train_on_name(TrainOn mode);

// Settings that decide the tokens of a source's rows, apart from tokenizer and template.
struct RowSettings {
  // (our name, the file's name) of renamed columns.
  std::vector<std::pair<std::string, std::string>> fields;
  // Extra columns, numbers or strings as in the first row. A column that the first row lacks is
  // left out, an absent string is "", a row without the number is dropped.
  std::vector<std::string> keep;
  Json template_kwargs = Json::object();  // for every row; the row's own override them
  int64_t max_length = 0;                 // tokens of one stream; 0: no limit
  int64_t model_length = 0;  // positions that the model was made for; 0: unknown. For messages only
  OverLength over_length = OverLength::kRaise;
  TrainOn train_on = TrainOn::kAssistant;
  bool train_on_given = false;  // the recipe sets it; else each kind has its own default
  bool end_of_text = true;      // text rows end with the tokenizer's EOS
  bool lost_calls = false;      // tool calls that the template leaves out are noted, not refused
  bool lost_turns = false;      // turns, likewise
  std::string config_path =
      {};  // "data.1": the source in the configuration, for messages; "": none
};

}  // namespace xrun
