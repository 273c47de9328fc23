// Only roles and the keys of role and content are unified. The template gets every other member as
// the row has it, in the row's order.

#include "core/data/rows/messages.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/base/strings.h"
#include "core/data/rows/ledger.h"
#include "core/data/rows/tool_calls.h"
#include "core/data/rows/turn_flags.h"
#include "core/text/chat/chat_template.h"
#include "core/text/chat/message_ranges.h"

namespace xrun {

namespace {

// LLaMA-Factory's role for a turn whose text is a tool call in JSON.
constexpr const char* kSpokenCall = "function_call";

// ShareGPT says human and gpt, OpenAssistant prompter, GLM observation, Gemma model.
constexpr std::pair<const char*, const char*> kSpeakers[] = {
    {"system", "system"},       {"user", "user"},           {"human", "user"},
    {"prompter", "user"},       {"assistant", "assistant"}, {"gpt", "assistant"},
    {"chatgpt", "assistant"},   {"model", "assistant"},     {"bot", "assistant"},
    {"tool", "tool"},           {"observation", "tool"},    {"function_response", "tool"},
    {kSpokenCall, "assistant"},
};

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw RowRefusal("wrong_type", fmt::format("{} {}", where, what));
}

// Checks a content in parts: each is {"type": "text", "text": "..."}, as transformers gives it to
// templates. An image has no tokens here, and a template would write its name instead.
void check_parts(const Json& parts, const std::string& where) {
  for (size_t i = 0; i < parts.size(); ++i) {
    const Json& part = parts.as_array()[i];
    const Json* type = part.find("type");
    const Json* text = part.find("text");
    if (type != nullptr && type->is_string() && type->as_string() == "text" && text != nullptr &&
        text->is_string()) {
      continue;
    }
    refuse(where, fmt::format("has a content whose part {} is {}, wanted {{\"type\": \"text\", "
                              "\"text\": ...}}",
                              i,
                              type != nullptr && type->is_string()
                                  ? fmt::format("of type \"{}\"", type->as_string())
                                  : kind_text(part)));
  }
}

bool is_blank(const Json* text) {
  return text == nullptr || !text->is_string() ||
         text->as_string().find_first_not_of(" \t\r\n") == std::string::npos;
}

// In the role/content spelling an unknown role passes: the template knows its roles.
const char* known_speaker(std::string name, bool from_value) {
  // Roles in capitals occur; the names of from/value data are exact.
  if (!from_value) name = lower_case(name);
  const auto known = std::find_if(std::begin(kSpeakers), std::end(kSpeakers),
                                  [&](const auto& entry) { return name == entry.first; });
  if (known == std::end(kSpeakers)) return nullptr;
  // "observation" is a role of some templates and not of others; a call is a key of a message.
  const bool is_role =
      std::string_view(known->second) != "tool" && std::string_view(known->first) != kSpokenCall;
  return from_value || is_role ? known->second : nullptr;
}

// True for further roles that templates use.
bool is_template_role(std::string_view name) {
  return name == "tool" || name == "developer" || name == "ipython" || name == "observation" ||
         name == "function_response";
}

void add_once(std::vector<std::string>& texts, const std::string& text) {
  if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(text);
}

// `from_value`: the spelling of ShareGPT, "from" and "value".
std::string read_role(const Json& value, bool from_value, const std::string& where,
                      std::vector<std::string>& notes) {
  const char* key = from_value ? "from" : "role";
  const Json* role = value.find(key);
  if (role == nullptr || !role->is_string()) {
    refuse(where, fmt::format("has no {} that is a string", key));
  }
  const std::string& name = role->as_string();
  const char* known = known_speaker(name, from_value);
  if (from_value) {
    if (known == nullptr) {
      refuse(where, fmt::format("is from \"{}\", wanted system, human, gpt or tool", name));
    }
    add_once(notes, "messages spelled from/value");
  } else if (known != nullptr && name != known) {
    add_once(notes, fmt::format("the role \"{}\" is read as \"{}\"", name, known));
  } else if (known == nullptr && !is_template_role(name)) {
    add_once(notes, "the role \"" + name +
                        "\" is unknown: the template decides how its turns are written");
  }
  return known == nullptr ? name : known;
}

Json read_content(const Json& value, const char* key, const std::string& where) {
  const Json* content = value.find(key);
  const bool calls_tools = makes_calls(value);
  if (content == nullptr && !calls_tools) refuse(where, fmt::format("has no {}", key));
  // A call may come without a text.
  if (content == nullptr || (content->is_null() && calls_tools)) return nullptr;
  if (content->is_array()) {
    check_parts(*content, where);
  } else if (!content->is_string()) {
    refuse(where, fmt::format("has a {} that is {}, wanted a string", key, kind_text(*content)));
  }
  return *content;
}

// The "tool_calls" of a turn whose text spells one call or a list of calls.
Json spoken_calls(const Json& text, const std::string& where) {
  Json spelled;
  try {
    spelled = parse_json(text.is_string() ? text.as_string() : "", "value");
  } catch (const Error&) {
    // not JSON: refused below
  }
  // An object is one call, anything else that is not a list is refused below.
  Json calls = Json::array();
  for (const Json& call : spelled.is_array() ? spelled.as_array() : Json::Array{spelled}) {
    if (!call.is_object() || call.find("name") == nullptr) {
      refuse(where, fmt::format("is from \"{}\" with {}, wanted a call as JSON: {{\"name\": ..., "
                                "\"arguments\": {{...}}}}",
                                kSpokenCall, dump_json(text)));
    }
    calls.push_back(Json(Json::Object{{"type", "function"}, {"function", call}}));
  }
  return calls;
}

Json read_message(const Json& value, const std::string& where, std::vector<std::string>& notes) {
  if (!value.is_object()) {
    refuse(where, fmt::format("is {}, wanted a message with role and content", kind_text(value)));
  }
  const Json* role = value.find("role");
  const bool from_value = (role == nullptr || role->is_null()) && value.find("from") != nullptr;
  const std::string role_key = from_value ? "from" : "role";
  const std::string content_key = from_value ? "value" : "content";
  Json message = Json::object();
  message.set("role", read_role(value, from_value, where, notes));
  Json content = read_content(value, content_key.c_str(), where);
  // The key stays where the row has it, even with null: templates tell the two apart.
  if (from_value && value.at("from").as_string() == kSpokenCall) {
    message.set("content", "");
    message.set("tool_calls", spoken_calls(content, where));
  } else if (value.find(content_key) != nullptr) {
    message.set("content", std::move(content));
  }
  const bool is_answer = is_assistant(message);
  for (const Json::Member& member : value.as_object()) {
    if (member.first == role_key || member.first == content_key) continue;
    if (from_value && (member.first == "role" || member.first == "content")) {
      // Tables with both spellings leave these null.
      const Json* text = value.find(content_key);
      if (member.second.is_null() || (text != nullptr && member.second == *text)) continue;
      throw RowRefusal(
          "columns_differ",
          fmt::format("{} {}", where,
                      text == nullptr ? "has from and content; with from the text is in value"
                                      : "has a value and a content, and they differ"));
    }
    const bool is_call_key = member.first == "tool_calls" || member.first == "function_call";
    // Tables leave these null if a message makes no call.
    if (is_call_key && member.second.is_null()) continue;
    const std::string note = flag_note(member, where, is_answer);
    if (!note.empty()) add_once(notes, note);
    message.set(member.first, member.second);
  }
  return message;
}

}  // namespace

// A single message counts as a list of one.
Json read_messages(const Json& value, const std::string& field, std::vector<std::string>& notes) {
  Json messages = Json::array();
  if (value.is_object()) {
    messages.push_back(read_message(value, field, notes));
    return messages;
  }
  if (!value.is_array()) {
    refuse(field, fmt::format("is {}, wanted a string, a message or a list of messages",
                              kind_text(value)));
  }
  if (value.size() == 0) throw RowRefusal("empty_list", field + " has no messages");
  for (size_t i = 0; i < value.size(); ++i) {
    messages.push_back(read_message(value.as_array()[i], fmt::format("{}[{}]", field, i), notes));
  }
  return messages;
}

// A common fault of converted tables.
void refuse_spelled_messages(const Json& value, const std::string& field) {
  if (!value.is_string()) return;
  // `[{`, a quote, and both keys in the same quotes: a text that only begins with a bracket passes.
  constexpr std::string_view kQuotes = "'\"";
  const std::string& text = value.as_string();
  const size_t open = text.find_first_not_of(" \n");
  if (open == std::string::npos || text[open] != '[') return;
  const size_t brace = text.find_first_not_of(" \n", open + 1);
  if (brace == std::string::npos || text[brace] != '{') return;
  const size_t quote = text.find_first_not_of(" \n", brace + 1);
  if (quote == std::string::npos || kQuotes.find(text[quote]) == kQuotes.npos) return;
  const auto names = [&](const char* key) {
    return text.find(text[quote] + (key + std::string(1, text[quote]) + ":")) != std::string::npos;
  };
  // Both keys of a spelling: {'role': ..., 'content': ...} or {'from': ..., 'value': ...}.
  const bool spelled = (names("role") && names("content")) || (names("from") && names("value"));
  if (spelled) {
    refuse(field,
           "is a string that spells a list of messages, wanted the list itself: json.loads "
           "or ast.literal_eval in Python makes it one");
  }
}

Json make_message(const std::string& role, std::string content) {
  Json message = Json::object();
  message.set("role", role);
  message.set("content", std::move(content));
  return message;
}

void require_user_texts(const Json& messages) {
  for (size_t i = 0; i < messages.size(); ++i) {
    const Json& message = messages.as_array()[i];
    if (message_role(message) != "user" || says_something(message)) continue;
    throw RowRefusal("empty_prompt", fmt::format("turn {} is a user turn without text", i + 1));
  }
}

std::string other_speakers(const Json& messages) {
  constexpr size_t kNamed = 4;
  std::vector<std::string> roles;
  for (const Json& message : messages.as_array()) add_once(roles, message_role(message));
  if (roles.size() > kNamed) roles.resize(kNamed);
  return fmt::format("; its turns are by {}", fmt::join(roles, ", "));
}

// White space says nothing; a tool call does.
bool says_something(const Json& message) {
  const Json* content = message.find("content");
  if (!is_blank(content)) return true;
  if (content != nullptr && content->is_array()) {
    for (const Json& part : content->as_array()) {
      if (!is_blank(part.find("text"))) return true;
    }
  }
  return makes_calls(message);
}

// Columns of tables hold it as a string.
Json read_tools(const Json& tools) {
  Json list = tools;
  if (tools.is_string()) {
    try {
      list = parse_json(tools.as_string(), "tools");
    } catch (const Error& error) {
      refuse("tools", fmt::format("is a string, but not JSON: {}", error.what()));
    }
  }
  if (!list.is_array()) refuse("tools", fmt::format("is {}, wanted a list", kind_text(list)));
  return list;
}

Json template_kwargs_of(const Json& row) {
  Json kwargs = Json::object();
  for (const auto& [key, value] : row.as_object()) {
    if (key == "messages") continue;
    kwargs.set(key, key == "tools" && !value.is_null() ? read_tools(value) : value);
  }
  return kwargs;
}

// Later ones win: the recipe's arguments, the row's, the row's tools.
Json merge_template_kwargs(const Json& defaults, const Json* kwargs, const Json* tools) {
  Json merged = defaults.is_object() ? defaults : Json::object();
  if (kwargs != nullptr && !kwargs->is_null()) {
    if (!kwargs->is_object()) {
      refuse("chat_template_kwargs", fmt::format("is {}, wanted an object", kind_text(*kwargs)));
    }
    for (const Json::Member& member : kwargs->as_object()) {
      // The kind of row decides whether an answer is asked for.
      if (member.first == "add_generation_prompt" || is_reserved_argument(member.first)) {
        throw RowRefusal("refused_kwargs",
                         fmt::format("chat_template_kwargs may not set \"{}\"", member.first));
      }
      merged.set(member.first, member.second);
    }
  }
  if (tools != nullptr && !tools->is_null()) {
    // The row's own tools replace those of the arguments.
    merged.set("tools", read_tools(*tools));
  }
  return merged;
}

}  // namespace xrun
