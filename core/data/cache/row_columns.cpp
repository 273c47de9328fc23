// Each kept row appends to every column, so that row i is element i of all of them (of a jagged
// one, the piece between offsets i and i + 1).

#include "core/data/cache/row_columns.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"

namespace xrun {

namespace {

const char* kept_type(const Json& value) {
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
  for (const std::string& type : kept_types_) {
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

// The first row says what each kept column is. One that it lacks is left out for all rows, with a
// note, so that a recipe runs on data without the column. Where a later row lacks one, a string is
// empty and noted; a number may be part of the loss, so that row is refused.
void RowColumns::fix_kept_types(PackedRow& row) {
  const std::vector<std::string>& keep = schema_.keep;
  // Before the notes of unread columns, which may be more than a ledger lists.
  const auto note_first = [&](std::string note) {
    row.notes.insert(row.notes.begin(), std::move(note));
  };
  if (rows_ == 0) {
    kept_types_.clear();
    for (size_t k = 0; k < keep.size(); ++k) kept_types_.push_back(kept_type(row.kept[k]));
    kept_whole_.assign(keep.size(), true);
  }
  for (size_t k = 0; k < keep.size(); ++k) {
    if (kept_types_[k] == "absent") {
      note_first(fmt::format("kept column \"{}\" is left out: the first row has none", keep[k]));
      continue;
    }
    if (kept_types_[k] == "string" && row.kept[k].is_null()) {
      row.kept[k] = "";
      note_first(fmt::format("kept column \"{}\" is empty: absent", keep[k]));
    }
    if (kept_types_[k] == kept_type(row.kept[k])) continue;
    throw RowRefusal("kept_column", fmt::format("\"{}\" is {}, the first row has a {} there",
                                                keep[k], kept_type(row.kept[k]), kept_types_[k]));
  }
}

void RowColumns::accept(PackedRow& row, const SourceLine& at, SourceLedger& ledger) {
  fix_kept_types(row);
  for (const std::string& note : row.notes) ledger.note(note);
  ledger.straddlers += row.straddlers;
  ledger.tokens += row.tokens();
  if (row.weight > 0) {
    ledger.trained_tokens += row.streams[0].trained + row.streams[1].trained;
  } else {
    ++ledger.zero_weight;
  }
  if (row.cut_tokens == 0) return;
  ledger.cut_row({at, row.tokens() + row.cut_tokens, row.cut_tokens}, row.cut_kept, row.cut_lost);
}

void RowColumns::append_stream(SegmentData& segment, size_t first_column,
                               const PackedStream& stream) {
  const size_t tokens = static_cast<size_t>(stream.tokens);
  segment.push_elements(first_column + 1, {stream.ids.data(), stream.ids.size()});
  segment.push_bits(first_column + 2, stream.bits, tokens);
  if (schema_.has_token_weights) {
    for (size_t i = 0; i < tokens; ++i) {
      segment.push<float>(first_column + 3, stream.weights.empty() ? 1.0f : stream.weights[i]);
    }
  }
  segment.push_offset(first_column, first_column + 1);
  if (stream.largest_id > max_id_) {
    max_id_ = stream.largest_id;
    max_id_row_ = rows_;
  }
}

void RowColumns::append(const PackedRow& row, const SourceLine& at, SegmentData& segment) {
  size_t column = 0;
  for (size_t s = 0; s < stream_names(schema_.kind).size(); ++s) {
    append_stream(segment, column, row.streams[s]);
    column += schema_.has_token_weights ? 4 : 3;
  }
  segment.push<int32_t>(column++, at.file);
  segment.push<int64_t>(column++, at.line);
  segment.push<uint64_t>(column++, row.prompt_hash);
  segment.push<float>(column++, row.weight);
  if (schema_.kind == RowKind::kFeedback) {
    segment.push<uint8_t>(column++, static_cast<uint8_t>(row.label));
  }
  for (size_t k = 0; k < kept_types_.size(); ++k) {
    if (kept_types_[k] == "absent") continue;
    if (kept_types_[k] == "number") {
      const double value = row.kept[k].as_double();
      kept_whole_[k] = kept_whole_[k] && std::floor(value) == value;
      segment.push<double>(column++, value);
      continue;
    }
    segment.push_elements(column + 1, row.kept[k].as_string());
    segment.push_offset(column, column + 1);
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
  Json kept = Json::array();
  for (size_t k = 0; k < kept_types_.size(); ++k) {
    if (kept_types_[k] == "absent") continue;
    Json entry = Json::object();
    entry.set("name", schema_.keep[k]);
    entry.set("type", kept_types_[k]);
    if (kept_types_[k] == "number") entry.set("whole", bool{kept_whole_[k]});
    kept.push_back(std::move(entry));
  }
  value.set("kept", std::move(kept));
  return value;
}

void RowColumns::restore(const Json& summary) {
  rows_ = summary.at("rows").as_int();
  tokens_ = summary.at("tokens").as_int();
  longest_row_ = summary.at("longest_row").as_int();
  longest_tokens_ = summary.at("longest_tokens").as_int();
  max_id_row_ = summary.at("max_id_row").as_int();
  max_id_ = summary.at("max_id").as_int();
  kept_types_.assign(schema_.keep.size(), "absent");
  kept_whole_.assign(schema_.keep.size(), true);
  for (const Json& entry : summary.at("kept").as_array()) {
    const auto found =
        std::find(schema_.keep.begin(), schema_.keep.end(), entry.at("name").as_string());
    XRUN_CHECK(found != schema_.keep.end(), "the kept column {} is not asked for",
               dump_json(entry));
    const size_t k = static_cast<size_t>(found - schema_.keep.begin());
    kept_types_[k] = entry.at("type").as_string();
    if (kept_types_[k] == "number") kept_whole_[k] = entry.at("whole").as_bool();
  }
}

}  // namespace xrun
