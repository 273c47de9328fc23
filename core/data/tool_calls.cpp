#include "core/data/tool_calls.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "core/data/ledger.h"
#include "core/text/template_laws.h"

namespace xrun {

namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// The name that a call gives its tool; "" if it has none that can be looked for.
std::string call_name(const Json& call) {
  const Json* function = call.find("function");
  const Json* name = (function != nullptr && function->is_object() ? *function : call).find("name");
  if (name == nullptr || !name->is_string()) return "";
  const std::string& text = name->as_string();
  const auto is_plain = [](char c) { return is_word(c) || c == '-' || c == '.'; };
  return std::all_of(text.begin(), text.end(), is_plain) ? text : "";
}

// How often a name stands in a text, as a word of its own.
size_t count_word(std::string_view text, std::string_view name) {
  const auto is_part = [&](size_t at) { return at < text.size() && is_word(text[at]); };
  size_t count = 0;
  for (size_t at = 0; (at = text.find(name, at)) != std::string_view::npos; at += name.size()) {
    if ((at == 0 || !is_part(at - 1)) && !is_part(at + name.size())) ++count;
  }
  return count;
}

bool mentions(const ChatTemplate& chat_template, const Json& kwargs, const char* word) {
  return chat_template.chosen(kwargs).source().find(word) != std::string::npos;
}

}  // namespace

const Json* calls_of(const Json& message) {
  const Json* calls = message.find("tool_calls");
  return calls != nullptr && calls->is_array() && calls->size() > 0 ? calls : nullptr;
}

void require_calls(const Json& messages, const Json& kwargs, const ChatTemplate& chat_template,
                   std::string_view rendered) {
  const bool knows_calls = mentions(chat_template, kwargs, "tool_calls");
  std::map<std::string, size_t> rendered_names;  // that no call was found for yet
  for (size_t m = 0; m < messages.size(); ++m) {
    const Json* calls = calls_of(messages.as_array()[m]);
    if (calls == nullptr) continue;
    for (const Json& call : calls->as_array()) {
      const std::string name = call_name(call);
      if (knows_calls && name.empty()) continue;
      const auto [left, is_new] = rendered_names.try_emplace(name, 0);
      if (is_new && knows_calls) left->second = count_word(rendered, name);
      if (left->second > 0) {
        --left->second;
        continue;
      }
      throw RowRefusal(
          "lost_tool_calls",
          fmt::format("turn {} calls a tool{}, and the template leaves the call out; name a "
                      "template that renders calls, or accept it: laws = {{ {} = false }}",
                      m + 1, name.empty() ? "" : fmt::format(" \"{}\"", name), kToolCallsLaw));
    }
  }
}

void note_unrendered_tools(const Json& messages, const Json& kwargs,
                           const ChatTemplate& chat_template, std::vector<std::string>& notes) {
  const Json* tools = kwargs.find("tools");
  if (tools != nullptr && tools->size() > 0 && !mentions(chat_template, kwargs, "tools")) {
    notes.push_back("LOST: the template does not render \"tools\"");
  }
  const bool calls = std::any_of(messages.as_array().begin(), messages.as_array().end(),
                                 [](const Json& message) { return calls_of(message) != nullptr; });
  if (calls && !mentions(chat_template, kwargs, "tool_calls")) {
    notes.push_back("LOST: the template does not render \"tool_calls\"");
  }
}

}  // namespace xrun
