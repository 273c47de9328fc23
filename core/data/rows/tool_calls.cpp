// A lost call is found by counting: the rendering must contain the name of a tool at least as often
// as the messages call it. A name inside a longer one, such as get in get-weather, does not count.

#include "core/data/rows/tool_calls.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>

#include "core/data/rows/ledger.h"
#include "core/text/chat/message_ranges.h"
#include "core/text/chat/template_laws.h"

namespace xrun {

namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Returns a member of a call's function, or of the call if it has none; nullptr if it is absent.
const Json* find_member(const Json& call, const char* key) {
  const Json* function = call.find("function");
  return (function != nullptr && function->is_object() ? *function : call).find(key);
}

// Returns the name of a call's tool; "" if it has none that can be counted.
std::string call_name(const Json& call) {
  const Json* name = find_member(call, "name");
  if (name == nullptr || !name->is_string()) return "";
  const std::string& text = name->as_string();
  const auto is_plain = [](char c) { return is_word(c) || c == '-' || c == '.'; };
  // A template may escape other characters, and the count would be wrong.
  return std::all_of(text.begin(), text.end(), is_plain) ? text : "";
}

bool is_whole_word(std::string_view text, size_t at, size_t size) {
  const auto is_part = [&](size_t i) { return i < text.size() && is_word(text[i]); };
  return (at == 0 || !is_part(at - 1)) && !is_part(at + size);
}

// Returns true if the name at text[at] belongs to a longer one of `names`.
bool is_in_longer_name(std::string_view text, size_t at, std::string_view name,
                       const std::set<std::string>& names) {
  for (const std::string& longer : names) {
    if (longer.size() <= name.size()) continue;
    for (size_t in = 0; (in = longer.find(name, in)) != std::string::npos; ++in) {
      if (in > at || text.substr(at - in, longer.size()) != longer) continue;
      if (is_whole_word(text, at - in, longer.size())) return true;
    }
  }
  return false;
}

// Counts a name in `text` as a whole word that is not inside a longer one of `names`.
size_t count_name(std::string_view text, std::string_view name,
                  const std::set<std::string>& names) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(name, at)) != std::string_view::npos; at += name.size()) {
    if (is_whole_word(text, at, name.size()) && !is_in_longer_name(text, at, name, names)) ++count;
  }
  return count;
}

// A template that never mentions a key cannot render it.
bool mentions(const ChatTemplate& chat_template, const Json& kwargs, const char* word) {
  return chat_template.chosen(kwargs).source().find(word) != std::string::npos;
}

constexpr const char* kCalls = "tool_calls";
constexpr const char* kOldCall = "function_call";  // a single call; tool_calls is a list

// A call and its key in the message.
struct WrittenCall {
  const Json* call;
  const char* key;
};

// An object of nulls is not a call: tables have one if a message has no call.
bool is_call(const Json& value) {
  if (!value.is_object()) return !value.is_null();
  // A typed table fills absent calls with nulls.
  return std::any_of(value.as_object().begin(), value.as_object().end(),
                     [](const Json::Member& member) { return !member.second.is_null(); });
}

std::vector<WrittenCall> calls_of(const Json& message) {
  std::vector<WrittenCall> calls;
  const Json* list = message.find(kCalls);
  if (list != nullptr && list->is_array()) {
    for (const Json& call : list->as_array()) calls.push_back({&call, kCalls});
  }
  const Json* old = message.find(kOldCall);
  if (old != nullptr && is_call(*old)) calls.push_back({old, kOldCall});
  return calls;
}

// The names of all tools that are offered or called.
std::set<std::string> tool_names(const Json& messages, const Json& kwargs) {
  std::set<std::string> names;
  const Json* const tools = kwargs.find("tools");
  if (tools != nullptr && tools->is_array()) {
    for (const Json& tool : tools->as_array()) names.insert(call_name(tool));
  }
  for (const Json& message : messages.as_array()) {
    for (const WrittenCall& call : calls_of(message)) names.insert(call_name(*call.call));
  }
  return names;
}

// Returns true for a turn of a tool, by any name that templates have for its role.
bool is_result(const Json& message) {
  const std::string& role = message_role(message);
  return role == "tool" || role == "ipython" || role == "observation" ||
         role == "function_response" || role == "function";
}

bool begins_object(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  return begin != std::string_view::npos && text[begin] == '{';
}

// Returns nothing if the template refuses the messages.
std::optional<std::string> try_render(const Json& messages, const Json& kwargs,
                                      const ChatTemplate& chat_template) {
  try {
    return chat_template.render(messages, kwargs).text;
  } catch (const Error&) {
    return std::nullopt;
  }
}

[[noreturn]] void refuse_lost(const Json& messages, size_t message, const std::string& name,
                              const char* key, bool knows_calls) {
  const bool is_old = std::string_view(key) == kOldCall;
  // Llama 3.1 refuses turns with several calls.
  const bool parallel = std::any_of(messages.as_array().begin(), messages.as_array().end(),
                                    [](const Json& one) { return calls_of(one).size() > 1; });
  std::string remedy = fmt::format("--set template=qwen2.5 renders calls, as {}",
                                   parallel ? "does qwen3" : "do qwen3 and llama-3.1");
  if (is_old && knows_calls) {
    remedy = "the template knows \"tool_calls\": rename the key to that with map";
  } else if (is_old) {
    remedy = "rename it to \"tool_calls\" with map (docs/data.md), and " + remedy;
  }
  throw RowRefusal(
      kLostCallsReason,
      fmt::format("turn {} calls a tool{}{}, and the template leaves the call out; {}, or train "
                  "without the call: --set laws.{}=false",
                  message + 1, name.empty() ? "" : fmt::format(" \"{}\"", name),
                  is_old ? " by \"function_call\"" : "", remedy, kToolCallsLaw));
}

}  // namespace

bool makes_calls(const Json& message) { return !calls_of(message).empty(); }

// Names are counted for each tool and not for each call, since templates may reorder calls.
void require_calls(const Json& messages, const Json& kwargs, const ChatTemplate& chat_template,
                   std::string_view rendered) {
  const bool knows_calls = mentions(chat_template, kwargs, kCalls);
  const bool knows_old = mentions(chat_template, kwargs, kOldCall);
  const std::set<std::string> names = tool_names(messages, kwargs);
  std::map<std::string, size_t> rendered_names;  // occurrences without a call so far
  for (size_t m = 0; m < messages.size(); ++m) {
    for (const auto& [call, key] : calls_of(messages.as_array()[m])) {
      const std::string name = call_name(*call);
      const bool renders = key == kCalls ? knows_calls : knows_old;
      if (!renders) refuse_lost(messages, m, name, key, knows_calls);
      if (name.empty()) continue;
      const auto [left, is_new] = rendered_names.try_emplace(name, 0);
      if (is_new) left->second = count_name(rendered, name, names);
      if (left->second == 0) refuse_lost(messages, m, name, key, knows_calls);
      // Each occurrence serves one call. Names in the list of tools make the check lenient, never
      // too strict.
      --left->second;
    }
  }
}

// A call that the template does not know is the likelier reason of a failed rendering.
void refuse_unknown_calls(const Json& messages, const Json& kwargs,
                          const ChatTemplate& chat_template, bool may_be_lost) {
  const bool knows_calls = mentions(chat_template, kwargs, kCalls);
  const bool knows_old = mentions(chat_template, kwargs, kOldCall);
  for (size_t m = 0; m < messages.size(); ++m) {
    const Json* content = messages.as_array()[m].find("content");
    for (const auto& [call, key] : calls_of(messages.as_array()[m])) {
      if (key == kCalls ? knows_calls : knows_old) continue;
      if (!may_be_lost) refuse_lost(messages, m, call_name(*call), key, knows_calls);
      // The text beside the call remains.
      if (content != nullptr && !content->is_null()) continue;
      throw RowRefusal(
          "empty_answer",
          fmt::format("turn {} is only a tool call, which the template leaves out", m + 1));
    }
  }
}

std::string incomplete_call_text(const Json& messages) {
  for (size_t m = 0; m < messages.size(); ++m) {
    size_t index = 0;  // in tool_calls
    for (const auto& [call, key] : calls_of(messages.as_array()[m])) {
      const bool is_listed = std::string_view(key) == kCalls;
      std::string where = is_listed ? fmt::format("{}[{}]", key, index++) : key;
      const Json* function = call->find("function");
      if (function != nullptr && function->is_object()) where += ".function";
      for (const char* member : {"name", "arguments"}) {
        if (find_member(*call, member) != nullptr) continue;
        const std::string name = call_name(*call);
        return fmt::format("turn {} calls a tool{}, and its {}.{} is missing{}", m + 1,
                           name.empty() ? "" : fmt::format(" \"{}\"", name), where, member,
                           member == std::string_view("name")
                               ? ""
                               : "; a call without arguments has \"arguments\": {}");
      }
    }
  }
  return "";
}

std::string null_content_text(const Json& messages) {
  for (size_t m = 0; m < messages.size(); ++m) {
    const Json& message = messages.as_array()[m];
    const Json* content = message.find("content");
    if (content == nullptr || !content->is_null() || !makes_calls(message)) continue;
    return fmt::format(
        "turn {} calls a tool and its content is null, which the template cannot join to a string; "
        "write \"content\": \"\"",
        m + 1);
  }
  return "";
}

void note_unrendered_tools(const Json& messages, const Json& kwargs,
                           const ChatTemplate& chat_template, std::vector<std::string>& notes) {
  const Json* tools = kwargs.find("tools");
  if (tools != nullptr && tools->size() > 0 && !mentions(chat_template, kwargs, "tools")) {
    notes.push_back(std::string(kLostNote) + "the template does not render \"tools\"");
  }
  for (const char* key : {kCalls, kOldCall}) {
    const auto is_lost = [&](const Json& message) {
      const std::vector<WrittenCall> calls = calls_of(message);
      return std::any_of(calls.begin(), calls.end(),
                         [&](const WrittenCall& call) { return call.key == key; });
    };
    const bool any = std::any_of(messages.as_array().begin(), messages.as_array().end(), is_lost);
    if (any && !mentions(chat_template, kwargs, key)) {
      notes.push_back(fmt::format("{}the template does not render \"{}\"", kLostNote, key));
    }
  }
}

// The arguments are replaced in a copy, and the renderings of both decide which one stays.
void parse_arguments(Json& messages, const Json& kwargs, const ChatTemplate& chat_template,
                     bool may_be_broken, std::vector<std::string>& notes) {
  // Most conversations call no tool, and a copy is not free.
  if (std::none_of(messages.as_array().begin(), messages.as_array().end(), makes_calls)) return;
  Json parsed = messages;
  std::vector<std::string> quoted;  // the strings as a JSON filter writes them
  const auto parse = [&](size_t message, Json& call) {
    Json* function = call.find("function");
    Json* arguments =
        (function != nullptr && function->is_object() ? *function : call).find("arguments");
    // Only a string that begins as an object is meant as one; any other may be code.
    if (arguments == nullptr || !arguments->is_string() || !begins_object(arguments->as_string())) {
      return;
    }
    try {
      Json value = parse_json(arguments->as_string(), "arguments");
      quoted.push_back(dump_json(*arguments));
      quoted.push_back(dump_json(*arguments, {.ascii = true}));
      *arguments = std::move(value);
    } catch (const Error& error) {
      if (may_be_broken) return;
      const std::string name = call_name(call);
      throw RowRefusal("bad_arguments",
                       fmt::format("turn {} calls a tool{} with broken JSON: {}", message + 1,
                                   name.empty() ? "" : fmt::format(" \"{}\"", name), error.what()));
    }
  };
  for (size_t m = 0; m < parsed.size(); ++m) {
    Json& message = parsed.as_array()[m];
    Json* list = message.find(kCalls);
    if (list != nullptr && list->is_array()) {
      for (Json& call : list->as_array()) parse(m, call);
    }
    Json* old = message.find(kOldCall);
    if (old != nullptr && is_call(*old)) parse(m, *old);
  }
  if (quoted.empty()) return;
  const std::optional<std::string> text = try_render(messages, kwargs, chat_template);
  const bool spoilt = text ? std::any_of(quoted.begin(), quoted.end(),
                                         [&](const std::string& one) {
                                           return text->find(one) != std::string::npos;
                                         })
                           : try_render(parsed, kwargs, chat_template).has_value();
  if (!spoilt) return;
  messages = std::move(parsed);
  notes.push_back(
      "the arguments of tool calls are JSON text, and are read as objects: the template would "
      "quote the text");
}

void note_unmatched_results(const Json& messages, std::vector<std::string>& notes) {
  std::set<std::string> called, awaited, answered;
  bool has_unknown = false, has_unnamed = false;
  for (size_t m = 0; m < messages.size(); ++m) {
    const Json& message = messages.as_array()[m];
    for (const WrittenCall& call : calls_of(message)) {
      const std::string id = text_member(call.call, "id");
      if (id.empty()) continue;
      called.insert(id);
      // The last turn's calls wait for results that the row does not have.
      if (m + 1 < messages.size()) awaited.insert(id);
    }
    const std::string answers = text_member(message, "tool_call_id");
    if (answers.empty()) {
      has_unnamed |= is_result(message);
      continue;
    }
    has_unknown |= !called.contains(answers);
    answered.insert(answers);
  }
  if (has_unknown) {
    notes.push_back("a tool result has a \"tool_call_id\" that no earlier call has");
  }
  // A result without an id may answer any call.
  if (has_unnamed) return;
  if (std::any_of(awaited.begin(), awaited.end(),
                  [&](const std::string& id) { return !answered.contains(id); })) {
    notes.push_back("a tool call has no result, and the conversation goes on");
  }
}

}  // namespace xrun
