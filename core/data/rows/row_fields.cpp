// A column is read under its own name or under the one that `fields` gives it, never under both. A
// column that is neither read nor an extra column is noted for each row.

#include "core/data/rows/row_fields.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/base/strings.h"
#include "core/data/rows/column_guess.h"
#include "core/data/rows/ledger.h"
#include "core/data/rows/messages.h"
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
constexpr size_t kColumnsText = 150;  // of column names in a row's refusal

// True for a whole number that a double does not hold exactly.
bool is_beyond_exact(const Json& number) {
  if (number.is_int()) return number.as_int() > kExactInteger || number.as_int() < -kExactInteger;
  const double value = number.as_double();
  return std::floor(value) == value && std::fabs(value) > static_cast<double>(kExactInteger);
}

// "a, b, c and 4 more"
std::string name_list(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (text.size() > kColumnsText) return text + fmt::format(" and {} more", names.size() - i);
    text += (i == 0 ? "" : ", ") + names[i];
  }
  return text;
}

// ", did you mean "score"?" with the row's column nearest to a name; "" if none is near.
std::string suggestion(const std::string& name, const Json& row) {
  std::vector<std::string> columns;
  for (const Json::Member& member : row.as_object()) columns.push_back(member.first);
  const std::string near = nearest_name(name, columns);
  return near.empty() ? "" : fmt::format(", did you mean \"{}\"?", near);
}

// "chosen", "rejected (null)"
std::vector<std::string> columns_seen(const Json& row) {
  std::vector<std::string> columns;
  for (const Json::Member& member : row.as_object()) {
    columns.push_back(member.first + (member.second.is_null() ? " (null)" : ""));
  }
  return columns;
}

bool is_pair(const Json& row) {
  const Json* chosen = row.find("chosen");
  const Json* rejected = row.find("rejected");
  return chosen != nullptr && !chosen->is_null() && rejected != nullptr && !rejected->is_null();
}

// Returns true if the row has messages and at most one further column that may be an answer.
bool is_conversation(const Json& row) {
  static const std::vector<std::string> ours = {"messages", "system", "tools",
                                                "chat_template_kwargs"};
  const Json* messages = row.find("messages");
  if (messages == nullptr || !messages->is_array()) return false;
  const Json::Object& members = row.as_object();
  return std::count_if(members.begin(), members.end(), [](const Json::Member& member) {
           const Json& value = member.second;
           return !has_name(ours, member.first) &&
                  (value.is_string() || value.is_array() || value.is_object());
         }) < 2;
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
  // Columns of tables are null in rows that have no value.
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

std::string RowFields::missing_field(const Json& row, const std::string& ours,
                                     const std::string& theirs) {
  const Json* value = row.find(theirs);
  if (value != nullptr && !value->is_null()) return "";
  return fmt::format("; fields names {} = \"{}\", a column that {}{}", ours, theirs,
                     value == nullptr ? "the row lacks" : "is null here",
                     value == nullptr ? suggestion(theirs, row) : "");
}

// Explains a wrong `fields` table: for each of its columns that the row lacks, a hint.
std::string RowFields::missing_fields(const Json& row) const {
  std::string text;
  for (const auto& [ours, theirs] : fields_) text += missing_field(row, ours, theirs);
  return text;
}

// The message goes from the surest explanation to the vaguest: wrong names in `fields`, columns
// known from public sets, another kind of row, a guess.
void RowFields::refuse_format(const Json& row) const {
  const std::vector<std::string> seen = columns_seen(row);
  std::vector<std::string> columns;  // those that are not null
  size_t texts = 0, lists = 0;
  for (const Json::Member& member : row.as_object()) {
    if (!member.second.is_null()) columns.push_back(member.first);
    texts += member.second.is_string() ? 1 : 0;
    lists += member.second.is_array() || member.second.is_object() ? 1 : 0;
  }
  std::string text =
      seen.empty() ? "the row has no columns" : fmt::format("its columns: {}", name_list(seen));
  const std::string missing = missing_fields(row);
  text += missing;
  const bool none = format_fit(nearest_format(kind_, columns), columns) == 0;
  // A row that is whole but for the names in `fields` needs no further explanation.
  if (!missing.empty() && (none || has_any_format(kind_, columns))) {
    throw RowRefusal("unknown_format", text);
  }
  const bool is_chat = has_name(ours_, "completion");
  // Another column of such a row may look like the answer.
  const std::string pair = pair_hint(row);
  if (!pair.empty() && (kind_ == RowKind::kChat || kind_ == RowKind::kFeedback)) {
    throw RowRefusal("unknown_format", text + pair);
  }
  // A conversation beside columns that hold no answers, such as an id and tools.
  if (kind_ == RowKind::kPreference && none && other_format(kind_, columns) == nullptr &&
      is_conversation(row)) {
    throw RowRefusal(
        "unknown_format",
        text +
            fmt::format("; wanted: {}", fmt::join(nearest_format(kind_, columns).columns, ", ")) +
            row_reader_hint("messages", RowKind::kChat));
  }
  // Only instruction rows have them under these names.
  if (is_chat && has_name(columns, "input") && has_name(columns, "output") &&
      find(row, "prompt") == nullptr) {
    throw RowRefusal(
        "unknown_format",
        text + "; name them: " + naming(row, {{"prompt", "input"}, {"completion", "output"}}));
  }
  // Two texts that no name explains are a question and its answer.
  static const RowFormat two_texts = {RowKind::kChat, {"prompt", "completion"}};
  const bool two = kind_ == RowKind::kChat && none && texts == 2 && lists == 0 &&
                   !has_name(columns, "text") && other_format(kind_, columns) == nullptr;
  const RowFormat& wanted = two ? two_texts : nearest_format(kind_, with_our_names(columns));
  const ColumnNames guess = guessed_fields(row, wanted, columns);
  const bool usual = std::all_of(guess.begin(), guess.end(), [](const auto& name) {
    return is_other_name(name.second, name.first);
  });
  if (usual && !guess.empty()) {
    throw RowRefusal("unknown_format", text + "; name them: " + naming(row, guess));
  }
  text += fmt::format("; wanted: {}", fmt::join(wanted.columns, ", "));
  const bool guessed = std::any_of(guess.begin(), guess.end(),
                                   [](const auto& name) { return name.second != kNoColumn; });
  if (const RowFormat* other = other_format(kind_, columns)) {
    text += row_reader_hint(joined(other->columns, ", "), other->kind);
  } else if (guessed || (none && !guess.empty() && row.find(wanted.columns[0]) == nullptr)) {
    std::string lacking;
    for (const auto& [ours, theirs] : guess) add_item(lacking, ours);
    if (guess.size() < wanted.columns.size()) text += "; still missing: " + lacking;
    text += "; name them, for example " + naming(row, guess);
  }
  throw RowRefusal("unknown_format", text);
}

// The columns, those that `fields` renames, and our names for those of public sets.
std::vector<std::string> RowFields::with_our_names(const std::vector<std::string>& columns) const {
  std::vector<std::string> names = columns;
  for (const auto& [ours, theirs] : fields_) {
    if (has_name(columns, theirs)) names.push_back(ours);
  }
  for (std::string& ours : our_names(columns)) {
    if (has_name(ours_, ours)) names.push_back(std::move(ours));
  }
  return names;
}

ColumnNames RowFields::guessed_fields(const Json& row, const RowFormat& wanted,
                                      const std::vector<std::string>& columns) const {
  std::vector<std::string> lacking, unread;
  for (const std::string& ours : wanted.columns) {
    // A name given by `fields` is right for the set, and this row lacks the column.
    if (find(row, ours) == nullptr && !is_named(ours)) lacking.push_back(ours);
  }
  for (const std::string& column : columns) {
    if (is_unread(column)) unread.push_back(column);
  }
  return guess_columns(row, lacking, unread);
}

std::string RowFields::pair_hint(const Json& row) const {
  // `fields` may read one of the two as an answer.
  const bool reads_side = std::any_of(fields_.begin(), fields_.end(), [](const auto& name) {
    return name.second == "chosen" || name.second == "rejected";
  });
  return is_pair(row) && !reads_side ? row_reader_hint("chosen, rejected", RowKind::kPreference)
                                     : "";
}

// The given names stay: --set replaces the table.
std::string RowFields::naming(const Json& row, const ColumnNames& more) const {
  std::string table;
  for (const auto& [ours, theirs] : fields_) {
    if (find(row, ours) != nullptr) add_item(table, fmt::format("{} = \"{}\"", ours, theirs));
  }
  for (const auto& [ours, theirs] : more) {
    add_item(table, fmt::format("{} = \"{}\"", ours, theirs));
  }
  if (config_path_.empty()) return fmt::format("fields = {{ {} }}", table);
  return "--set " + shell_word(fmt::format("{}.fields={{ {} }}", config_path_, table));
}

// Returns true if nothing reads the column, so that a ledger can say that it is lost.
bool RowFields::is_unread(const std::string& column) const {
  return std::none_of(ours_.begin(), ours_.end(),
                      [&](const std::string& ours) { return spelled(ours) == column; }) &&
         !has_name(keep_, column);
}

std::string RowFields::other_columns(const Json& row, const std::string& ours) const {
  const std::string lacking = is_named(ours) ? missing_field(row, ours, spelled(ours)) : "";
  // `fields` names the right column where the row has it, and where a similar name is a slip.
  if (is_named(ours) && (row.find(spelled(ours)) || !suggestion(spelled(ours), row).empty())) {
    return lacking;
  }
  std::vector<std::string> names;
  for (const Json::Member& member : row.as_object()) {
    if (is_unread(member.first)) names.push_back(member.first);
  }
  if (names.empty()) return lacking + "; its columns: " + name_list(columns_seen(row));
  // An output is a completion, so it has the same other names.
  const std::string known = ours == "output" ? "completion" : ours;
  const std::string likely = likely_column(row, known, names, is_named(ours));
  const std::string listed = lacking + "; columns that are not used: " + name_list(names);
  if (likely.empty()) {
    return is_named(ours) ? listed
                          : listed + "; name the right one: " + naming(row, {{ours, kNoColumn}});
  }
  ColumnNames guess = {{ours, likely}};
  // Dolly's rows: instruction, context, response.
  const bool context = ours == "output" && likely != "context" && has_name(names, "context") &&
                       find(row, "input") == nullptr;
  if (context) guess.emplace_back("input", "context");
  return listed + "; name the right one, for example " + naming(row, guess);
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
    // A value may be missing; a similar name is probably a slip.
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
      throw RowRefusal("bad_extra_column",
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
