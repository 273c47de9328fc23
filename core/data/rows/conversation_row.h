#pragma once
// Reads chat, feedback and prompt rows as lists of messages.

#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/data/rows/row.h"
#include "core/data/rows/row_fields.h"

namespace xrun {

struct ConversationRow : RowExtras {
  Json messages;     // an array, system turn included
  size_t given = 0;  // messages of the prompt; 0 if the row does not divide it from the answer
  Json kwargs;       // of the template; an object
};

// Recognises each row as one of these, in this order:
//   {messages} or {conversations}: a list of messages, role/content or from/value
//   {instruction, input?, output?, history?}: one user turn, instruction and input on separate
//     lines; history is a list of [user, assistant] strings before it
//   {prompt, completion?}: strings or messages
// {system} is put before a conversation without a system turn. A string prompt is ignored with a
// note if the messages beside it begin with a system or user turn.
class ConversationReader {
 public:
  // `more` names further columns of the kind. Throws UsageError as RowFields does.
  ConversationReader(RowKind kind, const RowSettings& settings, std::vector<std::string> more = {});

  const RowFields& fields() const { return fields_; }
  // Reads everything but the columns in `more`. Throws RowRefusal: not_an_object, unknown_format,
  // wrong_type, empty_list, columns_differ, refused_kwargs, bad_weight, bad_extra_column.
  ConversationRow read(const Json& row) const;

 private:
  void check_rival(const Json& row, const Json& turns, ConversationRow& out) const;
  void read_turns(const Json& row, ConversationRow& out) const;
  void read_instruction(const Json& row, ConversationRow& out) const;
  void read_prompt(const Json& row, const Json& prompt, ConversationRow& out) const;
  void add_system(const Json& row, ConversationRow& out) const;
  Json turns_of(const Json& value, const std::string& ours, const char* role,
                ConversationRow& out) const;

  RowFields fields_;
  Json template_kwargs_;
  bool wants_answer_;  // chat: a prompt alone is a row of another kind
};

// True for "user", "system" and "developer", which may open a conversation.
bool is_opening_role(const std::string& role);

// Returns the messages after a system turn with the text `system`. Returns them unchanged if
// `system` is "" or if they already begin with a system turn, which is noted in `out`.
Json with_system(const std::string& system, Json messages, const RowFields& fields, RowExtras& out);

// Returns RowExtras::prompt_hash of the first `count` messages. It covers everything that a model
// reads, so not the flags that say what is trained.
uint64_t hash_messages(const Json& messages, size_t count);

}  // namespace xrun
