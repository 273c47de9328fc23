// Explains a refused row by the surest cause: wrong names in `fields`; else a row of another kind
// or of a known public data set; else a guess.

#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/strings.h"
#include "core/data/rows/column_guess.h"
#include "core/data/rows/ledger.h"
#include "core/data/rows/missing_column.h"
#include "core/data/rows/row_fields.h"
#include "core/data/rows/row_formats.h"

namespace xrun {

namespace {

constexpr size_t kColumnsText = 150;  // characters of column names to list

// "a, b, c and 4 more"
std::string name_list(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (text.size() > kColumnsText) return text + fmt::format(" and {} more", names.size() - i);
    text += (i == 0 ? "" : ", ") + names[i];
  }
  return text;
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

// Returns true for a row of scalars of which exactly two are text, apart from the row's origin: a
// question and its answer, unless names say otherwise.
bool is_two_texts(const Json& row) {
  size_t texts = 0;
  for (const Json::Member& member : row.as_object()) {
    if (member.second.is_array() || member.second.is_object()) return false;
    texts += member.second.is_string() && !tells_origin(member.first) ? 1 : 0;
  }
  return texts == 2;
}

bool fits_no_format(RowKind kind, const std::vector<std::string>& columns) {
  return format_fit(nearest_format(kind, columns), columns) == 0;
}

}  // namespace

std::string RowFields::missing_field(const Json& row, const std::string& ours,
                                     const std::string& theirs) {
  const Json* value = row.find(theirs);
  if (value != nullptr && !value->is_null()) return "";
  return fmt::format("; fields names {} = \"{}\", a column that {}{}", ours, theirs,
                     value == nullptr ? "the row lacks" : "is null here",
                     value == nullptr ? suggestion(theirs, row) : "");
}

std::string RowFields::missing_fields(const Json& row) const {
  std::string text;
  for (const auto& [ours, theirs] : fields_) text += missing_field(row, ours, theirs);
  return text;
}

void RowFields::refuse_format(const Json& row) const {
  const std::vector<std::string> seen = columns_seen(row);
  std::vector<std::string> columns;  // those that are not null
  for (const Json::Member& member : row.as_object()) {
    if (!member.second.is_null()) columns.push_back(member.first);
  }
  std::string text =
      seen.empty() ? "the row has no columns" : fmt::format("its columns: {}", name_list(seen));
  const std::string missing = missing_fields(row);
  text += missing;
  // A row that is whole but for the names in `fields` needs no further explanation.
  if (missing.empty() || (!fits_no_format(kind_, columns) && !has_any_format(kind_, columns))) {
    const std::string known = known_row_hint(row, columns);
    text += known.empty() ? guessed_row_hint(row, columns) : known;
  }
  throw RowRefusal("unknown_format", text);
}

std::string RowFields::known_row_hint(const Json& row,
                                      const std::vector<std::string>& columns) const {
  // A pair comes first: another column of such a row may look like the answer.
  const std::string pair = pair_hint(row);
  if (!pair.empty() && (kind_ == RowKind::kChat || kind_ == RowKind::kFeedback)) return pair;
  // A conversation with at most one other column that may be an answer.
  if (kind_ == RowKind::kPreference && fits_no_format(kind_, columns) &&
      other_format(kind_, columns) == nullptr && is_conversation(row)) {
    return fmt::format("; wanted: {}", fmt::join(nearest_format(kind_, columns).columns, ", ")) +
           row_reader_hint("messages", RowKind::kChat);
  }
  // Only instruction rows have columns of these two names.
  if (has_name(ours_, "completion") && has_name(columns, "input") && has_name(columns, "output") &&
      find(row, "prompt") == nullptr) {
    return "; name them: " + naming(row, {{"prompt", "input"}, {"completion", "output"}});
  }
  return "";
}

std::string RowFields::guessed_row_hint(const Json& row,
                                        const std::vector<std::string>& columns) const {
  static const RowFormat two_texts = {RowKind::kChat, {"prompt", "completion"}};
  const bool none = fits_no_format(kind_, columns);
  const bool two = kind_ == RowKind::kChat && none && is_two_texts(row) &&
                   !has_name(columns, "text") && other_format(kind_, columns) == nullptr;
  const RowFormat& wanted = two ? two_texts : nearest_format(kind_, with_our_names(columns));
  const ColumnNames guess = guessed_fields(row, wanted);
  const bool usual = std::all_of(guess.begin(), guess.end(), [](const auto& name) {
    return is_other_name(name.second, name.first);
  });
  if (usual && !guess.empty()) return "; name them: " + naming(row, guess);
  std::string text = fmt::format("; wanted: {}", fmt::join(wanted.columns, ", "));
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
  return text;
}

// Returns the columns and our names for them, those of `fields` and those of public data sets.
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

ColumnNames RowFields::guessed_fields(const Json& row, const RowFormat& wanted) const {
  std::vector<std::string> lacking, unread;
  for (const std::string& ours : wanted.columns) {
    // A name that `fields` gives is right for the data set, though this row lacks the column.
    if (find(row, ours) == nullptr && !is_named(ours)) lacking.push_back(ours);
  }
  for (const Json::Member& member : row.as_object()) {
    if (is_unread(member.first)) unread.push_back(member.first);
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

// The names given so far are repeated, since --set replaces the whole table.
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

std::string RowFields::other_columns(const Json& row, const std::string& ours) const {
  const std::string lacking = is_named(ours) ? missing_field(row, ours, spelled(ours)) : "";
  // The name in `fields` is right if the row has it, and misspelt if the row has a similar one.
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

}  // namespace xrun
