#include "lua/prompt/named_objective.h"

#include <vector>

#include "core/base/error.h"
#include "core/config/lua_source.h"
#include "lua/prompt/paused_run.h"

namespace xrun {

namespace {

using Kind = LuaToken::Kind;

// The second of two names behind the bracket or brackets at `at`: of `(batch, dpo)`, `({ { a, f }`.
std::string second_name(const std::vector<LuaToken>& tokens, size_t at) {
  if (is_sign(tokens[at], "(")) ++at;
  const bool parts = is_sign(tokens[at], "{");
  if (parts && (at + 1 >= tokens.size() || !is_sign(tokens[at + 1], "{"))) return "";
  if (parts) at += 2;
  if (at + 3 >= tokens.size() || tokens[at].kind != Kind::kName) return "";
  if (!is_sign(tokens[at + 1], ",") || tokens[at + 2].kind != Kind::kName) return "";
  const LuaToken& next = tokens[at + 3];
  const bool closed = is_sign(next, parts ? "}" : ")") || is_sign(next, ",");
  return closed ? tokens[at + 2].text : "";
}

}  // namespace

std::string objective_name(std::string_view text, int from_line) {
  const std::vector<LuaToken> tokens = lex_lua(text);
  for (size_t i = 0; i + 2 < tokens.size(); ++i) {
    if (tokens[i].line < from_line || !is_sign(tokens[i], ":")) continue;
    if (tokens[i + 1].kind != Kind::kName || tokens[i + 1].text != "step") continue;
    std::string name = second_name(tokens, i + 2);
    if (!name.empty()) return name;
  }
  return "";
}

void push_objective(lua_State* L, PausedRun& paused, std::string* name) {
  *name = "";
  const FrameNames frame = paused.names();
  const std::shared_ptr<LuaRef> trained = paused.objective(name);
  if (trained == nullptr) {
    const std::string& text = paused.recipe().context().text.text;
    *name = objective_name(text, frame.line());
    // A step in a function stands before the loop that calls it.
    if (name->empty()) *name = objective_name(text);
  }
  if (!name->empty() && frame.push(L, *name)) {
    if (lua_isfunction(L, -1)) return;
    lua_pop(L, 1);
  }
  name->clear();
  XRUN_CHECK(trained != nullptr,
             "which objective? no line reads adamw:step(batch, NAME), and no step of this loop has "
             "run here; name it");
  trained->push(L);
}

}  // namespace xrun
