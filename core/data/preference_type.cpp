#include "core/data/preference_type.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/text/tokenizer.h"

namespace xrun {

namespace {

constexpr size_t kChosenFirst = 0;
constexpr size_t kRejectedFirst = 3;
constexpr size_t kFile = 6;
constexpr size_t kLine = 7;
constexpr size_t kPromptHash = 8;
constexpr size_t kWeight = 9;
constexpr size_t kKeptFirst = 10;
constexpr int64_t kNarrowVocabulary = 65536;  // ids below fit 16 bits

const char* kept_type(const Json& value) {
  return value.is_null() ? "absent" : value.is_string() ? "string" : "number";
}

int64_t count_trained(const SideTokens& side) {
  return std::count(side.trained.begin(), side.trained.end(), 1);
}

}  // namespace

PreferenceRowType::PreferenceRowType(PreferenceReader reader, std::vector<std::string> keep,
                                     PairSettings settings, const Tokenizer& tokenizer,
                                     const ChatTemplate& chat_template)
    : reader_(std::move(reader)),
      keep_(std::move(keep)),
      settings_(settings),
      tokenizer_(tokenizer),
      chat_template_(chat_template) {}

std::vector<Column> PreferenceRowType::columns() const {
  const ColumnType ids =
      tokenizer_.vocab_size() <= kNarrowVocabulary ? ColumnType::kU16 : ColumnType::kU32;
  std::vector<Column> columns;
  for (const auto& [offsets, tokens, mask] : kSideColumnNames) {
    const int32_t at = static_cast<int32_t>(columns.size());
    columns.push_back({offsets, ColumnType::kI64, -1});
    columns.push_back({tokens, ids, at});
    columns.push_back({mask, ColumnType::kBits, at});
  }
  columns.push_back({"file", ColumnType::kI32, -1});
  columns.push_back({"line", ColumnType::kI64, -1});
  columns.push_back({"prompt_hash", ColumnType::kU64, -1});
  columns.push_back({"weight", ColumnType::kF32, -1});
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
void PreferenceRowType::fix_kept_types() {
  // Before the notes of unread columns, which may be more than a ledger lists.
  const auto note_first = [&](std::string note) {
    row_.notes.insert(row_.notes.begin(), std::move(note));
  };
  if (rows_ == 0) {
    kept_types_.clear();
    for (size_t k = 0; k < keep_.size(); ++k) {
      kept_types_.push_back(kept_type(row_.kept[k]));
      if (row_.kept[k].is_null()) {
        note_first(fmt::format("kept column \"{}\" is left out: the first row has none", keep_[k]));
      }
    }
    return;
  }
  for (size_t k = 0; k < row_.kept.size(); ++k) {
    if (kept_types_[k] == "absent") {
      note_first(fmt::format("kept column \"{}\" is left out: the first row has none", keep_[k]));
      continue;
    }
    if (kept_types_[k] == "string" && row_.kept[k].is_null()) {
      row_.kept[k] = "";
      note_first(fmt::format("kept column \"{}\" is empty: absent", keep_[k]));
    }
    if (kept_types_[k] == kept_type(row_.kept[k])) continue;
    throw RowRefusal("kept_column", fmt::format("\"{}\" is {}, the first row has a {} there",
                                                keep_[k], kept_type(row_.kept[k]), kept_types_[k]));
  }
}

void PreferenceRowType::read(Json value, const SourceLine& at, SourceLedger& ledger) {
  row_ = reader_.read(value, at);
  pair_ = encode_pair(row_, tokenizer_, chat_template_, settings_, ledger.place(at));
  fix_kept_types();
  for (const std::string& note : row_.notes) ledger.note(note);
  ledger.straddlers += pair_.chosen.straddlers + pair_.rejected.straddlers;
  ledger.tokens += static_cast<int64_t>(pair_.chosen.ids.size() + pair_.rejected.ids.size());
  ledger.trained_tokens += count_trained(pair_.chosen) + count_trained(pair_.rejected);
  ledger.cut += pair_.cut_tokens > 0;
  ledger.cut_tokens += pair_.cut_tokens;
}

void PreferenceRowType::append_side(SegmentData& segment, size_t first_column,
                                    const SideTokens& side) {
  segment.push_ids(first_column + 1, side.ids);
  segment.push_bits(first_column + 2, side.trained);
  segment.push_offset(first_column, first_column + 1);
  const int64_t largest = *std::max_element(side.ids.begin(), side.ids.end());
  if (largest > max_id_) {
    max_id_ = largest;
    max_id_row_ = rows_;
  }
}

void PreferenceRowType::append(SegmentData& segment) {
  append_side(segment, kChosenFirst, pair_.chosen);
  append_side(segment, kRejectedFirst, pair_.rejected);
  segment.push<int32_t>(kFile, row_.at.file);
  segment.push<int64_t>(kLine, row_.at.line);
  segment.push<uint64_t>(kPromptHash, row_.prompt_hash);
  segment.push<float>(kWeight, row_.weight);
  size_t column = kKeptFirst;
  for (size_t k = 0; k < keep_.size(); ++k) {
    const Json& value = row_.kept[k];
    if (kept_types_[k] == "absent") continue;
    if (value.is_number()) {
      segment.push<double>(column++, value.as_double());
      continue;
    }
    segment.push_text(column + 1, value.as_string());
    segment.push_offset(column, column + 1);
    column += 2;
  }
  const int64_t tokens = static_cast<int64_t>(pair_.chosen.ids.size() + pair_.rejected.ids.size());
  if (tokens > longest_tokens_) {
    longest_tokens_ = tokens;
    longest_row_ = rows_;
  }
  ++rows_;
}

Json PreferenceRowType::summary() const {
  Json value = Json::object();
  value.set("rows", rows_);
  value.set("longest_row", longest_row_);
  value.set("longest_tokens", longest_tokens_);
  value.set("max_id_row", max_id_row_);
  value.set("max_id", max_id_);
  Json kept = Json::array();
  for (size_t k = 0; k < kept_types_.size(); ++k) {
    if (kept_types_[k] == "absent") continue;
    Json entry = Json::object();
    entry.set("name", keep_[k]);
    entry.set("type", kept_types_[k]);
    kept.push_back(std::move(entry));
  }
  value.set("kept", std::move(kept));
  return value;
}

void PreferenceRowType::restore(const Json& summary) {
  rows_ = summary.at("rows").as_int();
  longest_row_ = summary.at("longest_row").as_int();
  longest_tokens_ = summary.at("longest_tokens").as_int();
  max_id_row_ = summary.at("max_id_row").as_int();
  max_id_ = summary.at("max_id").as_int();
  kept_types_.assign(keep_.size(), "absent");
  for (const Json& entry : summary.at("kept").as_array()) {
    const auto found = std::find(keep_.begin(), keep_.end(), entry.at("name").as_string());
    XRUN_CHECK(found != keep_.end(), "the kept column {} is not asked for", dump_json(entry));
    kept_types_[static_cast<size_t>(found - keep_.begin())] = entry.at("type").as_string();
  }
}

}  // namespace xrun
