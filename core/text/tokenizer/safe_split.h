#pragma once
// Safe split points: tokenising the parts and concatenating gives the tokens of the whole.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace xrun {

// A kind of split point, as the next stage of a tokenizer sees it. Each stage maps a kind
// (split_after) to the same kind, to another one, or to kNone if it looks across the point.
enum class SafeSplit : uint8_t {
  kNone,
  kSpace,  // before a single space between two letters: "ab| cd"
  kMark,   // the same with U+2581 for the space
  kLine,  // after a single line feed between a character that is not a space and a letter: "a.\n|b"
  kPiece,  // between two pieces, which the model sees separately
};

// The kinds that find_safe_split may return.
struct SplitKinds {
  bool space = false;
  bool line = false;
};

// Returns the last split point in (from, most], else the first one after `most`, else text.size().
// Letters are ASCII, Cyrillic, Hangul and, next to a line feed, common Han: those that the normal
// forms leave alone or decompose into letters. Requires valid UTF-8 and from < most < text.size().
size_t find_safe_split(std::string_view text, size_t from, size_t most, SplitKinds kinds);

}  // namespace xrun
