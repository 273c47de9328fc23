#pragma once
// Checks that encoding a text in parts gives the tokens of the whole.

#include <cstdint>

#include "core/text/tokenizer/tokenizer.h"
#include "tools/fuzz/fuzz_target.h"

namespace xrun {

inline Encoding encode_in_parts(const Tokenizer& tokenizer, std::string_view text,
                                const EncodeOptions& options, size_t part_bytes) {
  Encoding out;
  const auto take = [&](Encoding&& part) {
    out.ids.insert(out.ids.end(), part.ids.begin(), part.ids.end());
    out.offsets.insert(out.offsets.end(), part.offsets.begin(), part.offsets.end());
  };
  tokenizer.encode_parts(text, options, take, part_bytes);
  return out;
}

inline void check_seams(const Tokenizer& tokenizer, std::string_view text,
                        const EncodeOptions& options, size_t part_bytes) {
  const Encoding whole = encode_in_parts(tokenizer, text, options, SIZE_MAX);
  const Encoding parts = encode_in_parts(tokenizer, text, options, part_bytes);
  fuzz_check(parts.ids == whole.ids, "parts have other ids than the whole");
  fuzz_check(parts.offsets == whole.offsets, "parts have other offsets than the whole");
}

}  // namespace xrun
