#pragma once
// Tool calls in the text of a sampled turn, in the form in which the chat template writes them.

#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/text/chat/chat_template.h"

namespace xrun {

enum class CallFormat {
  kTagged,   // <tool_call>{"name": "f", "arguments": {}}</tool_call>: Hermes, Qwen2.5, Qwen3
  kLlama,    // {"name": "f", "parameters": {}} as the whole turn: Llama 3.1, 3.2
  kMistral,  // [TOOL_CALLS] and a JSON list, or a name and its JSON behind each [TOOL_CALLS]
  kUnknown,  // another form, which is not parsed
};

// Returns the form of a template, found by rendering a call. A template that writes no calls has
// kTagged: the form that a prompt most often asks for.
CallFormat call_format_of(const ChatTemplate& chat_template, const Json& kwargs);

// One call. A call that cannot be read has an error and an empty name.
struct SampledCall {
  std::string name;
  Json arguments = Json::object();
  std::string id = {};     // "" where the model wrote none
  std::string error = {};  // "" if the call is whole
};

// Calls of one turn beyond this are one error: each costs memory, and none is meant.
inline constexpr size_t kMostCalls = 64;

// Returns the calls of a turn in order. `text` has its special tokens, which some forms use, but
// not the one that ended the turn. Never throws for what a model wrote: bad JSON, an unclosed tag
// or a missing name become a call with an error. kUnknown has no calls.
std::vector<SampledCall> parse_calls(std::string_view text, CallFormat format);

// {"name", "arguments", "id"} or {"error"} for each call: what an environment reads.
Json calls_json(const std::vector<SampledCall>& calls);

}  // namespace xrun
