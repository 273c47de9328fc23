// Each row appends to every column, so row i is element i of a flat column, and the elements
// between offsets i and i + 1 of a jagged one.

#include "core/data/cache/row_columns.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/data/rows/drop_reasons.h"
#include "core/data/rows/missing_column.h"

namespace xrun {

namespace {

// These names are stored in the summary of every cache.
const char* extra_type(const Json& value) {
  return value.is_null() ? "absent" : value.is_string() ? "string" : "number";
}

}  // namespace

std::vector<std::string> stream_names(RowKind kind) {
  if (kind == RowKind::kPreference) return {"chosen", "rejected"};
  return {"tokens"};
}

RowColumns::RowColumns(RowSchema schema) : schema_(std::move(schema)) {}

std::vector<Column> RowColumns::columns() const {
  const ColumnType ids = id_type(schema_);
  std::vector<Column> columns;
  for (const std::string& name : stream_names(schema_.kind)) {
    // The offsets column comes first; those that use it name its index.
    const int32_t at = static_cast<int32_t>(columns.size());
    columns.push_back({name + "_offsets", ColumnType::kI64, -1});
    columns.push_back({name + "_ids", ids, at});
    columns.push_back({name + "_mask", ColumnType::kBits, at});
    if (schema_.has_token_weights) columns.push_back({name + "_weights", ColumnType::kF32, at});
  }
  columns.push_back({"file", ColumnType::kI32, -1});
  columns.push_back({"line", ColumnType::kI64, -1});
  columns.push_back({"prompt_hash", ColumnType::kU64, -1});
  columns.push_back({"weight", ColumnType::kF32, -1});
  if (schema_.kind == RowKind::kFeedback) columns.push_back({"label", ColumnType::kU8, -1});
  int stored = 0;
  for (const std::string& type : extra_types_) {
    // Numbered without gaps: the summary has the names in this order.
    if (type == "absent") continue;
    const std::string name = fmt::format("keep{}", stored++);
    if (type == "number") {
      columns.push_back({name, ColumnType::kF64, -1});
      continue;
    }
    const int32_t at = static_cast<int32_t>(columns.size());
    columns.push_back({name + "_offsets", ColumnType::kI64, -1});
    columns.push_back({name, ColumnType::kU8, at});
  }
  return columns;
}

// The first row fixes the type of each extra column. A column that it lacks is left out for all
// rows with a note, so that a recipe runs on data without the column. If a later row lacks a
// string, it gets "" and a note; a number may be part of the loss, so the row is refused.
void RowColumns::fix_extra_types(StoredRow& row) {
  const std::vector<std::string>& keep = schema_.keep;
  // The ledger may not list all notes, since those on unread columns have no bound.
  const auto note_first = [&](std::string note) {
    row.notes.insert(row.notes.begin(), std::move(note));
  };
  if (rows_ == 0) {
    extra_types_.clear();
    for (size_t k = 0; k < keep.size(); ++k) extra_types_.push_back(extra_type(row.extra[k]));
    extra_whole_.assign(keep.size(), true);
  }
  for (size_t k = 0; k < keep.size(); ++k) {
    // The reader has noted a value of another type.
    const std::string prefix = fmt::format("keep: \"{}\" is ", keep[k]);
    const auto is_of_reader = [&](const std::string& note) { return note.starts_with(prefix); };
    if (extra_types_[k] == "absent") {
      std::erase_if(row.notes, is_of_reader);  // one note for a column is enough
      if (!row.extra[k].is_null()) {
        note_first(left_out_note(keep[k]));
        continue;
      }
      const bool renamed =
          std::any_of(row.notes.begin(), row.notes.end(),
                      [&](const std::string& note) { return is_renamed_note(note, keep[k]); });
      if (!renamed) note_first(no_column_note(keep[k]));
      continue;
    }
    if (extra_types_[k] == "string" && row.extra[k].is_null()) {
      row.extra[k] = "";
      const bool noted = std::any_of(row.notes.begin(), row.notes.end(), is_of_reader);
      if (!noted)
        note_first(fmt::format("keep: \"{}\" has no text here and is taken as \"\"", keep[k]));
    }
    // null in a number column is refused too, by its type.
    if (extra_types_[k] == extra_type(row.extra[k])) continue;
    throw RowRefusal(kBadExtraReason,
                     fmt::format("\"{}\" is {}, and the first row has {} there", keep[k],
                                 row.extra[k].is_null()     ? "absent"
                                 : row.extra[k].is_string() ? "a string"
                                                            : "a number",
                                 extra_types_[k] == "string" ? "a string" : "a number"));
  }
}

void RowColumns::accept(StoredRow& row, const SourceLine& at, SourceLedger& ledger) {
  fix_extra_types(row);
  for (const std::string& note : row.notes) ledger.note(note, at);
  ledger.straddlers += row.straddlers;
  ledger.tokens += row.tokens();
  if (row.weight > 0) {
    // Rows of weight 0 are in the cache but train nothing.
    ledger.trained_tokens += row.streams[0].trained + row.streams[1].trained;
  } else {
    ++ledger.zero_weight;
  }
  // The ledger has the lengths before the cut.
  if (row.cut_tokens == 0) return;
  ledger.cut_row({at, row.tokens() + row.cut_tokens, row.cut_tokens, row.cut_sides}, row.cut_kept,
                 row.cut_lost);
}

// The columns of a stream are offsets, ids, mask and, if the schema has them, weights.
void RowColumns::append_stream(ShardData& shard, size_t first_column, const StoredStream& stream) {
  const size_t tokens = static_cast<size_t>(stream.tokens);
  shard.push_elements(first_column + 1, {stream.ids.data(), stream.ids.size()});
  shard.push_bits(first_column + 2, stream.bits, tokens);
  if (schema_.has_token_weights) {
    for (size_t i = 0; i < tokens; ++i) {
      shard.push<float>(first_column + 3, stream.weights.empty() ? 1.0f : stream.weights[i]);
    }
  }
  // Comes after the ids, since the offset is the end of the row.
  shard.push_offset(first_column, first_column + 1);
  if (stream.largest_id > max_id_) {
    max_id_ = stream.largest_id;
    max_id_row_ = rows_;
  }
}

void RowColumns::append(const StoredRow& row, const SourceLine& at, ShardData& shard) {
  size_t column = 0;
  // In the order of columns().
  for (size_t s = 0; s < stream_names(schema_.kind).size(); ++s) {
    append_stream(shard, column, row.streams[s]);
    column += schema_.has_token_weights ? 4 : 3;
  }
  shard.push<int32_t>(column++, at.file);
  shard.push<int64_t>(column++, at.line);
  shard.push<uint64_t>(column++, row.prompt_hash);
  shard.push<float>(column++, row.weight);
  if (schema_.kind == RowKind::kFeedback) {
    shard.push<uint8_t>(column++, static_cast<uint8_t>(row.label));
  }
  for (size_t k = 0; k < extra_types_.size(); ++k) {
    if (extra_types_[k] == "absent") continue;
    if (extra_types_[k] == "number") {
      const double value = row.extra[k].as_double();
      // If all numbers are whole, the column becomes an i64 field of the batch.
      extra_whole_[k] = extra_whole_[k] && std::floor(value) == value;
      shard.push<double>(column++, value);
      continue;
    }
    shard.push_elements(column + 1, row.extra[k].as_string());
    shard.push_offset(column, column + 1);
    column += 2;
  }
  const int64_t tokens = row.tokens();
  tokens_ += tokens;
  if (tokens > longest_tokens_) {
    longest_tokens_ = tokens;
    longest_row_ = rows_;
  }
  ++rows_;
}

Json RowColumns::summary() const {
  Json value = Json::object();
  value.set("rows", rows_);
  value.set("tokens", tokens_);
  value.set("longest_row", longest_row_);
  value.set("longest_tokens", longest_tokens_);
  value.set("max_id_row", max_id_row_);
  value.set("max_id", max_id_);
  Json extra = Json::array();
  for (size_t k = 0; k < extra_types_.size(); ++k) {
    if (extra_types_[k] == "absent") continue;
    Json entry = Json::object();
    entry.set("name", schema_.keep[k]);
    entry.set("type", extra_types_[k]);
    if (extra_types_[k] == "number") entry.set("whole", bool{extra_whole_[k]});
    extra.push_back(std::move(entry));
  }
  value.set("kept", std::move(extra));  // "kept": the key of the format, docs/cache-format.md
  return value;
}

void RowColumns::restore(const Json& summary) {
  rows_ = summary.at("rows").as_int();
  tokens_ = summary.at("tokens").as_int();
  longest_row_ = summary.at("longest_row").as_int();
  longest_tokens_ = summary.at("longest_tokens").as_int();
  max_id_row_ = summary.at("max_id_row").as_int();
  max_id_ = summary.at("max_id").as_int();
  // Columns that the first row lacked are not in the summary.
  extra_types_.assign(schema_.keep.size(), "absent");
  extra_whole_.assign(schema_.keep.size(), true);
  for (const Json& entry : summary.at("kept").as_array()) {
    const auto found =
        std::find(schema_.keep.begin(), schema_.keep.end(), entry.at("name").as_string());
    XRUN_CHECK(found != schema_.keep.end(), "the extra column {} was not requested",
               dump_json(entry));
    const size_t k = static_cast<size_t>(found - schema_.keep.begin());
    extra_types_[k] = entry.at("type").as_string();
    if (extra_types_[k] == "number") extra_whole_[k] = entry.at("whole").as_bool();
  }
}

}  // namespace xrun
