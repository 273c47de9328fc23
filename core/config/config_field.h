#pragma once
// The engine's own config keys: each declared once, with type, default, range and doc.

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"

namespace xrun {

enum class FieldKind {
  kText,
  kWhole,
  kNumber,
  kFlag,
  kTable,
  kFlagOrTable,
  kList,
  kNumbers,  // a list of numbers
  kTexts,    // a list of text
  kRenames,  // name = "text"
  kFlags,    // name = true
};

struct ConfigField {
  std::string path;  // "optim.lr"; "data[].path" for every element of data
  FieldKind kind = FieldKind::kText;
  Json otherwise;  // the default; null: none, the key is then absent
  std::string doc;
  double least = -std::numeric_limits<double>::infinity();  // of a list: of its elements
  double most = std::numeric_limits<double>::infinity();
  bool above_least = false;               // least itself is out
  bool below_most = false;                // most itself is out
  std::vector<std::string> choices = {};  // of kText; empty: any
  bool required = false;                  // if the table around it is given or read
  size_t elements = 0;                    // of a list: how many there must be; 0: any number
};

// All fields, tables before what they hold.
const std::vector<ConfigField>& config_fields();

// The field of a path whose list elements are numbers or "[]": "data.1.path", "data[].path".
// "valid.data.1.path" is found under "data[].path". nullptr if the engine has none.
const ConfigField* find_config_field(std::string_view path);

// Names of the fields directly inside `path` ("" for the top level), for did-you-mean.
std::vector<std::string> config_field_names(std::string_view path);

// The keys of `batch` that say how much a step takes: one for a set, by what its rows are counted
// in.
const std::vector<std::string>& batch_counts();

// Whether the names inside the field are the user's: { bos = false }, { prompt = "question" }.
bool takes_free_names(const ConfigField& field);

// "a number above 0", "\"raise\", \"drop\" or \"cut\"": what a field wants.
std::string wanted_text(const ConfigField& field);

// What an element of the list at `path` must hold at least: "{ path = \"...\" }"; "" if elements
// are no tables of the engine's.
std::string element_example(std::string_view path);

// Whether a value fits the field (type, range, choices).
bool fits(const ConfigField& field, const Json& value);

}  // namespace xrun
