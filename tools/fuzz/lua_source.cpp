// A recipe's text, read without running it: tokens that lie inside the text in order, and a config
// that is an Error or literals.

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
               "a token is not after the one before it");
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
