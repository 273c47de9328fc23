#pragma once
// One preference row as a file spells it: two conversations that share a prompt.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"
#include "core/data/ledger.h"

namespace xrun {

struct PreferenceRow {
  SourceLine at;
  Json chosen;  // whole conversations, prompt included
  Json rejected;
  Json kwargs;        // of the template; an object
  size_t shared = 0;  // messages of the prompt: the common beginning, at most all but the last one
  uint64_t prompt_hash = 0;
  float weight = 1;
  std::vector<Json> kept;          // numbers, strings, null if absent; in the order of `keep`
  std::vector<std::string> notes;  // what was recognised or ignored, for the ledger
};

// Reads rows of these spellings, told apart row by row:
//   {chosen: messages, rejected: messages}
//   {prompt: string or messages, chosen, rejected: string, message or messages}
//   {conversations or messages: the prompt, chosen, rejected: as above}
// A system string goes before a conversation that has none. A string prompt beside conversations
// that begin with a system or user turn is ignored, with a note.
class PreferenceReader {
 public:
  // fields: (our name, the file's name). Throws UsageError with the nearest name for an unknown
  // one, and for a column that is kept twice.
  PreferenceReader(const std::vector<std::pair<std::string, std::string>>& fields,
                   std::vector<std::string> keep, Json template_kwargs);

  // Throws RowRefusal with the reason: not_an_object, missing_side, empty_list, wrong_type,
  // no_prompt, empty_prompt, prompt_mismatch, prompts_differ, no_assistant, last_not_assistant,
  // empty_answer, same_answers, refused_kwargs, bad_weight, kept_column.
  PreferenceRow read(const Json& value, const SourceLine& at) const;

 private:
  struct Prompt;
  const Json* field(const Json& row, const std::string& ours) const;
  std::string spelled(const std::string& ours) const;
  std::string other_columns(const Json& row, const std::string& ours) const;
  bool is_unread(const std::string& column) const;
  Prompt read_prompt(const Json& row, PreferenceRow& out) const;
  Json read_side(const Json& row, const std::string& ours, const Prompt& prompt,
                 PreferenceRow& out) const;
  void read_kept(const Json& row, PreferenceRow& out) const;
  void note_unread(const Json& row, PreferenceRow& out) const;

  std::vector<std::pair<std::string, std::string>> fields_;
  std::vector<std::string> keep_;
  Json template_kwargs_;
};

}  // namespace xrun
