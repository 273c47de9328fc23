#pragma once
// Calls whose arguments are literals, as LFM2 and Gemma 4 write them.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/json.h"

namespace xrun {

struct LiteralCall {
  std::string name;
  Json arguments = Json::object();
};

// Parses one call, or a list of them in brackets: f(a=1, b='x'), or f{a:1,b:<|"|>x<|"|>}. Literals
// are those of Python or JSON, or strings in <|"|>; a key may be bare. Stops after max_calls.
// Throws Error, which says what is wrong.
std::vector<LiteralCall> parse_literal_calls(std::string_view text, size_t max_calls);

}  // namespace xrun
