// Finds `local NAME = MODULE.config { ... }`, parses the table as literals, and records every
// `NAME.key` in the rest of the text. Nothing is run.

#include "core/config/config_scan.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/config/excerpt.h"
#include "core/config/lua_source.h"
#include "core/config/wide_signs.h"

namespace xrun {
namespace {

// As deep as any config that people write; it bounds the recursion.
constexpr int kDeepest = 32;

// Walks the tokens of a recipe.
class RecipeScanner {
 public:
  RecipeScanner(const std::vector<LuaToken>& tokens, const ScannedRecipe& recipe)
      : tokens_(tokens), recipe_(recipe) {}

  size_t at = 0;

  const LuaToken& now(size_t ahead = 0) const {
    // The last token is the end of the file; further reads return it again.
    return tokens_[std::min(at + ahead, tokens_.size() - 1)];
  }
  bool sign(std::string_view text, size_t ahead = 0) const { return is_sign(now(ahead), text); }
  bool name(std::string_view text, size_t ahead = 0) const { return is_name(now(ahead), text); }

  Literal literal(const std::string& path, int depth) {
    Literal read;
    read.line = now().line;
    if (sign("{")) {
      if (depth > kDeepest) fail(path, "tables are nested too deep");
      table(read, path, depth);
      // Depth 0 is the table after config, where the recipe continues, or the value of --set.
      if (depth > 0) check_separator(path);
      return read;
    }
    // Lua has no negative literals, so the lexer gives the minus sign as its own token.
    const bool minus = sign("-");
    if (minus) ++at;
    if (now().kind == LuaTokenKind::kNumber) {
      const double value = minus ? -now().number : now().number;
      // Lua 5.1 has only doubles: beyond 2^53 a whole number may not be the one in the text.
      const bool whole = std::floor(value) == value && std::fabs(value) <= 9007199254740992.0;
      read.scalar = whole ? Json(static_cast<int64_t>(value)) : Json(value);
    } else if (!minus && now().kind == LuaTokenKind::kString) {
      read.scalar = Json(now().text);
    } else if (!minus && (name("true") || name("false"))) {
      read.scalar = Json(name("true"));
    } else {
      not_literal(path);
    }
    ++at;
    check_separator(path);
    return read;
  }

 private:
  [[noreturn]] void fail(const std::string& path, const std::string& what) const {
    const size_t dot = path.rfind('.');
    throw UsageError(fmt::format(
        "{}:{}: {}{}{}", recipe_.file, now().line, path.empty() ? "" : "`" + path + "`: ", what,
        excerpt_of_word(recipe_.text, now().line,
                        dot == std::string::npos ? path : path.substr(dot + 1))));
  }

  // People write expressions out of habit, so the message says why one is not allowed.
  [[noreturn]] void not_literal(const std::string& path) const {
    if (name("nil")) fail(path, "leave a key out instead of setting it to nil");
    // After = a # is the length operator.
    if (sign("#") && at > 0 && !is_sign(tokens_[at - 1], "=")) {
      fail("#", "a comment in Lua begins with --");
    }
    const std::string habit = habit_hint();
    if (!habit.empty()) fail(path, habit);
    const std::string got = now().kind == LuaTokenKind::kEnd   ? "the end of the file"
                            : now().kind == LuaTokenKind::kBad ? now().text
                                                               : "`" + now().text + "`";
    fail(path,
         "config values are literals (a number, text, true, false, a table of them), so that "
         "they can be read without running the recipe; got " +
             got + quotes_hint());
  }

  // Returns "`，` (U+FF0C) is not ASCII; write ," for such a token, else "".
  std::string full_width(size_t ahead) const {
    return wide_sign_hint(std::string_view(recipe_.text).substr(now(ahead).begin), "=");
  }

  // Returns the fix for a value written as in Python or JSON, or with full-width signs; else "".
  std::string habit_hint() const {
    for (const size_t ahead : {size_t{0}, size_t{1}}) {
      if (std::string hint = full_width(ahead); !hint.empty()) return hint;
    }
    if (name("True") || name("False")) {
      return name("True") ? "Lua writes true" : "Lua writes false";
    }
    if (name("None") || name("null")) return "leave a key out instead of setting it to nothing";
    if (sign("[")) return "a list is written with braces: { 0.9, 0.999 }";
    return "";
  }

  // Returns the fix for an entry that starts with a key as in Python or JSON, `beta: 0.1`,
  // `"beta": 0.1` or `"beta" = 0.1`; else "".
  std::string key_hint() const {
    const bool text = now().kind == LuaTokenKind::kString;
    const bool colon = sign(":", 1), equals = text && sign("=", 1);
    if (!(text && (colon || equals)) && !(now().kind == LuaTokenKind::kName && colon)) return "";
    const std::string& key = now().text;
    const std::string quote = text ? "\"" : "";
    constexpr std::string_view kOfNames =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    const bool name = !key.empty() && key.find_first_not_of(kOfNames) == std::string::npos &&
                      !(key[0] >= '0' && key[0] <= '9');
    return fmt::format("write {} = VALUE, not {}{}{}{} VALUE", name ? key : "[\"" + key + "\"]",
                       quote, key, quote, colon ? ":" : " =");
  }

  // Returns the fix for a lone name, which is probably text without its quotes; else "".
  std::string quotes_hint() const {
    if (now().kind != LuaTokenKind::kName) return "";
    const bool alone = sign(",", 1) || sign(";", 1) || sign("}", 1);
    const bool path = sign("/", 1) || sign("-", 1);
    if (alone) return fmt::format("; text needs quotes: \"{}\"", now().text);
    return path ? "; text needs quotes" : "";
  }

  // Checks that a value is followed by a separator or the end of the table. A token that could
  // begin the next entry means that the comma is missing; any other one continues an expression.
  void check_separator(const std::string& path) const {
    if (sign(",") || sign(";") || sign("}") || now().kind == LuaTokenKind::kEnd) return;
    // `and` and `or` continue an expression, other names begin an entry.
    const bool next_entry = (now().kind == LuaTokenKind::kName && !name("and") && !name("or")) ||
                            now().kind == LuaTokenKind::kNumber ||
                            now().kind == LuaTokenKind::kString || sign("{") || sign("[");
    if (!next_entry) not_literal(path);
    // The error is at the end of the value, since the next entry may be some lines below.
    const size_t end = tokens_[at - 1].end;
    const auto line = 1 + std::count(recipe_.text.begin(), recipe_.text.begin() + end, '\n');
    throw UsageError(fmt::format("{}:{}: a comma is missing after `{}`{}", recipe_.file, line, path,
                                 excerpt_of_byte(recipe_.text, end)));
  }

  // Reads named keys or a list; Lua allows both in one table, JSON does not.
  void table(Literal& read, const std::string& path, int depth) {
    read.is_table = true;
    ++at;
    int elements = 0;
    while (!sign("}")) {
      if (now().kind == LuaTokenKind::kEnd) fail(path, "the table never ends");
      Literal::Entry entry;
      const LuaToken first = now();
      // NAME = ..., then ["NAME"] = ..., else an element.
      if (now().kind == LuaTokenKind::kName && sign("=", 1)) {
        entry.key = now().text;
        at += 2;
      } else if (sign("[") && now(1).kind == LuaTokenKind::kString && sign("]", 2) &&
                 sign("=", 3)) {
        entry.key = now(1).text;
        at += 4;
      } else if (sign("[")) {
        fail(path, "a key is a name or a string");
      } else {
        std::string hint = key_hint();
        // beta：0.1
        if (hint.empty() && now().kind == LuaTokenKind::kName) hint = full_width(1);
        if (!hint.empty()) {
          fail(path.empty() ? first.text : path + "." + first.text, hint);
        }
        entry.element = true;
        entry.key = std::to_string(++elements);
      }
      const std::string inner = path.empty() ? entry.key : path + "." + entry.key;
      if (const Literal* twice = read.find(entry.key)) {
        fail(inner, fmt::format("the key is given twice; the first is in line {}", twice->line));
      }
      entry.value = literal(inner, depth + 1);
      // The line of the key; literal() has set that of the value, which may be below it.
      entry.value.line = first.line;
      read.entries.push_back(std::move(entry));
      // Checked at each entry, so that the error is at the first one that mixes the forms.
      if (elements > 0 && elements != static_cast<int>(read.entries.size())) {
        fail(path, "a table has either named keys or a list, not both");
      }
      if (sign(",") || sign(";")) ++at;
    }
    ++at;
  }

  const std::vector<LuaToken>& tokens_;
  const ScannedRecipe& recipe_;
};

// Returns the number of tokens before the brace at `local NAME = MODULE.config {` and at
// `... MODULE.config({`, else 0.
size_t config_starts(const RecipeScanner& reader) {
  const bool head = reader.name("local") && reader.now(1).kind == LuaTokenKind::kName &&
                    reader.sign("=", 2) && reader.now(3).kind == LuaTokenKind::kName &&
                    reader.sign(".", 4) && reader.name("config", 5);
  if (!head) return 0;
  if (reader.sign("{", 6)) return 6;
  return reader.sign("(", 6) && reader.sign("{", 7) ? 7 : 0;
}

// Records the read at the config's name. Returns false if no key follows the name.
bool record_read(RecipeScanner& reader, ScannedRecipe& recipe) {
  // After the name: any chain of .key and ["key"].
  ConfigRead read{.path = {}, .line = reader.now().line};
  ++reader.at;
  for (;;) {
    if (reader.sign(".") && reader.now(1).kind == LuaTokenKind::kName) {
      read.path.push_back(reader.now(1).text);
      reader.at += 2;
    } else if (reader.sign("[") && reader.now(1).kind == LuaTokenKind::kString &&
               reader.sign("]", 2)) {
      read.path.push_back(reader.now(1).text);
      reader.at += 3;
    } else {
      break;
    }
  }
  read.assigned = reader.sign("=");
  // The config as a whole, such as an argument, reads no key.
  if (read.path.empty()) return false;
  recipe.reads.push_back(std::move(read));
  return true;
}

}  // namespace

// An empty table is both a list and an object.
bool Literal::is_list() const {
  for (const Entry& entry : entries) {
    if (!entry.element) return false;
  }
  return is_table;
}

const Literal* Literal::find(std::string_view key) const {
  for (const Entry& entry : entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

Literal* Literal::find(std::string_view key) {
  return const_cast<Literal*>(std::as_const(*this).find(key));
}

// Tokens, not lines: comments and strings cannot be mistaken for code.
ScannedRecipe scan_recipe(std::string file, std::string text) {
  ScannedRecipe recipe;
  recipe.file = std::move(file);
  recipe.text = std::move(text);
  const std::vector<LuaToken> tokens = lex_lua(recipe.text);
  RecipeScanner reader(tokens, recipe);
  while (reader.now().kind != LuaTokenKind::kEnd) {
    if (const size_t skip = config_starts(reader)) {
      const int line = reader.now().line;
      if (!recipe.config_name.empty()) {
        throw UsageError(fmt::format("{}:{}: a second config; the first is in line {}{}",
                                     recipe.file, line, recipe.config_line,
                                     excerpt_of_word(recipe.text, line, "config")));
      }
      recipe.config_name = reader.now(1).text;
      recipe.config_line = line;
      reader.at += skip;
      recipe.config = reader.literal("", 0);
      continue;
    }
    // `run.cfg` is a field of run, not the config.
    const bool field = reader.at > 0 &&
                       (is_sign(tokens[reader.at - 1], ".") || is_sign(tokens[reader.at - 1], ":"));
    if (!recipe.config_name.empty() && !field && reader.name(recipe.config_name)) {
      // xrun.run(cfg, ...)
      const bool to_run = reader.at >= 3 && is_sign(tokens[reader.at - 1], "(") &&
                          is_name(tokens[reader.at - 2], "run") &&
                          is_sign(tokens[reader.at - 3], ".");
      if (!record_read(reader, recipe) && !to_run) recipe.passed_on = true;
    } else {
      ++reader.at;
    }
  }
  return recipe;
}

// --set takes text that is not a Lua literal as plain text.
std::optional<Literal> parse_literal(std::string_view text) {
  ScannedRecipe recipe{.file = "--set", .text = std::string(text)};
  const std::vector<LuaToken> tokens = lex_lua(text);
  RecipeScanner reader(tokens, recipe);
  try {
    Literal read = reader.literal("", 0);
    // `1, 2` ends at its comma: text, not a literal.
    if (reader.now().kind != LuaTokenKind::kEnd) return std::nullopt;
    return read;
  } catch (const UsageError&) {
    return std::nullopt;
  }
}

Json literal_json(const Literal& literal) {
  if (!literal.is_table) return literal.scalar;
  Json value = literal.is_list() ? Json::array() : Json::object();
  for (const Literal::Entry& entry : literal.entries) {
    if (literal.is_list()) {
      value.push_back(literal_json(entry.value));
    } else {
      value.set(entry.key, literal_json(entry.value));
    }
  }
  return value;
}

}  // namespace xrun
