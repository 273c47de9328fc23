#pragma once
// One preference row as a file spells it: two conversations that share a prompt.

#include <string>

#include "core/base/json.h"
#include "core/data/rows/data_settings.h"
#include "core/data/rows/row_extras.h"
#include "core/data/rows/row_fields.h"

namespace xrun {

struct PreferenceRow : RowExtras {
  Json chosen;  // whole conversations, prompt included
  Json rejected;
  Json kwargs;  // of the template; an object
  // Messages of the prompt: the common beginning, at most all but the last one. Flags of what is
  // trained do not part it; they are joined, so that these messages are alike.
  size_t shared = 0;
};

// Reads rows of these spellings, told apart row by row:
//   {chosen: messages, rejected: messages}
//   {prompt: string or messages, chosen, rejected: string, message or messages}
//   {conversations or messages: the prompt, chosen, rejected: as above}
// A system string goes before a conversation that has none. A string prompt beside conversations
// that begin with a system or user turn is ignored, with a note.
class PreferenceReader {
 public:
  // Throws UsageError as RowFields does.
  explicit PreferenceReader(const RowSettings& settings);

  // Throws RowRefusal with the reason: not_an_object, unknown_format, missing_side, empty_list,
  // wrong_type, no_prompt, empty_prompt, prompt_mismatch, prompts_differ, no_assistant,
  // last_not_assistant, empty_answer, same_answers, refused_kwargs, bad_weight, kept_column.
  PreferenceRow read(const Json& value) const;

 private:
  struct Prompt;
  Prompt read_prompt(const Json& row, PreferenceRow& out) const;
  void match_prompt(const Prompt& prompt, const std::string& name, Json& side,
                    PreferenceRow& out) const;
  Json read_side(const Json& row, const std::string& ours, const Prompt& prompt,
                 PreferenceRow& out) const;

  RowFields fields_;
  Json template_kwargs_;
};

}  // namespace xrun
