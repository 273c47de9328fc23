#include "core/data/messages.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/data/ledger.h"
#include "core/text/chat_template.h"

namespace xrun {

namespace {

constexpr std::pair<const char*, const char*> kSpeakers[] = {
    {"system", "system"},     {"user", "user"},           {"human", "user"},
    {"prompter", "user"},     {"assistant", "assistant"}, {"gpt", "assistant"},
    {"chatgpt", "assistant"}, {"model", "assistant"},     {"bot", "assistant"},
    {"tool", "tool"},         {"observation", "tool"},    {"function_response", "tool"},
};

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw RowRefusal("wrong_type", fmt::format("{} {}", where, what));
}

// A content in parts, as transformers hands it to templates: each {"type": "text", "text": "..."}.
// What is no text (an image) has no tokens here, and a template would write its name instead.
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

Json read_message(const Json& value, const std::string& where, bool& spelled_from_value) {
  if (!value.is_object()) {
    refuse(where, fmt::format("is {}, wanted a message with role and content", kind_text(value)));
  }
  const bool from_value = value.find("role") == nullptr && value.find("from") != nullptr;
  spelled_from_value |= from_value;
  const char* role_key = from_value ? "from" : "role";
  const char* content_key = from_value ? "value" : "content";
  const Json* role = value.find(role_key);
  if (role == nullptr || !role->is_string()) {
    refuse(where, fmt::format("has no {} that is a string", role_key));
  }
  Json message = Json::object();
  // An unknown role passes in the role/content spelling: it is the template that knows its roles.
  const auto known =
      std::find_if(std::begin(kSpeakers), std::end(kSpeakers),
                   [&](const auto& entry) { return role->as_string() == entry.first; });
  if (from_value && known == std::end(kSpeakers)) {
    refuse(where,
           fmt::format("is from \"{}\", wanted system, human, gpt or tool", role->as_string()));
  }
  message.set("role", from_value ? Json(known->second) : *role);
  const Json* content = value.find(content_key);
  const Json* calls = value.find("tool_calls");
  const bool calls_tools = calls != nullptr && calls->is_array() && calls->size() > 0;
  if (content != nullptr && content->is_string()) {
    message.set("content", *content);
  } else if (content != nullptr && content->is_array()) {
    check_parts(*content, where);
    message.set("content", *content);
  } else if (calls_tools && (content == nullptr || content->is_null())) {
    if (content != nullptr) message.set("content", nullptr);
  } else {
    refuse(where, content == nullptr ? fmt::format("has no {}", content_key)
                                     : fmt::format("has a {} that is {}, wanted a string",
                                                   content_key, kind_text(*content)));
  }
  for (const Json::Member& member : value.as_object()) {
    if (member.first == role_key || member.first == content_key) continue;
    if (member.first == "tool_calls" && member.second.is_null()) continue;
    message.set(member.first, member.second);
  }
  return message;
}

}  // namespace

Json read_messages(const Json& value, const std::string& field, bool& spelled_from_value) {
  Json messages = Json::array();
  if (value.is_object()) {
    messages.push_back(read_message(value, field, spelled_from_value));
    return messages;
  }
  if (!value.is_array()) {
    refuse(field, fmt::format("is {}, wanted a string, a message or a list of messages",
                              kind_text(value)));
  }
  if (value.size() == 0) throw RowRefusal("empty_list", field + " has no messages");
  for (size_t i = 0; i < value.size(); ++i) {
    messages.push_back(
        read_message(value.as_array()[i], fmt::format("{}[{}]", field, i), spelled_from_value));
  }
  return messages;
}

Json make_message(const std::string& role, std::string content) {
  Json message = Json::object();
  message.set("role", role);
  message.set("content", std::move(content));
  return message;
}

const std::string& message_role(const Json& message) {
  static const std::string kNone;
  const Json* role = message.find("role");
  return role != nullptr && role->is_string() ? role->as_string() : kNone;
}

std::string kind_text(const Json& value) {
  const std::string name = value.kind_name();
  return (name.find_first_of("aeiou") == 0 ? "an " : "a ") + name;
}

namespace {

bool is_blank(const Json* text) {
  return text == nullptr || !text->is_string() ||
         text->as_string().find_first_not_of(" \t\r\n") == std::string::npos;
}

}  // namespace

bool says_something(const Json& message) {
  const Json* content = message.find("content");
  if (!is_blank(content)) return true;
  if (content != nullptr && content->is_array()) {
    for (const Json& part : content->as_array()) {
      if (!is_blank(part.find("text"))) return true;
    }
  }
  const Json* calls = message.find("tool_calls");
  return calls != nullptr && calls->is_array() && calls->size() > 0;
}

namespace {

// A list, or one as a string: columns of tables cannot hold lists of different things.
Json read_tools(const Json& tools) {
  Json list = tools;
  if (tools.is_string()) {
    try {
      list = parse_json(tools.as_string(), "tools");
    } catch (const Error& error) {
      refuse("tools", fmt::format("is a string, but no JSON: {}", error.what()));
    }
  }
  if (!list.is_array()) refuse("tools", fmt::format("is {}, wanted a list", kind_text(list)));
  return list;
}

}  // namespace

Json merge_template_kwargs(const Json& defaults, const Json* kwargs, const Json* tools) {
  Json merged = defaults.is_object() ? defaults : Json::object();
  if (kwargs != nullptr && !kwargs->is_null()) {
    if (!kwargs->is_object()) {
      refuse("chat_template_kwargs", fmt::format("is {}, wanted an object", kind_text(*kwargs)));
    }
    for (const Json::Member& member : kwargs->as_object()) {
      // What is trained decides whether an answer is asked for.
      if (member.first == "add_generation_prompt" || is_reserved_argument(member.first)) {
        throw RowRefusal("refused_kwargs",
                         fmt::format("chat_template_kwargs may not set \"{}\"", member.first));
      }
      merged.set(member.first, member.second);
    }
  }
  if (tools != nullptr && !tools->is_null()) {
    merged.set("tools", read_tools(*tools));
  }
  return merged;
}

}  // namespace xrun
