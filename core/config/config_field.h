#pragma once
// The engine's config keys, each declared once with type, default, range and doc. The checks, the
// defaults, `xrun explain`, docs/lua-api.md and the editors' stubs come from this declaration.

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"

namespace xrun {

// Defaults of settings that are also used without a configuration.
constexpr double kMaxBadShare = 0.5;       // max_bad
constexpr int64_t kMaxMicroTokens = 8192;  // batch.max_tokens
constexpr int64_t kFoldMin = 64;           // batch.fold_min
constexpr int64_t kSamples = 8;            // sampling.samples
constexpr int64_t kAnswerTokens = 128;     // sampling.max_tokens
constexpr int64_t kMaxTurns = 8;           // sampling.max_turns
constexpr double kCallDeadlineS = 10;      // sampling.deadline_s

enum class FieldKind {
  kText,
  kWhole,
  kNumber,
  kFlag,
  kTable,
  kFlagOrText,  // true, false or one of `choices`
  kFlagOrTable,
  kTextOrTable,
  kList,
  kNumbers,  // a list of numbers
  kTexts,    // a list of text
  kTextOrTexts,
  kRenames,  // name = "text"
  kFlags,    // name = true
};

struct ConfigField {
  std::string path;  // "optim.lr"; "data[].path" for every element of data
  FieldKind kind = FieldKind::kText;
  Json default_value;  // null: none, the key is then absent
  std::string doc;
  std::vector<std::string> foreign = {};  // its names in TRL, Transformers and Axolotl
  double least = -std::numeric_limits<double>::infinity();  // for a list, bounds its elements
  double most = std::numeric_limits<double>::infinity();
  bool above_least = false;               // least itself is excluded
  bool below_most = false;                // most itself is excluded
  std::vector<std::string> choices = {};  // for kText (empty: any) and kFlagOrText
  bool required = false;                  // if its table is given or read
  size_t elements = 0;                    // required length of a list; 0: any
  bool of_data_set = false;               // also an option of xrun.chat and the other openers
};

// All fields, each table before its members.
const std::vector<ConfigField>& config_fields();

// The field of a path whose list elements are numbers or "[]": "data.1.path", "data[].path".
// "valid.data.1.path" is found under "data[].path". nullptr if the engine has none.
const ConfigField* find_config_field(std::string_view path);

// Names of the fields directly inside `path` ("" for the top level).
std::vector<std::string> config_field_names(std::string_view path);

// The fields that xrun.chat and the other openers take as options, in place of the config's values.
std::vector<std::string> data_set_field_names();

// The default of the field at `path`; null if it has none.
Json default_value(std::string_view path);

// Adds the defaults of the fields inside the table at `path` that it leaves out, at every depth.
// Returns the paths of the scalars and lists it added.
std::vector<std::string> add_defaults(Json& table, const std::string& path);

// The keys of `batch` for the size of a step: a set has one, by the unit of its rows.
const std::vector<std::string>& batch_counts();

// Returns true if the names inside the field are the user's: { bos = false } or
// { prompt = "question" }.
bool takes_free_names(const ConfigField& field);

// The values that a field accepts: "a number above 0", "\"raise\", \"drop\" or \"cut\"".
std::string wanted_text(const ConfigField& field);

// The required members of an element of the list at `path`: "path = \"...\"" in braces; "" if its
// elements are not tables of the engine's.
std::string element_example(std::string_view path);

// The member of a table that a number or text in its place must have meant, the first one that
// takes it: "valid.fraction" for 0.2, "save.every" for 100; "" if there is none.
std::string meant_member(const ConfigField& table, const Json& value);

// Returns true if a value fits the field: type, range, choices.
bool fits(const ConfigField& field, const Json& value);

// Checks the value of `path` in a configuration ("data", "optim") and everything
// in it: names, types, ranges, required members. Throws UsageError "data.1.weight: got -1, wanted a
// number above 0", with did-you-mean for a name.
void check_fields(const Json& value, const std::string& path);

// Checks the table that run:steps takes: batch, with steps and epochs beside it. Throws as
// check_fields does.
void check_batch_fields(const Json& batch);

}  // namespace xrun
