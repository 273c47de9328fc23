#pragma once
// NeMo-RL's aligner of two tokenisations: dynamic programming over canonical token strings. It
// serves to reproduce runs of NeMo-RL; the byte walker (walker.h) is exact and faster.

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "core/align/alignment.h"

namespace xrun {

class CanonicalStrings;

struct DpOptions {
  int max_combination = 4;  // most tokens that together equal one of the other side, 1 to 7
  int64_t trace_mb = 1024;  // largest table of moves, a byte for each pair of tokens
};

// Aligns one pair of sequences after the other, and remembers the canonical forms of pieces. Not
// thread-safe.
class DpAligner {
 public:
  explicit DpAligner(const DpOptions& options = {});
  ~DpAligner();
  DpAligner(const DpAligner&) = delete;
  DpAligner& operator=(const DpAligner&) = delete;

  // Returns the pairs that NeMo-RL's TokenAligner gives for the same pieces (Tokenizer::piece), its
  // defects included; a pair is correct if its canonical texts are equal. Wrong pairs and orphans
  // may hold several tokens, and an orphan with an empty canonical text (<pad>) counts as correct.
  // NeMo-RL aligns padded sequences, which can change pairs near the end of the text: pass the
  // padding to get the same pairs. Stretches between two anchors (three tokens in a row that occur
  // once on each side) are aligned separately. Throws Error if the trace of a stretch exceeds
  // trace_mb. The pieces of every call must outlive the aligner at the same addresses, as those of
  // a tokenizer do.
  Alignment align(std::span<const std::string_view> pieces_s,
                  std::span<const std::string_view> pieces_t);

 private:
  DpOptions options_;
  std::unique_ptr<CanonicalStrings> strings_;
};

}  // namespace xrun
