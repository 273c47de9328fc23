#pragma once
// Decodes the tokens of one sequence as they arrive and cuts the text at the first stop string.

#include <string>
#include <vector>

#include "core/rollout/answer_text.h"
#include "core/text/tokenizer/decode_stream.h"

namespace xrun {

// The tokenizer and the stop strings must outlive it. Not thread-safe.
class TextStream {
 public:
  TextStream(const Tokenizer& tokenizer, const std::vector<std::string>& stops)
      : decode_(tokenizer, /*skip_special=*/true), scan_(stops) {}

  // Both return the text that became certain.
  std::string push(int32_t id) { return keep(scan_.push(decode_.push(id))); }
  std::string finish() {
    std::string rest = scan_.push(decode_.finish());
    return keep(rest + scan_.finish());
  }
  bool stopped() const { return scan_.stopped(); }
  const std::string& text() const { return text_; }

 private:
  std::string keep(std::string piece) {
    text_ += piece;
    return piece;
  }

  DecodeStream decode_;
  StopText scan_;
  std::string text_;
};

}  // namespace xrun
