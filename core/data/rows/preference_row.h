#pragma once
// Reads preference rows: two conversations that share a prompt.

#include <string>

#include "core/base/json.h"
#include "core/data/rows/data_settings.h"
#include "core/data/rows/row.h"
#include "core/data/rows/row_fields.h"

namespace xrun {

struct PreferenceRow : RowExtras {
  Json chosen;  // whole conversations, prompt included
  Json rejected;
  Json kwargs;  // of the template; an object
  // Messages of the prompt: the common beginning, without the last message of either side. They are
  // compared without training flags, which are then joined, so that these messages are equal.
  size_t shared = 0;
};

// Recognises each row as one of these:
//   {chosen: messages, rejected: messages}
//   {prompt: string or messages, chosen, rejected: string, message or messages}
//   {conversations or messages: the prompt, chosen, rejected: as above}
// A system string is put before a conversation without a system turn. A string prompt is ignored
// with a note if the conversations beside it begin with a system or user turn.
class PreferenceReader {
 public:
  // Throws UsageError as RowFields does.
  explicit PreferenceReader(const RowSettings& settings);

  // Throws RowRefusal with the reason: not_an_object, unknown_format, missing_side, empty_list,
  // wrong_type, no_prompt, empty_prompt, prompt_mismatch, prompts_differ, no_assistant,
  // last_not_assistant, empty_answer, same_answers, refused_kwargs, bad_weight, bad_extra_column.
  PreferenceRow read(const Json& value) const;

 private:
  struct GivenPrompt;
  GivenPrompt read_prompt(const Json& row, PreferenceRow& out) const;
  void match_prompt(const GivenPrompt& prompt, const std::string& name, Json& side,
                    PreferenceRow& out) const;
  Json read_side(const Json& row, const std::string& ours, const GivenPrompt& prompt,
                 PreferenceRow& out) const;

  RowFields fields_;
  Json template_kwargs_;
};

}  // namespace xrun
