#pragma once
// The settings of data sets: the choices that recipes name, and those that decide a row's tokens.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"

namespace xrun {

enum class OverLength { kRaise, kDrop, kCut };
enum class TrainOn {
  kAssistant,  // the assistant turns; of a pair those after the shared prompt, of a row with prompt
               // and completion the completion
  kLast,       // the last assistant turn
  kAll,        // every token
};
enum class SplitBy { kRow, kPrompt };
// The end of a pass over several weighted sources.
enum class MixtureStop {
  kRestart,  // never
  kFirst,    // when the first source is used up
  kAll,      // when the last source is used up; the others start again
};

// The order in which a stream takes its sources.
enum class MixtureOrder {
  kBlocks,      // shuffled (or evenly spaced) inside blocks with each source's exact share
  kRoundRobin,  // smooth weighted round robin: A A B A C A A for weights 5, 1, 1
};

// Parse a name that a recipe uses. Throw UsageError that lists the valid names.
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
  // Extra columns. The first row decides whether a column holds numbers or strings, and leaves it
  // out if it lacks it. In later rows an absent string is "", and an absent number drops the row.
  std::vector<std::string> keep;
  Json template_kwargs = Json::object();  // for every row; the row's own override them
  int64_t max_length = 0;                 // tokens of one stream; 0: no limit
  int64_t model_length = 0;  // positions that the model was made for; 0: unknown. For messages only
  OverLength over_length = OverLength::kRaise;
  TrainOn train_on = TrainOn::kAssistant;
  bool train_on_given = false;  // the recipe sets train_on; else each kind has its own default
  bool end_of_text = true;      // text rows end with the tokenizer's EOS
  bool lost_calls = false;      // tool calls that the template leaves out are noted, not refused
  bool lost_turns = false;      // the same for turns
  std::string config_path =
      {};  // "data.1": the source in the configuration, for messages; "": none
};

}  // namespace xrun
