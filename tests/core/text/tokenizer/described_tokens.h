#pragma once
// The tokens of a text as one line, in the format of the golden scripts.

#include <string>
#include <string_view>

#include "core/text/tokenizer/tokenizer.h"
#include "core/text/unicode/utf8_cursor.h"

namespace xrun {

// Extends a range to whole characters, like Hugging Face's code points.
inline ByteRange extended(std::string_view text, ByteRange range) {
  const bool empty = range.begin == range.end;
  while (range.end < text.size() && is_continuation(text[range.end])) ++range.end;
  if (empty) return {range.end, range.end};
  while (range.begin > 0 && is_continuation(text[range.begin])) --range.begin;
  return range;
}

// Returns `ids|offsets|decoded|decoded without special tokens`, offsets in whole characters.
inline std::string described(const Tokenizer& tokenizer, const std::string& text,
                             const EncodeOptions& options) {
  const Encoding e = tokenizer.encode(text, options);
  std::string ids, offsets;
  for (size_t i = 0; i < e.ids.size(); ++i) {
    const ByteRange range = extended(text, e.offsets[i]);
    ids += (i > 0 ? "," : "") + std::to_string(e.ids[i]);
    offsets += (i > 0 ? "," : "") + std::to_string(range.begin) + "-" + std::to_string(range.end);
  }
  return ids + "|" + offsets + "|" + tokenizer.decode(e.ids) + "|" + tokenizer.decode(e.ids, true) +
         "\n";
}

}  // namespace xrun
