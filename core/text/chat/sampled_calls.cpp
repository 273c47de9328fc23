// The text is a model's, so everything in it is untrusted: parse_json bounds the nesting,
// kMostCalls the number of calls, and each byte is looked at a bounded number of times.

#include "core/text/chat/sampled_calls.h"

#include <algorithm>
#include <optional>

#include "core/base/error.h"

namespace xrun {

namespace {

constexpr std::string_view kOpen = "<tool_call>", kClose = "</tool_call>";
constexpr std::string_view kMistralMark = "[TOOL_CALLS]";
constexpr std::string_view kMistralId = "[CALL_ID]", kMistralArguments = "[ARGS]";
constexpr std::string_view kPythonTag = "<|python_tag|>";
constexpr std::string_view kBlanks = " \t\r\n";
constexpr std::string_view kProbe = "xrun_probe";  // a name that no template writes itself

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// Takes `mark` from the front of a text.
bool take_mark(std::string_view& text, std::string_view mark) {
  if (!text.starts_with(mark)) return false;
  text.remove_prefix(mark.size());
  text = trimmed(text);
  return true;
}

SampledCall failed(std::string error) { return {.name = "", .error = std::move(error)}; }

// Arguments are an object, or one as JSON text as OpenAI's API has them.
std::optional<Json> arguments_of(const Json* value) {
  if (value == nullptr) return std::nullopt;
  if (value->is_object()) return *value;
  if (!value->is_string()) return std::nullopt;
  Json parsed = parse_json(value->as_string(), "arguments");
  return parsed.is_object() ? std::optional(std::move(parsed)) : std::nullopt;
}

SampledCall call_of(const Json& value) {
  if (!value.is_object()) return failed("a call is not a JSON object");
  const Json* const function = value.find("function");
  const Json& call = function != nullptr && function->is_object() ? *function : value;
  SampledCall made{.name = text_member(call, "name"), .id = text_member(value, "id")};
  if (made.name.empty()) return failed("a call has no \"name\"");
  const Json* arguments = call.find("arguments");
  if (arguments == nullptr) arguments = call.find("parameters");
  auto read = arguments_of(arguments);
  if (!read) return failed("a call has no \"arguments\" that are a JSON object");
  made.arguments = std::move(*read);
  return made;
}

// Parses the JSON of one call, or of a list of calls.
void add_json(std::string_view text, std::vector<SampledCall>& calls) {
  try {
    const Json value = parse_json(text, "tool call");
    if (!value.is_array()) return calls.push_back(call_of(value));
    for (const Json& one : value.as_array()) {
      if (calls.size() > kMostCalls) return;
      calls.push_back(call_of(one));
    }
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& error) {
    calls.push_back(failed(error.what()));
  }
}

std::vector<SampledCall> tagged_calls(std::string_view text) {
  std::vector<SampledCall> calls;
  for (size_t at = text.find(kOpen); at != std::string_view::npos && calls.size() <= kMostCalls;) {
    const size_t begin = at + kOpen.size();
    const size_t end = text.find(kClose, begin);
    if (end == std::string_view::npos) {
      calls.push_back(failed("<tool_call> is not closed by </tool_call>"));
      break;
    }
    add_json(trimmed(text.substr(begin, end - begin)), calls);
    at = text.find(kOpen, end + kClose.size());
  }
  return calls;
}

std::vector<SampledCall> llama_calls(std::string_view text) {
  std::string_view rest = trimmed(text);
  const bool is_call = take_mark(rest, kPythonTag);
  std::vector<SampledCall> calls;
  // Any other answer may begin with a brace: a call has a name.
  if (rest.starts_with('{') && (is_call || rest.find("\"name\"") != std::string_view::npos)) {
    add_json(rest, calls);
  }
  return calls;
}

// "f[CALL_ID]abc[ARGS]{...}", as Mistral's templates write calls from v11 on; v13 has no id.
void add_named(std::string_view text, std::vector<SampledCall>& calls) {
  const size_t end = std::min(text.find('['), text.find('{'));
  SampledCall call{.name = std::string(trimmed(text.substr(0, end)))};
  std::string_view rest = end == std::string_view::npos ? std::string_view() : text.substr(end);
  if (take_mark(rest, kMistralId)) {
    const size_t id = std::min(rest.find('['), rest.find('{'));
    call.id = std::string(trimmed(rest.substr(0, id)));
    rest = id == std::string_view::npos ? std::string_view() : rest.substr(id);
  }
  take_mark(rest, kMistralArguments);
  try {
    const Json value = parse_json(rest, "tool call");
    if (call.name.empty() || !value.is_object()) {
      call = failed("a call has no name in front of its arguments, a JSON object");
    } else {
      call.arguments = value;
    }
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& error) {
    call = failed(error.what());
  }
  calls.push_back(std::move(call));
}

std::vector<SampledCall> mistral_calls(std::string_view text) {
  std::vector<SampledCall> calls;
  size_t at = text.find(kMistralMark);
  while (at != std::string_view::npos && calls.size() <= kMostCalls) {
    const size_t begin = at + kMistralMark.size();
    at = text.find(kMistralMark, begin);
    const std::string_view part = trimmed(text.substr(begin, at - begin));
    if (part.starts_with('[') || part.starts_with('{')) {
      add_json(part, calls);
    } else {
      add_named(part, calls);
    }
  }
  return calls;
}

}  // namespace

std::vector<SampledCall> parse_calls(std::string_view text, CallFormat format) {
  std::vector<SampledCall> calls;
  if (format == CallFormat::kTagged) calls = tagged_calls(text);
  if (format == CallFormat::kLlama) calls = llama_calls(text);
  if (format == CallFormat::kMistral) calls = mistral_calls(text);
  if (calls.size() > kMostCalls) {
    calls.resize(kMostCalls);
    calls.push_back(failed(fmt::format("a turn has more than {} calls", kMostCalls)));
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

namespace {

// The rendering of a turn that calls the probe; "" if the template refuses it. Some templates take
// arguments as text alone.
std::string render_probe(const ChatTemplate& chat_template, const Json& kwargs) {
  for (const char* const arguments : {R"({"x": 1})", R"("{\"x\": 1}")"}) {
    const Json messages = parse_json(fmt::format(R"([{{"role": "user", "content": "a"}},
                        {{"role": "assistant", "content": "", "tool_calls": [
                          {{"id": "abcdef123", "type": "function",
                            "function": {{"name": "{}", "arguments": {}}}}}]}}])",
                                                 kProbe, arguments),
                                     "messages");
    try {
      return chat_template.render(messages, kwargs).text;
    } catch (const Interrupted&) {
      throw;
    } catch (const Error&) {
      continue;
    }
  }
  return "";
}

}  // namespace

CallFormat call_format_of(const ChatTemplate& chat_template, const Json& kwargs) {
  const std::string text = render_probe(chat_template, kwargs);
  const size_t name = text.rfind(kProbe);
  if (name == std::string::npos) return CallFormat::kTagged;
  const auto before = [&](std::string_view mark) {
    const size_t at = text.rfind(mark, name);
    return at != std::string::npos && name - at <= mark.size() + 40;
  };
  if (before(kMistralMark)) return CallFormat::kMistral;
  // GLM writes XML in the same tags, so the JSON is part of the sign.
  if (before("\"name\"") || before("{\"function\"")) {
    if (before(kOpen)) return CallFormat::kTagged;
    if (text.find("\"parameters\"", name) != std::string::npos) return CallFormat::kLlama;
  }
  return CallFormat::kUnknown;
}

}  // namespace xrun
