#pragma once
// NeMo-RL's aligner of two tokenisations: dynamic programming over canonical token strings. The
// byte walker (walker.h) is exact and faster; this one reproduces runs of NeMo-RL.

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "core/align/alignment.h"

namespace xrun {

class CanonicalStrings;

struct DpOptions {
  int max_combination = 4;  // most tokens that equal one token of the other side together, 1 to 7
  int64_t trace_mb = 1024;  // largest table of moves, a byte for each pair of tokens
};

// Aligns one sequence after the other and keeps what it learns about pieces. Not thread-safe.
class DpAligner {
 public:
  explicit DpAligner(const DpOptions& options = {});
  ~DpAligner();
  DpAligner(const DpAligner&) = delete;
  DpAligner& operator=(const DpAligner&) = delete;

  // Returns the pairs, and for each whether its canonical texts are equal, that NeMo-RL's
  // TokenAligner gives for the same pieces (Tokenizer::piece), its defects included. Wrong pairs
  // and orphans may hold several tokens, and an orphan whose canonical text is empty (<pad>) counts
  // as correct. NeMo-RL aligns padded sequences, which can change pairs near the end of the text:
  // pass the padding to get those. Tokens between two anchors (three tokens in a row that occur
  // once on each side) are aligned alone. Throws Error if such a stretch exceeds trace_mb. The
  // pieces of every call must outlive the aligner at the same addresses, as those of a tokenizer
  // do.
  Alignment align(std::span<const std::string_view> pieces_s,
                  std::span<const std::string_view> pieces_t);

 private:
  DpOptions options_;
  std::unique_ptr<CanonicalStrings> strings_;
};

}  // namespace xrun
