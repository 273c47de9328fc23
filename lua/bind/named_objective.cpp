#include "lua/bind/named_objective.h"

#include <cctype>

#include "core/base/error.h"
#include "lua/bind/stepper.h"

namespace xrun {

namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// The end of the blanks from `at` on.
size_t past_blanks(std::string_view text, size_t at) {
  return std::min(text.find_first_not_of(" \t\n", at), text.size());
}

size_t past_word(std::string_view text, size_t at) {
  while (at < text.size() && is_word(text[at])) ++at;
  return at;
}

// The second argument of the call whose first begins at `at`, if both are plain names.
std::string second_name(std::string_view text, size_t at) {
  at = past_blanks(text, past_word(text, past_blanks(text, at)));
  if (at >= text.size() || text[at] != ',') return "";
  at = past_blanks(text, at + 1);
  const size_t end = past_word(text, at);
  const size_t next = past_blanks(text, end);
  const bool closed = next < text.size() && (text[next] == ')' || text[next] == ',');
  return closed ? std::string(text.substr(at, end - at)) : "";
}

}  // namespace

std::string objective_name(std::string_view text) {
  constexpr std::string_view kCall = ":step(";
  for (size_t at = text.find(kCall); at != text.npos; at = text.find(kCall, at + 1)) {
    std::string name = second_name(text, at + kCall.size());
    if (!name.empty()) return name;
  }
  return "";
}

void push_objective(lua_State* L, Stepper& stepper, std::string* name) {
  *name = objective_name(stepper.recipe().context().text.text);
  if (!name->empty() && stepper.names().push(L, *name)) {
    if (lua_isfunction(L, -1)) return;
    lua_pop(L, 1);
  }
  name->clear();
  const auto& objectives = stepper.session().objectives;
  XRUN_CHECK(!objectives.empty(),
             "which objective? no line reads adamw:step(batch, NAME), and no step has run here; "
             "name it");
  objectives.front()->push(L);
}

}  // namespace xrun
