// Reading a recipe's text without running it: its tokens lie inside the text, in order, and its
// config is literals or an Error.

#include "core/config/lua_source.h"

#include "core/base/error.h"
#include "core/config/config_scan.h"
#include "core/config/excerpt.h"
#include "tools/fuzz/fuzz_target.h"

namespace xrun {

void fuzz_lua_source(std::string_view input) {
  size_t end = 0;
  for (const LuaToken& token : lex_lua(input)) {
    fuzz_check(end <= token.begin && token.begin <= token.end && token.end <= input.size(),
               "a token overlaps the previous one or passes the end of the text");
    end = token.end;
    excerpt_of_byte(input, token.begin);
  }
  lua_names(input, true);
  with_lasting_locals(input);
  opens_block(input);
  open_bracket_before(input, 2);
  parse_literal(input);
  try {
    const ScannedRecipe recipe = scan_recipe("fuzzed.lua", std::string(input));
    literal_json(recipe.config);
  } catch (const Error&) {
  }
}

}  // namespace xrun
