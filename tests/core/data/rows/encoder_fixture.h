#pragma once
// Rows of a kind through their encoder, with the tokenizer of bytes and ChatML written by hand.

#include <gtest/gtest.h>

#include <string>

#include "core/data/rows/row_encoder.h"
#include "tests/core/data/rows/pair_fixture.h"

namespace xrun {

// Messages of a row, as JSON. `text` has nothing that JSON escapes.
inline std::string user_turn(const std::string& text) {
  return R"({"role":"user","content":")" + text + "\"}";
}
inline std::string assistant_turn(const std::string& text) {
  return R"({"role":"assistant","content":")" + text + "\"}";
}

class EncoderFixture : public PairFixture {
 protected:
  EncodedRow encode(RowKind kind, const std::string& row) const {
    EncodedRow out;
    make_row_encoder({kind, settings_, &tokenizer(), template_})
        ->encode({.text = row, .at = {0, 17}}, "rows.jsonl:17", out);
    return out;
  }
  // "reason: detail" of a row that is refused; "" if it is read.
  std::string refusal(RowKind kind, const std::string& row) const {
    try {
      encode(kind, row);
      return "";
    } catch (const RowRefusal& refused) {
      return refused.reason() + ": " + refused.what();
    }
  }
  // The tokenizer has the special tokens of ChatML alone, which every other template is told.
  static bool forget_plain_turns(EncodedRow& row) {
    return std::erase_if(row.notes, [](const std::string& note) {
             return note.starts_with("the template's end of turn is ordinary text");
           }) > 0;
  }
  static std::string text(const EncodedRow& row) { return text_of(row.streams[0].ids); }
  static std::string trained(const EncodedRow& row) {
    std::vector<int32_t> ids;
    const TokenStream& stream = row.streams[0];
    for (size_t i = 0; i < stream.ids.size(); ++i) {
      if (stream.trained[i] != 0) ids.push_back(stream.ids[i]);
    }
    return text_of(ids);
  }

  RowSettings settings_;
};

// A row that is refused, with the beginning of "reason: detail".
struct RefusedRow {
  std::string row;
  const char* refusal;
};

}  // namespace xrun
