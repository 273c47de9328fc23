// Each spelling of a row is turned into one list of messages. A column that another one overrides
// is noted; columns that contradict each other are refused.

#include "core/data/rows/conversation_row.h"

#include "core/base/hash.h"
#include "core/base/strings.h"
#include "core/data/rows/ledger.h"
#include "core/data/rows/messages.h"
#include "core/data/rows/turn_flags.h"
#include "core/text/chat/message_ranges.h"

namespace xrun {

namespace {

// All names that `fields` may rename: the common ones and those of one kind of row.
std::vector<std::string> with_more(std::vector<std::string> more) {
  std::vector<std::string> names = {
      "messages", "conversations", "prompt", "completion", "instruction",          "input",
      "output",   "history",       "system", "tools",      "chat_template_kwargs", "weight"};
  names.insert(names.end(), more.begin(), more.end());
  return names;
}

void append(Json& messages, Json&& more) {
  if (messages.size() == 0) {
    messages = std::move(more);
    return;
  }
  for (Json& message : more.as_array()) messages.push_back(std::move(message));
}

}  // namespace

// Roles that may open a conversation, as opposed to answer one.
bool is_opening_role(const std::string& role) {
  return role == "system" || role == "user" || role == "developer";
}

uint64_t hash_messages(const Json& messages, size_t count) {
  Json shared = Json::array();
  // Flags decide training, not the text: the prompt is the same with and without them.
  for (size_t i = 0; i < count; ++i) shared.push_back(without_flags(messages.as_array()[i]));
  return hash_u64(dump_json(shared));
}

// A system turn in the messages overrides the column.
Json with_system(const std::string& system, Json messages, const RowFields& fields,
                 RowExtras& out) {
  if (system.empty()) return messages;
  if (message_role(messages.as_array().front()) == "system") {
    out.notes.push_back(
        fmt::format("\"{}\" is ignored beside a system turn", fields.spelled("system")));
    return messages;
  }
  Json opened(Json::Array{make_message("system", system)});
  append(opened, std::move(messages));
  return opened;
}

ConversationReader::ConversationReader(RowKind kind, const RowSettings& settings,
                                       std::vector<std::string> more)
    : fields_(kind, with_more(std::move(more)), settings),
      template_kwargs_(settings.template_kwargs),
      wants_answer_(kind == RowKind::kChat) {}

// A string is one turn of `role`; anything else must be messages.
Json ConversationReader::turns_of(const Json& value, const std::string& ours, const char* role,
                                  ConversationRow& out) const {
  refuse_spelled_messages(value, fields_.spelled(ours));
  if (value.is_string()) return Json(Json::Array{make_message(role, value.as_string())});
  return read_messages(value, fields_.spelled(ours), out.notes);
}

// Alpaca's rows: instruction, input, output, and the earlier turns that LLaMA-Factory adds.
void ConversationReader::read_instruction(const Json& row, ConversationRow& out) const {
  if (const Json* history = fields_.find(row, "history")) {
    const auto is_pair = [](const Json& turn) {
      return turn.is_array() && turn.size() == 2 && turn.as_array()[0].is_string() &&
             turn.as_array()[1].is_string();
    };
    const std::string name = fields_.spelled("history");
    if (!history->is_array()) {
      throw RowRefusal("wrong_type",
                       fmt::format("\"{}\" is {}, wanted a list", name, kind_text(*history)));
    }
    for (size_t i = 0; i < history->size(); ++i) {
      const Json& turn = history->as_array()[i];
      if (!is_pair(turn)) {
        throw RowRefusal("wrong_type", fmt::format("\"{}\"[{}] is not a pair of strings", name, i));
      }
      out.messages.push_back(make_message("user", turn.as_array()[0].as_string()));
      out.messages.push_back(make_message("assistant", turn.as_array()[1].as_string()));
    }
  }
  std::string question = fields_.text(row, "instruction");
  const std::string input = fields_.text(row, "input");
  // Alpaca's prompt puts the input below the instruction.
  if (!input.empty()) add_item(question, input, "\n");
  out.messages.push_back(make_message("user", std::move(question)));
  if (fields_.find(row, "output") == nullptr) return;
  out.messages.push_back(make_message("assistant", fields_.text(row, "output")));
  out.notes.push_back("read as instruction and output");
}

void ConversationReader::read_prompt(const Json& row, const Json& prompt,
                                     ConversationRow& out) const {
  out.messages = turns_of(prompt, "prompt", "user", out);
  const Json* completion = fields_.find(row, "completion");
  // A prompt alone is a row for xrun.prompts.
  if (completion == nullptr && wants_answer_) fields_.refuse_format(row);
  if (completion == nullptr) return;
  Json answer = turns_of(*completion, "completion", "assistant", out);
  // A completion may hold several turns, tool results among them, but no new question first.
  if (!completion->is_string() && is_opening_role(message_role(answer.as_array().front()))) {
    throw RowRefusal(
        "wrong_type",
        fmt::format("\"{}\" begins with a turn of \"{}\", wanted assistant",
                    fields_.spelled("completion"), message_role(answer.as_array().front())));
  }
  out.given = out.messages.size();
  append(out.messages, std::move(answer));
  out.notes.push_back("read as prompt and completion");
}

// "conversations" beside "messages" is either the same conversation or not a conversation.
void ConversationReader::check_rival(const Json& row, const Json& turns,
                                     ConversationRow& out) const {
  const Json* rival = fields_.find(row, "conversations");
  if (rival == nullptr) return;
  try {
    std::vector<std::string> unread;
    const Json same = read_messages(*rival, fields_.spelled("conversations"), unread);
    if (same != turns) fields_.refuse_rivals("messages", "conversations");
  } catch (const RowRefusal& refusal) {
    // The column cannot be read as messages, so it is not the conversation.
    if (refusal.reason() == "columns_differ") throw;
  }
  fields_.note_losers(row, "messages", {"conversations"}, out);
}

// The first spelling that the row has wins: messages, conversations, instruction, prompt.
void ConversationReader::read_turns(const Json& row, ConversationRow& out) const {
  const Json* prompt = fields_.find(row, "prompt");
  for (const char* name : {"messages", "conversations"}) {
    const Json* value = fields_.find(row, name);
    if (value == nullptr) continue;
    Json turns = turns_of(*value, name, "user", out);
    // Messages that open a conversation include the prompt; others are the answer to it.
    const bool whole = is_opening_role(message_role(turns.as_array().front()));
    if (prompt != nullptr && !whole) {
      out.messages = turns_of(*prompt, "prompt", "user", out);
      out.given = out.messages.size();
    } else if (prompt != nullptr) {
      fields_.note_losers(row, name, {"prompt"}, out);
    }
    fields_.note_losers(row, name, {"completion", "instruction", "input", "output", "history"},
                        out);
    if (std::string_view(name) == "messages") check_rival(row, turns, out);
    append(out.messages, std::move(turns));
    return;
  }
  if (fields_.find(row, "instruction") != nullptr) {
    fields_.note_losers(row, "instruction", {"prompt", "completion"}, out);
    return read_instruction(row, out);
  }
  if (prompt == nullptr) fields_.refuse_format(row);
  fields_.note_losers(row, "prompt", {"input", "output", "history"}, out);
  read_prompt(row, *prompt, out);
}

void ConversationReader::add_system(const Json& row, ConversationRow& out) const {
  const size_t turns = out.messages.size();
  out.messages = with_system(fields_.text(row, "system"), std::move(out.messages), fields_, out);
  // The system turn moves the border of the prompt.
  if (out.given > 0) out.given += out.messages.size() - turns;
}

ConversationRow ConversationReader::read(const Json& row) const {
  RowFields::require_object(row);
  ConversationRow out;
  out.messages = Json::array();
  read_turns(row, out);
  add_system(row, out);
  out.kwargs = merge_template_kwargs(template_kwargs_, fields_.find(row, "chat_template_kwargs"),
                                     fields_.find(row, "tools"));
  fields_.read_extra(row, out);
  fields_.finish_notes(row, out);
  return out;
}

}  // namespace xrun
