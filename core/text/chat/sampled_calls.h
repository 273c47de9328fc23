#pragma once
// Tool calls in the text of a sampled turn, in the form in which the chat template writes them.

#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/text/chat/call_format.h"

namespace xrun {

// One call. A call that cannot be read has an error and an empty name.
struct SampledCall {
  std::string name;
  Json arguments = Json::object();
  std::string id = {};     // "" where the model wrote none
  std::string error = {};  // "" if the call is whole
};

// Further calls of a turn become one error: each costs memory, and no model needs that many.
inline constexpr size_t kMaxCalls = 64;

// Returns the calls of a turn in order. `text` has its special tokens, which some forms use, but
// not the one that ended the turn. Never throws for a model's text: bad JSON, an unclosed tag
// or a missing name becomes a call with an error.
//   tools  the tools of the prompt (kwargs.tools), or null. Forms without quotes cannot tell the
//          string "1" from the number 1: the value of a parameter of type "string" is a string, any
//          other value is read as JSON.
std::vector<SampledCall> parse_calls(std::string_view text, const CallFormat& format,
                                     const Json& tools = {});

// Returns {"name", "arguments", "id"} or {"error"} for each call, for an environment.
Json calls_json(const std::vector<SampledCall>& calls);

}  // namespace xrun
