// The recipe's own objective is the function that its last step got. Before the first step no value
// tells which one that will be, so the recipe's tokens are read for the name that a call of `step`
// gets, and the paused frame for its value. A wrong name costs nothing: results show the name, and
// any function can be passed as an argument.

#include "lua/prompt/objective_verbs.h"

#include "core/base/error.h"
#include "core/config/lua_source.h"
#include "lua/bind/objective.h"
#include "lua/prompt/paused_run.h"
#include "lua/prompt/prompt_verbs.h"
#include "lua/state/args.h"

namespace xrun {

namespace {

// Returns the second of two names after the bracket or brackets at `at`: "dpo" of `(batch, dpo)`,
// "f" of `({ { a, f }`.
std::string second_name(const std::vector<LuaToken>& tokens, size_t at) {
  if (is_sign(tokens[at], "(")) ++at;
  const bool parts = is_sign(tokens[at], "{");
  if (parts && (at + 1 >= tokens.size() || !is_sign(tokens[at + 1], "{"))) return "";
  if (parts) at += 2;
  if (at + 3 >= tokens.size() || tokens[at].kind != LuaTokenKind::kName) return "";
  if (!is_sign(tokens[at + 1], ",") || tokens[at + 2].kind != LuaTokenKind::kName) return "";
  const LuaToken& next = tokens[at + 3];
  const bool closed = is_sign(next, parts ? "}" : ")") || is_sign(next, ",");
  return closed ? tokens[at + 2].text : "";
}

}  // namespace

// Returns "dpo" for adamw:step(batch, dpo) on or after a line; "" if no call names its objective.
std::string objective_name(std::string_view text, int from_line) {
  const std::vector<LuaToken> tokens = lex_lua(text);
  for (size_t i = 0; i + 2 < tokens.size(); ++i) {
    // The `step` of any object counts, since the text does not tell which name is an optimizer.
    if (tokens[i].line < from_line || !is_sign(tokens[i], ":")) continue;
    if (!is_name(tokens[i + 1], "step")) continue;
    std::string name = second_name(tokens, i + 2);
    if (!name.empty()) return name;
  }
  return "";
}

// `name` gets the name that the recipe has for the function, or "".
void push_objective(lua_State* L, PausedRun& paused, std::string* name) {
  *name = "";
  const FrameNames frame = paused.names();
  const std::shared_ptr<LuaRef> trained = paused.objective(name);
  if (trained == nullptr) {
    const std::string& text = paused.recipe().context().text.text;
    *name = objective_name(text, frame.line());
    // A step inside a function stands before the loop that calls it.
    if (name->empty()) *name = objective_name(text);
  }
  if (!name->empty() && frame.push(L, *name)) {
    if (lua_isfunction(L, -1)) return;
    lua_pop(L, 1);
  }
  name->clear();
  XRUN_CHECK(trained != nullptr,
             "no objective is given: no line of the recipe has adamw:step(batch, NAME), and no "
             "step of this loop has run here; pass the objective as an argument");
  trained->push(L);
}

namespace {

// The __tostring of a result.
int push_shown(lua_State* L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  return 1;
}

}  // namespace

void show_as(lua_State* L, std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  lua_newtable(L);
  push(L, text);
  // The text is an upvalue, so that the table has no field for it.
  lua_pushcclosure(L, push_shown, 1);
  lua_setfield(L, -2, "__tostring");
  lua_setmetatable(L, -2);
}

Objective objective_at(lua_State* L, PausedRun& paused, int i, const char* which,
                       std::string* name) {
  if (!lua_isnoneornil(L, i)) {
    *name = which;
    return lua_objective(L, i, which);
  }
  push_objective(L, paused, name);
  if (name->empty()) *name = "the recipe's";
  return lua_objective(L, lua_gettop(L), which);
}

namespace {

const PromptVerb kObjectiveVerbs[] = {
    {"compare",
     {{"f", "function"}, {"g?", "function"}},
     {"table"},
     "Losses, metrics and gradients of two objectives on the current batch, side by side, "
     "without an update: cosine and ratio of norms, over all weights and by kind of weight. One "
     "objective alone is compared with the recipe's own.",
     compare_verb},
    {"gradcheck",
     {{"f?", "function"}},
     {"table"},
     "Compares the gradient of an objective (by default the recipe's own) with central "
     "differences, in float64, of the log-probs that it receives, row by row of the current "
     "batch; names the worst row.",
     gradcheck_verb},
};

}  // namespace

std::span<const PromptVerb> objective_verbs() { return kObjectiveVerbs; }

}  // namespace xrun
