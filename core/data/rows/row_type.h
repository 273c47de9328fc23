#pragma once
// What turns the text of one row into tokens: the seam between building a cache and the row types.

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/data/rows/ledger.h"
#include "core/data/rows/row_extras.h"
#include "core/data/rows/row_kind.h"

namespace xrun {

// How a row stands in its file.
enum class RowForm : uint8_t { kJson, kText };

// One row as its file spells it. The text is whole (never cut by a block) and not yet looked at.
struct RawRow {
  std::string_view text;
  RowForm form = RowForm::kJson;
  SourceLine at = {};
  uint64_t column = 0;  // bytes of its line before it
};

// Tokens in order, with what is trained of them.
struct TokenStream {
  std::vector<int32_t> ids;
  std::vector<uint8_t> trained;  // 1: a target; the first token never is
  std::vector<float> weights;    // loss weights >= 0, one a token; empty: all 1
  bool operator==(const TokenStream&) const = default;
};

// One row, but for its tokens.
struct RowFacts : RowExtras {
  int8_t label = 0;                // feedback: 1 desirable, 0 undesirable
  int64_t straddlers = 0;          // tokens half inside a generation span
  int64_t cut_tokens = 0;          // that over_length = "cut" took off
  std::string cut_kept, cut_lost;  // text on both sides of that cut
  int64_t repairs = 0;             // replacement characters written; set even if it is refused
};

// One row as a worker encodes it.
struct EncodedRow : RowFacts {
  std::array<TokenStream, 2> streams;  // a pair's chosen and rejected side; else the first alone
};

// What the rows of a cache look like.
struct RowSchema {
  RowKind kind = RowKind::kPreference;
  int64_t vocab_size = 0;          // decides the width of the ids
  std::vector<std::string> keep;   // names of kept columns
  bool has_token_weights = false;  // a weight a token is stored
};

// Encodes rows on one thread. What it gives depends on the row alone, never on rows before it.
class RowWorker {
 public:
  virtual ~RowWorker() = default;
  // Fills `out`, whose old content is dropped but whose memory may be reused. `place`
  // ("pairs.jsonl:17") begins messages of errors that end the build. Throws RowRefusal if the row
  // is dropped; any other Error ends the build.
  virtual void encode(const RawRow& row, const std::string& place, EncodedRow& out) = 0;
};

// A row type with its settings, its tokenizer and its template.
class RowType {
 public:
  virtual ~RowType() = default;
  virtual RowSchema schema() const = 0;
  // Returns a worker for one more thread; it may not outlive the row type.
  virtual std::unique_ptr<RowWorker> make_worker() const = 0;
};

}  // namespace xrun
