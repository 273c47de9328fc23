#pragma once
// A conversation as chat, feedback and prompt rows spell it.

#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/data/rows/row_extras.h"
#include "core/data/rows/row_fields.h"

namespace xrun {

struct ConversationRow : RowExtras {
  Json messages;     // an array, system turn included
  size_t given = 0;  // messages of a prompt that the row names apart from its answer; else 0
  Json kwargs;       // of the template; an object
};

// Reads rows of these spellings, told apart row by row, in this order:
//   {messages} or {conversations}: a list of messages, role/content or from/value
//   {instruction, input?, output?, history?}: one user turn, instruction and input a line apart;
//     history is a list of [user, assistant] texts before it
//   {prompt, completion?}: strings or messages
// {system} goes before a conversation that has no system turn. A string prompt beside messages that
// begin with a system or user turn is ignored, with a note.
class ConversationReader {
 public:
  // `more`: further columns of the row type. Throws UsageError as RowFields does.
  ConversationReader(RowKind kind, const RowSettings& settings, std::vector<std::string> more = {});

  const RowFields& fields() const { return fields_; }
  // Reads everything but what `more` names. Throws RowRefusal: not_an_object, unknown_format,
  // wrong_type, empty_list, columns_differ, refused_kwargs, bad_weight, kept_column.
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
  bool wants_answer_;  // a prompt alone is a row of another kind
};

// "user", "system" or "developer": what may open a conversation.
bool is_opening_role(const std::string& role);

// Returns the messages behind a system turn of this text; as they are if it is "" or if they begin
// with a system turn themselves, which is noted in `out`.
Json with_system(const std::string& system, Json messages, const RowFields& fields, RowExtras& out);

// The hash of a prompt's messages that prompt_hash holds: of all that a model reads of them, so not
// of the flags that say what is trained.
uint64_t hash_messages(const Json& messages, size_t count);

}  // namespace xrun
