// A probe that the stock template refuses decides nothing: only answers that both render count.

#include "core/text/chat/template_probes.h"

#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace xrun {

namespace {

// A template that refuses most probes could agree with any other on the rest.
constexpr int kWantedAnswers = 4;

// Plain turns, system turns, white space, tools, calls, thoughts, content lists, open turns.
// Answers that a rendering must contain are "xyzzy".
constexpr std::string_view kProbes = R"json([
{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "xyzzy"}]},
{"messages": [{"role": "user", "content": "\n q "}, {"role": "assistant", "content": " xyzzy\n"}]},
{"messages": [{"role": "user", "content": "q"}], "add_generation_prompt": true},
{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "xyzzy"},
  {"role": "user", "content": "r"}], "add_generation_prompt": true},
{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"},
  {"role": "user", "content": "r"}, {"role": "assistant", "content": "xyzzy"}]},
{"messages": [{"role": "user", "content": ""}, {"role": "assistant", "content": ""}]},
{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"},
  {"role": "assistant", "content": "xyzzy"}]},
{"messages": [{"role": "system", "content": " s\n"}, {"role": "user", "content": "q"},
  {"role": "assistant", "content": "a"}, {"role": "user", "content": "r"},
  {"role": "assistant", "content": "xyzzy"}]},
{"messages": [{"role": "system", "content": ""}, {"role": "user", "content": "q"},
  {"role": "assistant", "content": "xyzzy"}]},
{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}],
  "add_generation_prompt": true},
{"messages": [{"role": "user", "content": "q"}, {"role": "system", "content": "s"},
  {"role": "user", "content": "r"}, {"role": "assistant", "content": "xyzzy"}]},
{"messages": [{"role": "user", "content": "q"},
  {"role": "assistant", "content": "<think>\nt\n</think>\n\nxyzzy"},
  {"role": "user", "content": "r"},
  {"role": "assistant", "content": "<think>u</think>xyzzy"}]},
{"messages": [{"role": "user", "content": "q"},
  {"role": "assistant", "content": "xyzzy", "reasoning_content": "t\n"},
  {"role": "user", "content": "r"},
  {"role": "assistant", "content": "b", "reasoning_content": "u"}]},
{"messages": [{"role": "user", "content": "q"}], "add_generation_prompt": true,
  "enable_thinking": false},
{"messages": [{"role": "user", "content": "q"}], "add_generation_prompt": true,
  "enable_thinking": true},
{"messages": [{"role": "user", "content": [{"type": "text", "text": " q"}]},
  {"role": "assistant", "content": [{"type": "text", "text": "xyzzy"}]}]},
{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "xyzzy"}],
  "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {
  "type": "object", "properties": {"x": {"type": "integer", "description": "e"}},
  "required": ["x"]}}}]},
{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "q"},
  {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "id": "abcdef123",
  "function": {"name": "f", "arguments": {"x": 1, "y": "z"}}}]},
  {"role": "tool", "name": "f", "content": "y", "tool_call_id": "abcdef123"},
  {"role": "assistant", "content": "xyzzy"}],
  "tools": [{"type": "function", "function": {"name": "f", "description": "d",
  "parameters": {"type": "object", "properties": {}}}}]},
{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "xyzzy",
  "tool_calls": [{"type": "function", "id": "abcdef123", "function": {"name": "f",
  "arguments": "{\"x\": 1}"}}, {"type": "function", "id": "abcdef124", "function": {"name": "g",
  "arguments": "{}"}}]}, {"role": "tool", "content": "y", "tool_call_id": "abcdef123"},
  {"role": "tool", "content": "z", "tool_call_id": "abcdef124"}], "add_generation_prompt": true},
{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "tool_calls": [
  {"type": "function", "id": "abcdef123", "function": {"name": "f", "arguments": {}}}]},
  {"role": "tool", "content": "y", "tool_call_id": "abcdef123"}]},
{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "xyzzy"}],
  "documents": [{"title": "t", "text": "b"}]}
])json";

struct Probe {
  Json messages;
  Json kwargs = Json::object();
};

std::vector<Probe> read_probes() {
  std::vector<Probe> probes;
  const Json rows = parse_json(kProbes, "probes");
  for (const Json& row : rows.as_array()) {
    Probe& probe = probes.emplace_back();
    for (const auto& [key, value] : row.as_object()) {
      if (key == "messages") {
        probe.messages = value;
      } else {
        probe.kwargs.set(key, value);
      }
    }
  }
  return probes;
}

const std::vector<Probe>& probes() {
  // Parsed once: every template that is opened is compared on them.
  static const std::vector<Probe> all = read_probes();
  return all;
}

// Returns the text, or nothing if the template refuses; `refusal` is then its message.
std::optional<std::string> rendered(const ChatTemplate& chat_template, const Probe& probe,
                                    std::string* refusal = nullptr) {
  try {
    return chat_template.render(probe.messages, probe.kwargs).text;
  } catch (const Error& error) {
    if (refusal != nullptr) *refusal = error.what();
    return {};
  }
}

}  // namespace

bool renders_alike(const ChatTemplate& stock, const ChatTemplate& marked) {
  int answers = 0;
  for (const Probe& probe : probes()) {
    const std::optional<std::string> wanted = rendered(stock, probe);
    if (!wanted) continue;
    if (rendered(marked, probe) != wanted) return false;
    // A rendering without the answer is no evidence: two templates that drop turns agree easily.
    if (wanted->find("xyzzy") != std::string::npos) ++answers;
  }
  return answers >= kWantedAnswers;
}

std::optional<std::string> refusal_of_probes(const ChatTemplate& chat_template) {
  std::string first, refusal;
  for (const Probe& probe : probes()) {
    // One rendered probe is enough: the template works with this tokenizer.
    if (rendered(chat_template, probe, &refusal)) return {};
    if (first.empty()) first = refusal;
  }
  return first;
}

}  // namespace xrun
