// The text is a model's, so everything in it is untrusted: the parsers bound the nesting,
// kMaxCalls bounds the number of calls, and each byte is read a bounded number of times.

#include "core/text/chat/sampled_calls.h"

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/text/chat/call_literals.h"

namespace xrun {

namespace {

constexpr std::string_view kPythonTag = "<|python_tag|>";
constexpr size_t kNone = std::string_view::npos;

// Position of a mark; kNone if the form has no such mark.
size_t find_mark(std::string_view text, std::string_view mark, size_t from = 0) {
  return mark.empty() ? kNone : text.find(mark, from);
}

SampledCall failed(std::string error) { return {.name = "", .error = std::move(error)}; }

// ---- JSON

// Returns the arguments, which are an object or, as in OpenAI's API, a string with its JSON.
std::optional<Json> arguments_of(const Json* value) {
  if (value == nullptr) return std::nullopt;
  if (value->is_object()) return *value;
  if (!value->is_string()) return std::nullopt;
  Json parsed = parse_json(value->as_string(), "arguments");
  return parsed.is_object() ? std::optional(std::move(parsed)) : std::nullopt;
}

// Reads one call. Some families name its members differently: parameters (Llama), tool_name
// (Command R).
SampledCall call_of(const Json& value) {
  if (!value.is_object()) return failed("a call is not a JSON object");
  // Either OpenAI's wrapping {"id", "function": {...}} or the bare call.
  const Json* const function = value.find("function");
  const Json& call = function != nullptr && function->is_object() ? *function : value;
  SampledCall made{.name = text_member(call, "name"), .id = text_member(value, "id")};
  if (made.name.empty()) made.name = text_member(call, "tool_name");
  if (made.name.empty()) return failed("a call has no \"name\"");
  const Json* arguments = call.find("arguments");
  if (arguments == nullptr) arguments = call.find("parameters");
  auto read = arguments_of(arguments);
  if (!read) return failed("a call has no \"arguments\" that are a JSON object");
  made.arguments = std::move(*read);
  return made;
}

// Adds the JSON of one call, or of a list of calls.
void add_json(std::string_view text, std::vector<SampledCall>& calls) {
  const Json value = parse_json(text, "tool call");
  if (!value.is_array()) return calls.push_back(call_of(value));
  for (const Json& one : value.as_array()) {
    // One more than allowed, so that the caller sees that there were more.
    if (calls.size() > kMaxCalls) return;
    calls.push_back(call_of(one));
  }
}

bool is_json(std::string_view text) {
  // Blanks at the end are not read; otherwise each mark of a turn would read all of them.
  const auto skip_blanks = [&](size_t from) {
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks, from), text.size()));
  };
  skip_blanks(0);
  // [{...} is a list of calls; [text] is not JSON of a call.
  if (text.starts_with('[')) skip_blanks(1);
  return text.starts_with('{');
}

// ---- a name and JSON

SampledCall named_call(std::string_view text, const CallFormat& format) {
  if (!format.name_open.empty()) {
    const size_t at = text.find(format.name_open);
    if (at == kNone) return failed(fmt::format("a call has no {}", format.name_open));
    text.remove_prefix(at + format.name_open.size());
  }
  // The name ends at the mark of the id, at the arguments or at a fence.
  const size_t end = std::min(text.find_first_of("[{<\n"), text.size());
  SampledCall call{.name = std::string(trimmed(text.substr(0, end)))};
  text = trimmed(text.substr(end));
  if (!format.id_open.empty() && text.starts_with(format.id_open)) {
    text.remove_prefix(format.id_open.size());
    const size_t id = std::min(text.find_first_of("[{"), text.size());
    call.id = std::string(trimmed(text.substr(0, id)));
    text.remove_prefix(id);
  }
  // If the arguments follow at once, a mark is inside one of their strings.
  const size_t open = text.starts_with('{') ? kNone : find_mark(text, format.value_open);
  if (open != kNone) text = trimmed(text.substr(open + format.value_open.size()));
  const Json arguments = parse_json(text, "tool call");
  if (call.name.empty() || !arguments.is_object()) {
    return failed("a call has no name in front of its arguments, a JSON object");
  }
  call.arguments = arguments;
  return call;
}

// ---- tags

// Returns true if the prompt's tools say that a parameter is a string.
bool is_text_parameter(const Json& tools, std::string_view tool, std::string_view parameter) {
  if (!tools.is_array()) return false;
  for (const Json& one : tools.as_array()) {
    // OpenAI wraps a tool in {"type", "function"}; bare schemas occur too.
    const Json* const function = one.find("function");
    const Json& described = function != nullptr ? *function : one;
    if (text_member(described, "name") != tool) continue;
    // parameters.properties.NAME of the JSON schema.
    const Json* found = described.find("parameters");
    for (const std::string_view key : {std::string_view("properties"), parameter}) {
      if (found != nullptr) found = found->find(key);
    }
    return text_member(found, "type") == "string";
  }
  return false;
}

// Returns a value without quotes: its value as JSON if it is JSON, else the string.
Json bare_value(std::string_view text) {
  // Python's spelling: templates print booleans with the filter `string`.
  if (text == "True") return true;
  if (text == "False") return false;
  if (text == "None") return {};
  // Try only what can begin a JSON value: an exception for every word would be slow.
  if (text.empty() || std::string_view("-0123456789{[tfn").find(text[0]) == kNone) return text;
  try {
    return parse_json(text, "value");
  } catch (const Error&) {
    return text;
  }
}

SampledCall tagged_call(std::string_view text, const CallFormat& format, const Json& tools) {
  const auto unclosed = [](std::string_view mark) {
    return failed(fmt::format("a call has no {}", mark));
  };
  if (!format.name_open.empty()) {
    const size_t at = text.find(format.name_open);
    if (at == kNone) return unclosed(format.name_open);
    text.remove_prefix(at + format.name_open.size());
  }
  size_t at = text.find(format.key_open);
  std::string_view name = text.substr(0, at);
  if (!format.name_close.empty()) {
    const size_t end = name.find(format.name_close);
    if (end == kNone) return unclosed(format.name_close);
    name = name.substr(0, end);
  }
  SampledCall call{.name = std::string(trimmed(name))};
  // Prose in front of the first tag is not a name.
  if (call.name.empty() || call.name.find_first_of(kBlanks) != kNone) {
    return failed("a call has no name");
  }
  while (at != kNone) {
    const size_t key = at + format.key_open.size(), key_end = text.find(format.key_close, key);
    if (key_end == kNone) return unclosed(format.key_close);
    size_t begin = key_end + format.key_close.size();
    if (!format.value_open.empty()) {
      begin = text.find(format.value_open, begin);
      if (begin == kNone) return unclosed(format.value_open);
      begin += format.value_open.size();
    }
    const size_t end = text.find(format.value_close, begin);
    if (end == kNone) return unclosed(format.value_close);
    std::string_view value = text.substr(begin, end - begin);
    // The value is on lines of its own; line feeds inside it belong to it.
    if (format.value_lines && value.starts_with('\n')) value.remove_prefix(1);
    if (format.value_lines && value.ends_with('\n')) value.remove_suffix(1);
    const std::string_view parameter = trimmed(text.substr(key, key_end - key));
    // The schema decides: 5 stays a string for a string parameter.
    const bool is_text = is_text_parameter(tools, call.name, parameter);
    call.arguments.set(parameter, is_text ? Json(value) : bare_value(value));
    at = text.find(format.key_open, end);
  }
  return call;
}

// ---- all forms

// Adds the calls between two marks.
void add_calls(std::string_view text, const CallFormat& format, const Json& tools,
               std::vector<SampledCall>& calls) {
  if (format.shape != CallShape::kTagged) {
    // The last one, since an argument may contain the mark.
    const size_t end = format.value_close.empty() ? kNone : text.rfind(format.value_close);
    text = trimmed(text.substr(0, end));
  }
  try {
    // A family that writes names first may have revisions in plain JSON, such as Mistral's v3.
    if (format.shape == CallShape::kJson || (format.shape != CallShape::kTagged && is_json(text))) {
      add_json(text, calls);
    } else if (format.shape == CallShape::kNamed) {
      calls.push_back(named_call(text, format));
    } else if (format.shape == CallShape::kTagged) {
      calls.push_back(tagged_call(text, format, tools));
    } else {
      // One more than allowed, as in add_json.
      for (LiteralCall& one : parse_literal_calls(text, kMaxCalls + 1)) {
        calls.push_back({.name = std::move(one.name), .arguments = std::move(one.arguments)});
      }
    }
  } catch (const Error& error) {
    calls.push_back(failed(error.what()));
  }
}

// The bytes of an opening mark; kNone if there is none.
struct Opening {
  size_t begin = kNone, end = kNone;
};

// Returns the first opening mark from `from` on. other_open may be a plain word ("functools"), so
// it opens a call only in front of JSON.
Opening find_opening(std::string_view text, const CallFormat& format, size_t from) {
  const size_t first = text.find(format.open, from);
  size_t other = find_mark(text, format.other_open, from);
  while (other < first && !is_json(text.substr(other + format.other_open.size()))) {
    other = text.find(format.other_open, other + 1);
  }
  if (other < first) return {other, other + format.other_open.size()};
  return first == kNone ? Opening{} : Opening{first, first + format.open.size()};
}

// Adds the calls of a turn that is entirely a call. An ordinary answer may begin with a brace too,
// but a call has a name.
void add_whole_turn(std::string_view text, const CallFormat& format,
                    std::vector<SampledCall>& calls) {
  text = trimmed(text);
  const bool is_call = text.starts_with(kPythonTag);
  if (is_call) text = trimmed(text.substr(kPythonTag.size()));
  if (text.starts_with('{') && (is_call || text.find("\"name\"") != kNone)) {
    add_calls(text, format, {}, calls);
  }
}

}  // namespace

std::vector<SampledCall> parse_calls(std::string_view text, const CallFormat& format,
                                     const Json& tools) {
  std::vector<SampledCall> calls;
  if (format.open.empty()) {
    add_whole_turn(text, format, calls);
    return calls;
  }
  for (size_t at = 0; calls.size() <= kMaxCalls;) {
    const Opening opening = find_opening(text, format, at);
    if (opening.begin == kNone) break;
    // Without a closing mark a call extends to the next opening one.
    const size_t end = format.close.empty() ? find_opening(text, format, opening.end).begin
                                            : text.find(format.close, opening.end);
    if (end == kNone && !format.close.empty()) {
      // The end of this call is unknown, so nothing after it is read.
      calls.push_back(failed(fmt::format("{} is not closed by {}", format.open, format.close)));
      break;
    }
    add_calls(trimmed(text.substr(opening.end, end - opening.end)), format, tools, calls);
    at = std::min(end, text.size());
  }
  if (calls.size() > kMaxCalls) {
    calls.resize(kMaxCalls);
    calls.push_back(failed(fmt::format("a turn has more than {} calls", kMaxCalls)));
  }
  return calls;
}

Json calls_json(const std::vector<SampledCall>& calls) {
  Json list = Json::array();
  for (const SampledCall& call : calls) {
    Json one = Json::object();
    if (call.error.empty()) {
      one.set("name", call.name);
      one.set("arguments", call.arguments);
      if (!call.id.empty()) one.set("id", call.id);
    } else {
      one.set("error", call.error);
    }
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace xrun
