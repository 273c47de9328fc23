#pragma once
// Kinds of rows, and the forms of a row between its file and a cache: text, then tokens.
// docs/overview.md lists all forms.

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"
#include "core/data/rows/ledger.h"
#include "core/text/chat/chat_template.h"
#include "core/text/chat/message_ranges.h"
#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

enum class RowKind { kPreference, kChat, kText, kPrompts, kTokens, kFeedback };

const char* row_kind_name(RowKind kind);    // "preference", "chat", ...; also in manifests
std::string row_reader_name(RowKind kind);  // the function of a recipe: "xrun.chat"
// Returns the end of a refusal of rows of another kind: "; rows with chosen, rejected are read by
// xrun.preference (a recipe such as dpo.lua)".
std::string row_reader_hint(const std::string& columns, RowKind kind);
bool uses_template(RowKind kind);  // false for text and tokens

enum class RowForm : uint8_t { kJson, kText };

// One row as its file spells it: whole, not yet parsed.
struct RawRow {
  std::string_view text;
  RowForm form = RowForm::kJson;
  SourceLine at = {};
  uint64_t column = 0;  // bytes of its line before it
};

struct TokenStream {
  std::vector<int32_t> ids;
  std::vector<uint8_t> trained;  // one per token; 1: a target. The first token never is
  std::vector<float> weights;    // loss weights >= 0, one per token; empty: all 1
  bool operator==(const TokenStream&) const = default;
};

// The parts of a row that a reader takes besides its text.
struct RowExtras {
  uint64_t prompt_hash = 0;  // equal for equal prompts
  float weight = 1;          // loss weight of the row, >= 0
  std::vector<Json> extra;   // extra columns in the order of RowSettings::keep; null if absent
  std::vector<std::string> notes;  // columns recognised or ignored, for the ledger
};

// The parts of a row that an encoder gives besides its tokens.
struct RowFacts : RowExtras {
  int8_t label = 0;                // feedback: 1 desirable, 0 undesirable
  int64_t straddlers = 0;          // tokens half inside a generation span
  int64_t cut_tokens = 0;          // removed by over_length = "cut"
  std::string cut_kept, cut_lost;  // text on both sides of that cut
  std::string cut_sides;           // "34 of 134 tokens of the rejected side", for the ledger
  int64_t repairs = 0;             // replacement characters written; also set for a refused row
};

struct EncodedRow : RowFacts {
  std::array<TokenStream, 2> streams;  // a pair's chosen and rejected side; otherwise one
};

struct RowSchema {
  RowKind kind = RowKind::kPreference;
  int64_t vocab_size = 0;          // decides the width of the ids
  std::vector<std::string> keep;   // names of extra columns
  bool has_token_weights = false;  // a weight per token is stored
};

// A column of the data that stays with the rows: the recipe's `keep`.
struct ExtraColumn {
  std::string name;
  bool is_number;         // else a string
  bool is_whole = false;  // every row has a whole number of at most 2^53
};

// The rendering from which a row's tokens came, for display. It is made again from the row's file;
// training never needs it.
struct RowTrace {
  // One stream, before over_length = "cut".
  struct Stream {
    std::vector<int32_t> ids;
    std::vector<ByteRange> offsets;  // bytes of rendering.text, one per token
    Rendering rendering;
    std::vector<MessageRange> messages;
    std::vector<std::string> inputs;  // as JSON: the template's arguments, then each message
  };
  std::vector<Stream> streams;  // two for a pair; none for kinds without a template
  std::string failure;          // the reason if there are none
};

// The recipe's `filter` and `map` over the rows of a source. For one thread; the result depends on
// the row alone.
class RowTransform {
 public:
  virtual ~RowTransform() = default;
  // Changes the row in place. Returns false if the row is filtered out. `location` is
  // "pairs.jsonl:17". If the recipe's function fails, throws Error with the recipe's file and line,
  // which ends the build.
  virtual bool apply(Json& row, const std::string& location) = 0;
};

// Makes one transform per thread.
class RowTransformSource {
 public:
  virtual ~RowTransformSource() = default;
  virtual std::unique_ptr<RowTransform> make() const = 0;
  // The functions' text, part of the cache's key.
  virtual const std::string& source() const = 0;
};

}  // namespace xrun
