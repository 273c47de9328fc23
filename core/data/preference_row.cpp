#include "core/data/preference_row.h"

#include <algorithm>
#include <cmath>

#include "core/base/hash.h"
#include "core/base/suggest.h"
#include "core/data/messages.h"
#include "core/text/chat_tokens.h"

namespace xrun {

namespace {

const std::vector<std::string> kOurNames = {
    "prompt",   "system", "conversations",        "messages", "chosen",
    "rejected", "tools",  "chat_template_kwargs", "weight"};

constexpr int64_t kExactInteger = int64_t{1} << 53;  // numbers are kept as doubles
constexpr size_t kColumnsText = 150;                 // of column names in a row's refusal

bool is_opening_role(const std::string& role) {
  return role == "system" || role == "user" || role == "developer";
}

bool begins_with(const Json& messages, const Json& prefix) {
  return prefix.size() <= messages.size() &&
         std::equal(prefix.as_array().begin(), prefix.as_array().end(),
                    messages.as_array().begin());
}

Json concatenate(const Json& first, const Json& second) {
  Json joined = first;
  for (const Json& message : second.as_array()) joined.push_back(message);
  return joined;
}

// The common prompt, without the last message of either side: an answer is never a prompt.
size_t shared_messages(const Json& chosen, const Json& rejected) {
  return std::min(
      {count_shared_messages(chosen, rejected), chosen.size() - 1, rejected.size() - 1});
}

void check_side(const Json& messages, const std::string& side) {
  const Json::Array& list = messages.as_array();
  const bool any = std::any_of(list.begin(), list.end(), [](const Json& message) {
    return message_role(message) == "assistant";
  });
  if (!any) throw RowRefusal("no_assistant", "the " + side + " side has no assistant turn");
  if (message_role(list.back()) != "assistant") {
    throw RowRefusal("last_not_assistant",
                     fmt::format("the {} side ends with a turn of \"{}\", wanted assistant", side,
                                 message_role(list.back())));
  }
  if (!says_something(list.back())) {
    throw RowRefusal("empty_answer", "the " + side + " side's last turn has no content");
  }
}

// A prompt says something, and so does each user turn; an empty system text or tool result may be.
void check_prompt(const PreferenceRow& row) {
  if (row.shared == 0) throw RowRefusal("no_prompt", "no turn stands before the answers");
  for (const Json* side : {&row.chosen, &row.rejected}) {
    for (size_t i = 0; i < side->size(); ++i) {
      const Json& message = side->as_array()[i];
      if (message_role(message) != "user" || says_something(message)) continue;
      throw RowRefusal("empty_prompt", fmt::format("turn {} is a user turn without text", i + 1));
    }
  }
}

// Which answer is better is a question only after the same prompt.
void check_same_prompt(const PreferenceRow& row) {
  for (const Json* side : {&row.chosen, &row.rejected}) {
    const std::string& role = message_role(side->as_array()[row.shared]);
    if (role == "assistant") continue;
    throw RowRefusal("prompts_differ",
                     fmt::format("chosen and rejected part in turn {}, a turn of \"{}\"; wanted "
                                 "the same turns up to an answer",
                                 row.shared + 1, role));
  }
}

}  // namespace

struct PreferenceReader::Prompt {
  Json messages;         // null: there is none
  bool is_text = false;  // came as a string: one user turn
  std::string system;
  std::string name;  // the field it came from
};

PreferenceReader::PreferenceReader(const std::vector<std::pair<std::string, std::string>>& fields,
                                   std::vector<std::string> keep, Json template_kwargs)
    : fields_(fields), keep_(std::move(keep)), template_kwargs_(std::move(template_kwargs)) {
  for (const auto& [ours, theirs] : fields_) {
    if (std::find(kOurNames.begin(), kOurNames.end(), ours) != kOurNames.end()) continue;
    const std::string near = nearest_name(ours, kOurNames);
    throw UsageError(fmt::format(
        "data.fields has \"{}\"{}; the fields of a preference row are prompt, system, "
        "conversations, messages, chosen, rejected, tools, chat_template_kwargs, weight",
        ours, near.empty() ? "" : fmt::format(", did you mean \"{}\"?", near)));
  }
  for (auto name = keep_.begin(); name != keep_.end(); ++name) {
    if (std::find(keep_.begin(), name, *name) == name) continue;
    throw UsageError(fmt::format("data.keep names \"{}\" twice; once is enough", *name));
  }
}

// "; the row has question, good, bad: say fields = { prompt = "question" }"
std::string PreferenceReader::other_columns(const Json& row, const std::string& ours) const {
  std::string names;
  std::string example;
  size_t more = 0;
  for (const Json::Member& member : row.as_object()) {
    if (!is_unread(member.first)) continue;
    if (example.empty()) example = member.first;
    if (names.size() > kColumnsText) {
      ++more;
    } else {
      names += (names.empty() ? "" : ", ") + member.first;
    }
  }
  if (names.empty()) return "";
  if (more > 0) names += fmt::format(" and {} more", more);
  return fmt::format(
      "; columns that are not read: {}; name the right one, say fields = {{ {} = "
      "\"{}\" }}",
      names, ours, example);
}

std::string PreferenceReader::spelled(const std::string& ours) const {
  for (const auto& [name, theirs] : fields_) {
    if (name == ours) return theirs;
  }
  return ours == "weight" ? "" : ours;  // a column that happens to be called weight is no weight
}

const Json* PreferenceReader::field(const Json& row, const std::string& ours) const {
  const std::string name = spelled(ours);
  const Json* value = name.empty() ? nullptr : row.find(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

PreferenceReader::Prompt PreferenceReader::read_prompt(const Json& row, PreferenceRow& out) const {
  Prompt prompt;
  if (const Json* system = field(row, "system")) {
    if (!system->is_string()) {
      throw RowRefusal("wrong_type", fmt::format("{} is {}, wanted a string", spelled("system"),
                                                 kind_text(*system)));
    }
    prompt.system = system->as_string();
  }
  bool from_value = false;
  const Json* text = field(row, "prompt");
  for (const char* name : {"conversations", "messages"}) {
    const Json* value = field(row, name);
    if (value == nullptr || !prompt.messages.is_null()) continue;
    prompt.messages = read_messages(*value, spelled(name), from_value);
    prompt.name = spelled(name);
  }
  if (text != nullptr && prompt.messages.is_null()) {
    prompt.name = spelled("prompt");
    prompt.is_text = text->is_string();
    prompt.messages = prompt.is_text ? Json(Json::Array{make_message("user", text->as_string())})
                                     : read_messages(*text, prompt.name, from_value);
  } else if (text != nullptr) {
    out.notes.push_back(
        fmt::format("\"{}\" is ignored beside \"{}\"", spelled("prompt"), prompt.name));
  }
  if (from_value) out.notes.push_back("messages spelled from/value");
  return prompt;
}

Json PreferenceReader::read_side(const Json& row, const std::string& ours, const Prompt& prompt,
                                 PreferenceRow& out) const {
  const std::string name = spelled(ours);
  const Json* value = field(row, ours);
  if (value == nullptr) {
    throw RowRefusal("missing_side",
                     fmt::format("has no \"{}\"{}", name, other_columns(row, ours)));
  }
  bool from_value = false;
  const bool is_text = value->is_string();
  Json side = is_text ? Json(Json::Array{make_message("assistant", value->as_string())})
                      : read_messages(*value, name, from_value);
  if (from_value) out.notes.push_back("messages spelled from/value");
  const bool whole = !is_text && is_opening_role(message_role(side.as_array().front()));
  if (!whole && prompt.messages.is_null()) {
    if (is_text) {
      throw RowRefusal("no_prompt", fmt::format("\"{}\" is a string and the row has no prompt{}",
                                                name, other_columns(row, "prompt")));
    }
  } else if (!whole) {
    side = concatenate(prompt.messages, side);
  } else if (prompt.is_text) {
    out.notes.push_back(fmt::format("\"{}\" is ignored beside whole conversations", prompt.name));
  } else if (!prompt.messages.is_null() && !begins_with(side, prompt.messages)) {
    throw RowRefusal("prompt_mismatch",
                     fmt::format("\"{}\" is not the beginning of \"{}\"", prompt.name, name));
  }
  const bool has_system = message_role(side.as_array().front()) == "system";
  if (!prompt.system.empty() && !has_system) {
    side = concatenate(Json::Array{make_message("system", prompt.system)}, side);
  } else if (!prompt.system.empty()) {
    out.notes.push_back(fmt::format("\"{}\" is ignored beside a system turn", spelled("system")));
  }
  return side;
}

void PreferenceReader::read_kept(const Json& row, PreferenceRow& out) const {
  for (const std::string& name : keep_) {
    const Json* value = row.find(name);
    if (value != nullptr && !(value->is_null() || value->is_number() || value->is_string())) {
      out.notes.push_back(
          fmt::format("kept column \"{}\" is {} and is taken as absent", name, kind_text(*value)));
      value = nullptr;
    }
    if (value != nullptr && value->is_int() && std::abs(value->as_int()) > kExactInteger) {
      throw RowRefusal("kept_column",
                       fmt::format("\"{}\" is {}: whole numbers beyond 2^53 are not kept exactly; "
                                   "write it as a string",
                                   name, value->as_int()));
    }
    out.kept.push_back(value == nullptr ? Json() : *value);
  }
  const Json* weight = field(row, "weight");
  if (weight == nullptr) return;
  const double number = weight->is_number() ? weight->as_double() : -1;
  out.weight = static_cast<float>(number);
  if (!std::isfinite(out.weight) || number < 0) {
    throw RowRefusal("bad_weight", fmt::format("\"{}\" is {}, wanted a number >= 0",
                                               spelled("weight"), dump_json(*weight)));
  }
}

bool PreferenceReader::is_unread(const std::string& column) const {
  return std::none_of(kOurNames.begin(), kOurNames.end(),
                      [&](const std::string& ours) { return spelled(ours) == column; }) &&
         std::find(keep_.begin(), keep_.end(), column) == keep_.end();
}

void PreferenceReader::note_unread(const Json& row, PreferenceRow& out) const {
  for (const Json::Member& member : row.as_object()) {
    if (!is_unread(member.first)) continue;
    out.notes.push_back(fmt::format("column \"{}\" is not read", member.first));
  }
}

PreferenceRow PreferenceReader::read(const Json& value, const SourceLine& at) const {
  if (!value.is_object()) {
    throw RowRefusal("not_an_object",
                     fmt::format("the line is {}, wanted an object", kind_text(value)));
  }
  PreferenceRow row;
  row.at = at;
  const Prompt prompt = read_prompt(value, row);
  row.chosen = read_side(value, "chosen", prompt, row);
  row.rejected = read_side(value, "rejected", prompt, row);
  check_side(row.chosen, "chosen");
  check_side(row.rejected, "rejected");
  if (row.chosen == row.rejected) {
    throw RowRefusal("same_answers", "chosen and rejected are the same");
  }
  row.shared = shared_messages(row.chosen, row.rejected);
  check_same_prompt(row);
  check_prompt(row);
  row.kwargs = merge_template_kwargs(template_kwargs_, field(value, "chat_template_kwargs"),
                                     field(value, "tools"));
  read_kept(value, row);
  Json shared = Json::array();
  for (size_t i = 0; i < row.shared; ++i) shared.push_back(row.chosen.as_array()[i]);
  row.prompt_hash = hash_u64(dump_json(shared));
  std::sort(row.notes.begin(), row.notes.end());
  row.notes.erase(std::unique(row.notes.begin(), row.notes.end()), row.notes.end());
  note_unread(value, row);  // last: their number has no bound, and a ledger's notes do
  return row;
}

}  // namespace xrun
