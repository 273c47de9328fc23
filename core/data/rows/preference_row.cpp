// Invariant of a pair: both sides begin with the same `shared` messages and end with different
// answers of the assistant.

#include "core/data/rows/preference_row.h"

#include <algorithm>

#include "core/data/rows/conversation_row.h"
#include "core/data/rows/ledger.h"
#include "core/data/rows/messages.h"
#include "core/data/rows/turn_flags.h"
#include "core/text/chat/message_ranges.h"

namespace xrun {

namespace {

const std::vector<std::string> kOurNames = {
    "prompt",   "system", "conversations",        "messages", "chosen",
    "rejected", "tools",  "chat_template_kwargs", "weight"};

// Returns the number of turns with which both conversations begin.
size_t same_turns(const Json& a, const Json& b) {
  const auto [end, ignored] = std::mismatch(a.as_array().begin(), a.as_array().end(),
                                            b.as_array().begin(), b.as_array().end(), is_same_turn);
  return static_cast<size_t>(end - a.as_array().begin());
}

Json concatenate(const Json& first, const Json& second) {
  Json joined = first;
  for (const Json& message : second.as_array()) joined.push_back(message);
  return joined;
}

// Returns the number of messages of the common prompt. It excludes the last message of either side,
// since an answer is never a prompt, and ignores training flags.
size_t shared_messages(const Json& chosen, const Json& rejected) {
  const size_t same = same_turns(chosen, rejected);
  if (same == chosen.size() && same == rejected.size()) {
    throw RowRefusal("same_answers", "chosen and rejected are the same");
  }
  // One side may be the beginning of the other.
  return std::min({same, chosen.size() - 1, rejected.size() - 1});
}

void check_side(const Json& messages, const std::string& side) {
  const Json::Array& list = messages.as_array();
  if (std::none_of(list.begin(), list.end(), is_assistant)) {
    throw RowRefusal("no_assistant", fmt::format("the {} side has no assistant turn{}", side,
                                                 other_speakers(messages)));
  }
  if (!is_assistant(list.back())) {
    throw RowRefusal("last_not_assistant",
                     fmt::format("the {} side ends with a turn of \"{}\", wanted assistant", side,
                                 message_role(list.back())));
  }
  if (!says_something(list.back())) {
    throw RowRefusal("empty_answer", "the " + side + " side's last turn has no content");
  }
}

void note_ignored(const std::vector<std::string>& names, const std::string& winner,
                  RowExtras& out) {
  for (const std::string& name : names) {
    out.notes.push_back(fmt::format("\"{}\" is ignored beside {}", name, winner));
  }
}

// The hint for conversations written as in Anthropic's HH-RLHF.
constexpr const char* kTranscriptHint =
    "; it is a transcript (Human: ... Assistant: ...): turn it into messages with a map; "
    "docs/data.md has one";

// Requires both speakers: one alone may be prose.
bool is_transcript(std::string_view text) {
  return text.find("\n\nHuman:") != std::string_view::npos &&
         text.find("\n\nAssistant:") != std::string_view::npos;
}

// The prompt must ask something, on both sides.
void check_prompt(const PreferenceRow& row) {
  if (row.shared == 0) throw RowRefusal("no_prompt", "no turn comes before the answers");
  for (const Json* side : {&row.chosen, &row.rejected}) require_user_texts(*side);
}

// A preference between answers has a meaning only after the same prompt.
void check_same_prompt(const PreferenceRow& row) {
  for (const Json* side : {&row.chosen, &row.rejected}) {
    const Json& turn = side->as_array()[row.shared];
    if (is_assistant(turn)) continue;
    throw RowRefusal("prompts_differ",
                     fmt::format("chosen and rejected differ in turn {}, a turn of \"{}\"; wanted "
                                 "the same turns up to an answer",
                                 row.shared + 1, message_role(turn)));
  }
}

}  // namespace

struct PreferenceReader::GivenPrompt {
  Json messages;         // null: there is none
  bool is_text = false;  // came as a string: one user turn
  bool is_copy = false;  // came as messages or conversations, which may repeat a side
  std::string system;
  std::string name;                 // the field it came from
  std::vector<std::string> others;  // other spellings of a prompt in the row
};

PreferenceReader::PreferenceReader(const RowSettings& settings)
    : fields_(RowKind::kPreference, kOurNames, settings),
      template_kwargs_(settings.template_kwargs) {}

// Also reads the system text, which may come with any spelling of the prompt.
PreferenceReader::GivenPrompt PreferenceReader::read_prompt(const Json& row,
                                                            PreferenceRow& out) const {
  GivenPrompt prompt;
  prompt.system = fields_.text(row, "system");
  const Json* text = fields_.find(row, "prompt");
  for (const char* name : {"conversations", "messages"}) {
    const Json* value = fields_.find(row, name);
    if (value == nullptr) continue;
    const std::string spelled = fields_.spelled(name);
    if (value->is_array() && value->size() == 0) {
      out.notes.push_back(fmt::format("\"{}\" is an empty list and is ignored", spelled));
      continue;
    }
    // The first name that the row has wins.
    if (!prompt.messages.is_null()) {
      prompt.others.push_back(spelled);
      continue;
    }
    prompt.messages = read_messages(*value, spelled, out.notes);
    prompt.name = spelled;
    prompt.is_copy = true;
  }
  if (text != nullptr && !prompt.messages.is_null()) {
    prompt.others.push_back(fields_.spelled("prompt"));
  } else if (text != nullptr) {
    prompt.name = fields_.spelled("prompt");
    refuse_spelled_messages(*text, prompt.name);
    prompt.is_text = text->is_string();
    prompt.messages = prompt.is_text ? Json(Json::Array{make_message("user", text->as_string())})
                                     : read_messages(*text, prompt.name, out.notes);
  }
  return prompt;
}

// Returns the whole conversation of a side, whatever the row repeats.
Json PreferenceReader::read_side(const Json& row, const std::string& ours,
                                 const GivenPrompt& prompt, PreferenceRow& out) const {
  const std::string name = fields_.spelled(ours);
  const Json* value = fields_.find(row, ours);
  if (value == nullptr) {
    throw RowRefusal("missing_side",
                     fmt::format("has no \"{}\"{}", name, fields_.other_columns(row, ours)));
  }
  refuse_spelled_messages(*value, name);
  const bool is_text = value->is_string();
  Json side = is_text ? Json(Json::Array{make_message("assistant", value->as_string())})
                      : read_messages(*value, name, out.notes);
  // Begins with a user or system turn: the side repeats the prompt.
  const bool whole = !is_text && is_opening_role(message_role(side.as_array().front()));
  if (!whole && prompt.messages.is_null()) {
    if (is_text) {
      throw RowRefusal(
          "no_prompt",
          fmt::format("\"{}\" is a string and the row has no prompt{}", name,
                      is_transcript(value->as_string()) ? kTranscriptHint
                                                        : fields_.other_columns(row, "prompt")));
    }
  } else if (!whole) {
    note_ignored(prompt.others, fmt::format("\"{}\"", prompt.name), out);
    side = concatenate(prompt.messages, side);
  } else if (!prompt.messages.is_null()) {
    match_prompt(prompt, name, side, out);
  }
  return with_system(prompt.system, std::move(side), fields_, out);
}

// A whole conversation beside a prompt begins with the prompt, or the prompt is ignored.
void PreferenceReader::match_prompt(const GivenPrompt& prompt, const std::string& name, Json& side,
                                    PreferenceRow& out) const {
  note_ignored(prompt.others, "whole conversations", out);
  const size_t turns = prompt.messages.size();
  if (!prompt.is_text && same_turns(prompt.messages, side) == turns) {
    Json own = prompt.messages;
    return join_flags(side, own, turns);
  }
  // UltraFeedback's rows repeat the chosen conversation as "messages".
  if (!prompt.is_text && !prompt.is_copy) {
    throw RowRefusal("prompt_mismatch",
                     fmt::format("\"{}\" is not the beginning of \"{}\"", prompt.name, name));
  }
  note_ignored({prompt.name}, "whole conversations", out);
}

PreferenceRow PreferenceReader::read(const Json& value) const {
  RowFields::require_object(value);
  const bool has_side =
      fields_.find(value, "chosen") != nullptr || fields_.find(value, "rejected") != nullptr;
  if (!has_side) fields_.refuse_format(value);
  PreferenceRow row;
  const GivenPrompt prompt = read_prompt(value, row);
  row.chosen = read_side(value, "chosen", prompt, row);
  row.rejected = read_side(value, "rejected", prompt, row);
  check_side(row.chosen, "chosen");
  check_side(row.rejected, "rejected");
  row.shared = shared_messages(row.chosen, row.rejected);
  // Both sides get the flags of either, so that one prompt has one mask.
  join_flags(row.chosen, row.rejected, row.shared);
  check_same_prompt(row);
  check_prompt(row);
  row.kwargs = merge_template_kwargs(template_kwargs_, fields_.find(value, "chat_template_kwargs"),
                                     fields_.find(value, "tools"));
  row.prompt_hash = hash_messages(row.chosen, row.shared);
  fields_.read_extra(value, row);
  fields_.finish_notes(value, row);
  return row;
}

}  // namespace xrun
