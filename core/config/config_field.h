#pragma once
// The config keys of the engine, each declared once with type, default, range and doc. The checks,
// the defaults, `xrun explain`, docs/lua-api.md and the editors' stubs come from the declarations.

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
  bool required = false;                  // must be set if its table is given or read
  size_t elements = 0;                    // required length of a list; 0: any
  bool of_data_set = false;               // also an option of the openers, such as xrun.chat
};

// All fields, each table before its members.
const std::vector<ConfigField>& config_fields();

// Returns the field of a path, or nullptr if the engine has none. List elements in the path are
// numbers or "[]": "data.1.path", "data[].path". The fields of valid.data[] are those of data[].
const ConfigField* find_config_field(std::string_view path);

// Returns the names of the fields directly inside `path` ("" for the top level).
std::vector<std::string> config_field_names(std::string_view path);

// Returns the paths of the fields that the openers, such as xrun.chat, take as options in place of
// the config's values.
std::vector<std::string> data_set_field_names();

// Returns the default of the field at `path`; null if it has none.
Json default_value(std::string_view path);

// Adds to the table at `path` the defaults of the fields that it leaves out, at every depth.
// Returns the paths of the scalars and lists that it added.
std::vector<std::string> add_defaults(Json& table, const std::string& path);

// Returns the keys of `batch` that set the size of a step; the unit of the rows decides which one.
const std::vector<std::string>& batch_counts();

// Returns true if the user chooses the names inside the field: { bos = false } or
// { prompt = "question" }.
bool takes_free_names(const ConfigField& field);

// Returns the values that a field accepts, for messages: "a number above 0", "\"raise\", \"drop\"
// or \"cut\"".
std::string wanted_text(const ConfigField& field);

// Returns an example of a list element with its required members, for the elements at `path`
// ("data[]"): "{ path = \"...\" }"; "" if none is required.
std::string element_example(std::string_view path);

// Returns the member that the user probably meant by giving a number or text for a table, the first
// one that the value fits: "valid.fraction" for 0.2, "save.every" for 100; "" if there is none.
std::string meant_member(const ConfigField& table, const Json& value);

// Returns true if a value fits the field: type, range, choices.
bool fits(const ConfigField& field, const Json& value);

// Checks the value of `path` in a configuration ("data", "optim") and everything in it: names,
// types, ranges, required members. Throws UsageError, such as "data.1.weight: got -1, wanted a
// number above 0"; for an unknown name it proposes the name that was probably meant.
void check_fields(const Json& value, const std::string& path);

// Checks the table that run:steps takes: batch, with steps and epochs beside it. Throws as
// check_fields does.
void check_batch_fields(const Json& batch);

}  // namespace xrun
