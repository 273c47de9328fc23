#pragma once
// The preference row type of token caches: its columns, and how a row fills them.

#include <string>
#include <vector>

#include "core/data/cache_build.h"
#include "core/data/preference_row.h"
#include "core/data/preference_tokens.h"

namespace xrun {

constexpr const char* kPreferenceRowType = "preference";
constexpr int64_t kPreferenceVersion = 2;  // raised when the same input gives other bytes

// Names of the columns that every preference cache has; kept column k is "keep<k>" (f64), or
// "keep<k>_offsets" and "keep<k>" (u8) for strings.
constexpr const char* kSideColumnNames[2][3] = {
    {"chosen_offsets", "chosen_ids", "chosen_mask"},
    {"rejected_offsets", "rejected_ids", "rejected_mask"}};

class PreferenceRowType : public RowType {
 public:
  // The tokenizer and the template must outlive this.
  PreferenceRowType(PreferenceReader reader, std::vector<std::string> keep, PairSettings settings,
                    const Tokenizer& tokenizer, const ChatTemplate& chat_template);

  std::string name() const override { return kPreferenceRowType; }
  std::vector<Column> columns() const override;
  void read(Json value, const SourceLine& at, SourceLedger& ledger) override;
  void append(SegmentData& segment) override;
  Json summary() const override;
  void restore(const Json& summary) override;

 private:
  void fix_kept_types();
  void append_side(SegmentData& segment, size_t first_column, const SideTokens& side);

  PreferenceReader reader_;
  std::vector<std::string> keep_;
  PairSettings settings_;
  const Tokenizer& tokenizer_;
  const ChatTemplate& chat_template_;

  PreferenceRow row_;  // the last one read
  PairTokens pair_;
  int64_t rows_ = 0;
  std::vector<std::string> kept_types_;  // "number", "string", "absent"; fixed by the first row
  int64_t longest_row_ = -1, longest_tokens_ = 0;
  int64_t max_id_row_ = -1, max_id_ = -1;
};

}  // namespace xrun
