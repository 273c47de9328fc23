#pragma once
// What a tokenizer makes of a text as one line, as the golden scripts write it.

#include <string>
#include <string_view>

#include "core/text/tokenizer/tokenizer.h"
#include "core/text/unicode/utf8_cursor.h"

namespace xrun {

// Widens a range to whole characters, as Hugging Face's code points are.
inline ByteRange widened(std::string_view text, ByteRange range) {
  const bool empty = range.begin == range.end;
  while (range.end < text.size() && is_continuation(text[range.end])) ++range.end;
  if (empty) return {range.end, range.end};
  while (range.begin > 0 && is_continuation(text[range.begin])) --range.begin;
  return range;
}

// `ids|offsets|decoded|decoded without special tokens`, the offsets widened.
inline std::string described(const Tokenizer& tokenizer, const std::string& text,
                             const EncodeOptions& options) {
  const Encoding e = tokenizer.encode(text, options);
  std::string ids, offsets;
  for (size_t i = 0; i < e.ids.size(); ++i) {
    const ByteRange range = widened(text, e.offsets[i]);
    ids += (i > 0 ? "," : "") + std::to_string(e.ids[i]);
    offsets += (i > 0 ? "," : "") + std::to_string(range.begin) + "-" + std::to_string(range.end);
  }
  return ids + "|" + offsets + "|" + tokenizer.decode(e.ids) + "|" + tokenizer.decode(e.ids, true) +
         "\n";
}

}  // namespace xrun
