#pragma once
// Finds a recipe's config and every read of its keys in the text, without running it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/json.h"

namespace xrun {

// The largest recipe file that is read.
inline constexpr uint64_t kMostRecipeBytes = uint64_t{16} << 20;

// One literal of a config: a number, string, boolean, or a table of literals.
struct Literal {
  struct Entry;
  Json scalar;  // the value, unless it is a table
  bool is_table = false;
  std::vector<Entry> entries;  // in order; keys "1", "2", ... for list elements
  int line = 0;
  int source = 0;  // 0: the recipe, n: its n-th base
  // The origin of a value without a line: "dpo.xrb (dpo.lua:9)" for a bundle's, "default"; else "".
  std::string origin = {};

  bool is_list() const;  // true for a table whose entries are all list elements; {} is one
  const Literal* find(std::string_view key) const;
  Literal* find(std::string_view key);
};
struct Literal::Entry {
  std::string key;
  bool element = false;  // of a list; its key is its number
  Literal value;
};

// One `cfg.optim.lr` in the text.
struct ConfigRead {
  std::vector<std::string> path;
  int line = 0;
  bool assigned = false;  // `cfg.optim.lr = ...`
};

// A config that the recipe's config extends.
struct ConfigSource {
  std::string file, text;  // the text of a bundle is ""
};

// A base's value that a nearer one replaces.
struct ReplacedValue {
  std::string path;
  Literal value;
};

struct ScannedRecipe {
  std::string file = {};  // as the user gave it
  std::string text = {};
  std::string config_name = {};  // "cfg"; "" if the recipe has no `local cfg = xrun.config { ... }`
  int config_line = 0;
  Literal config = {};  // a table
  std::vector<ConfigRead> reads = {};
  // The recipe passes the whole config to something other than xrun.run, or indexes it by a
  // variable, so it may read keys that are not in `reads`.
  bool passed_on = false;
  // Filled by scan_with_bases, nearest base first.
  std::vector<ConfigSource> bases = {};
  std::vector<ReplacedValue> replaced = {};
};

// Scans a recipe's text. Throws UsageError "file:line: ..." with an excerpt for
//   a second config
//   a value that is not a literal
//   a key that is given twice
//   a table with both named keys and list elements
//   a missing comma between two entries
ScannedRecipe scan_recipe(std::string file, std::string text);

// Parses one Lua literal that spans the whole of `text`; nullopt if it is not one.
std::optional<Literal> parse_literal(std::string_view text);

// Returns a literal as JSON: a list as an array, another table as an object, {} as an empty array.
Json literal_json(const Literal& literal);

}  // namespace xrun
