// A column is read under its own name or under the one that `fields` gives it, never under both. A
// column that is neither read nor an extra column is noted for each row. row_fields_refusal.cpp
// explains a row whose columns are not as wanted.

#include "core/data/rows/row_fields.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/base/strings.h"
#include "core/data/rows/drop_reasons.h"
#include "core/data/rows/ledger.h"
#include "core/data/rows/missing_column.h"
#include "core/data/rows/row_formats.h"

namespace xrun {

namespace {

constexpr int64_t kExactInteger = int64_t{1} << 53;  // numbers are stored as doubles
// Fields and Lua methods of batches and views: a column of such a name would replace the field or
// be hidden by the method.
const std::vector<std::string> kBatchFields = {
    "advantage",   "all",       "chosen",          "chunk_sum",
    "close",       "group",     "group_sum",       "label",
    "length",      "mean",      "micro_count",     "mismatched",
    "old_logprob", "pair",      "rejected",        "reward",
    "row",         "row_count", "sampler_logprob", "set_field",
    "size",        "source",    "spread",          "step",
    "sum",         "tokens",    "total_steps",     "truncated_ratio",
    "weight"};

// True for a whole number that a double does not hold exactly.
bool is_beyond_exact(const Json& number) {
  if (number.is_int()) return number.as_int() > kExactInteger || number.as_int() < -kExactInteger;
  const double value = number.as_double();
  return std::floor(value) == value && std::fabs(value) > static_cast<double>(kExactInteger);
}

}  // namespace

RowFields::RowFields(RowKind kind, std::vector<std::string> ours, const RowSettings& settings)
    : kind_(kind),
      ours_(std::move(ours)),
      fields_(settings.fields),
      keep_(settings.keep),
      config_path_(settings.config_path) {
  for (const auto& [name, theirs] : fields_) {
    if (has_name(ours_, name)) continue;
    const std::string near = nearest_name(name, ours_);
    throw UsageError(fmt::format("data.fields has \"{}\"{}; the fields of a {} row are {}", name,
                                 near.empty() ? "" : fmt::format(", did you mean \"{}\"?", near),
                                 row_kind_name(kind_), fmt::join(ours_, ", ")));
  }
  for (const std::string& name : keep_) {
    if (!has_name(kBatchFields, name)) continue;
    throw UsageError(fmt::format(
        "data.keep has \"{0}\", which is a field of every batch; keep the column under another "
        "name: map = function(row) row.my_{0} = row.{0} return row end",
        name));
  }
  for (auto name = keep_.begin(); name != keep_.end(); ++name) {
    if (std::find(keep_.begin(), name, *name) == name) continue;
    throw UsageError(fmt::format("data.keep names \"{}\" twice; once is enough", *name));
  }
}

std::string RowFields::spelled(const std::string& ours) const {
  for (const auto& [name, theirs] : fields_) {
    if (name == ours) return theirs;
  }
  // A column of weights is read only if `fields` names it.
  return ours == "weight" ? "" : ours;
}

const Json* RowFields::find(const Json& row, const std::string& ours) const {
  const std::string name = spelled(ours);
  const bool taken =
      name == ours && std::any_of(fields_.begin(), fields_.end(), [&](const auto& one) {
        return one.second == ours && one.first != ours;
      });
  if (taken) return nullptr;
  const Json* value = name.empty() ? nullptr : row.find(name);
  // In tables a row without a value has null.
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::string RowFields::text(const Json& row, const std::string& ours) const {
  const Json* value = find(row, ours);
  if (value == nullptr) return "";
  if (!value->is_string()) {
    throw RowRefusal("wrong_type", fmt::format("\"{}\" is {}, wanted a string", spelled(ours),
                                               kind_text(*value)));
  }
  return value->as_string();
}

void RowFields::require_object(const Json& row) {
  if (row.is_object()) return;
  std::string hint;
  if (row.is_array() && row.size() > 0 && row.as_array()[0].is_object()) {
    const Json& first = row.as_array()[0];
    const bool message = first.find("role") != nullptr || first.find("from") != nullptr;
    hint = message ? "; its elements are messages, so wrap it: {\"messages\": [...]}"
                   : "; a file that is one array is named .json";
  }
  throw RowRefusal("not_an_object",
                   fmt::format("the row is {}, wanted an object{}", kind_text(row), hint));
}

bool RowFields::is_named(const std::string& ours) const {
  return std::any_of(fields_.begin(), fields_.end(),
                     [&](const auto& name) { return name.first == ours; });
}

// Returns true if nothing reads the column, so that a ledger can say that it is lost.
bool RowFields::is_unread(const std::string& column) const {
  return std::none_of(ours_.begin(), ours_.end(),
                      [&](const std::string& ours) { return spelled(ours) == column; }) &&
         !has_name(keep_, column);
}

std::string RowFields::suggestion(const std::string& name, const Json& row) {
  std::vector<std::string> columns;
  for (const Json::Member& member : row.as_object()) columns.push_back(member.first);
  const std::string near = nearest_name(name, columns);
  return near.empty() ? "" : fmt::format(", did you mean \"{}\"?", near);
}

void RowFields::note_losers(const Json& row, const std::string& winner,
                            std::initializer_list<const char*> losers, RowExtras& out) const {
  for (const char* ours : losers) {
    if (find(row, ours) == nullptr) continue;
    out.notes.push_back(
        fmt::format("\"{}\" is ignored beside \"{}\"", spelled(ours), spelled(winner)));
  }
}

void RowFields::refuse_rivals(const std::string& first, const std::string& second) const {
  throw RowRefusal(
      "columns_differ",
      fmt::format("\"{0}\" and \"{1}\" are two names of one column, and differ here; leave one "
                  "out: map = function(row) row.{1} = nil return row end",
                  spelled(first), spelled(second)));
}

std::string RowFields::renamed_extra(const Json& row, const std::string& name) const {
  if (!is_named(name) || row.find(name) != nullptr) return "";
  const Json* value = row.find(spelled(name));
  return value != nullptr && (value->is_string() || value->is_number()) ? spelled(name) : "";
}

std::string RowFields::keep_by_their_names(const Json& row) const {
  std::vector<std::string> names;
  for (const std::string& name : keep_) {
    const std::string theirs = renamed_extra(row, name);
    const std::string& kept = theirs.empty() ? name : theirs;
    if (!has_name(names, kept)) names.push_back(kept);
  }
  std::string text;
  for (const std::string& name : names) add_item(text, '"' + name + '"');
  return text;
}

void RowFields::read_extra(const Json& row, RowExtras& out) const {
  for (const std::string& name : keep_) {
    const Json* value = row.find(name);
    // A value may be missing, but a similar name is probably a slip.
    if (const std::string theirs = renamed_extra(row, name); !theirs.empty()) {
      out.notes.push_back(renamed_note(name, theirs, keep_by_their_names(row)));
    } else if (value == nullptr) {
      const std::string near = suggestion(name, row);
      if (!near.empty()) out.notes.push_back("extra column \"" + name + "\" is not there" + near);
    }
    if (value != nullptr && !(value->is_null() || value->is_number() || value->is_string())) {
      out.notes.push_back(
          fmt::format("keep: \"{}\" is {} and is taken as absent", name, kind_text(*value)));
      value = nullptr;
    }
    if (value != nullptr && value->is_number() && is_beyond_exact(*value)) {
      throw RowRefusal(kBadExtraReason,
                       fmt::format("\"{}\" is {}: a whole number beyond 2^53 is not stored "
                                   "exactly; write it as a string",
                                   name, dump_json(*value)));
    }
    // Absent ones too: extra[i] is the column keep_[i].
    out.extra.push_back(value == nullptr ? Json() : *value);
  }
  const Json* weight = find(row, "weight");
  if (weight == nullptr) return;
  const double number = weight->is_number() ? weight->as_double() : -1;
  out.weight = static_cast<float>(number);
  // After the cast: 1e39 is finite only as a double.
  if (!std::isfinite(out.weight) || number < 0) {
    throw RowRefusal("bad_weight", fmt::format("\"{}\" is {}, wanted a number >= 0",
                                               spelled("weight"), dump_json(*weight)));
  }
}

void RowFields::finish_notes(const Json& row, RowExtras& out) const {
  for (const auto& [ours, theirs] : fields_) {
    if (row.find(theirs) != nullptr) continue;
    out.notes.push_back(fmt::format("fields names {} = \"{}\", a column that the row lacks{}", ours,
                                    theirs, suggestion(theirs, row)));
  }
  // Once per row: a ledger counts rows by note.
  std::sort(out.notes.begin(), out.notes.end());
  out.notes.erase(std::unique(out.notes.begin(), out.notes.end()), out.notes.end());
  // Last: their number has no bound, and a ledger's notes do.
  for (const Json::Member& member : row.as_object()) {
    if (!is_unread(member.first)) continue;
    out.notes.push_back(unused_note(member.first));
  }
}

}  // namespace xrun
