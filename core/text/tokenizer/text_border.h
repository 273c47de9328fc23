#pragma once
// Places at which a long text may be cut, so that what its parts become, one after the other, is
// what the whole becomes.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace xrun {

// A kind of place, as the next stage of a tokenizer sees it. A stage tells what it leaves of one
// (border_after): the same, another kind, or kNone where it looks across it.
enum class Border : uint8_t {
  kNone,
  kSpace,  // before a single space between two letters: "ab| cd"
  kMark,   // the same with U+2581 for the space
  kLine,   // behind a single line feed, from a character that is no space to a letter: "ab.\n|cd"
  kPiece,  // between two pieces, which the model sees one by one
};

// Says which kinds find_border may return.
struct BorderKinds {
  bool space = false;
  bool line = false;
};

// Returns the last border in (from, most], else the first one behind `most`, else text.size().
// Letters are ASCII's, Cyrillic, Hangul and, at a line's begin or end, common Han: what the normal
// forms leave alone or take apart into letters. Requires valid UTF-8 and from < most < text.size().
size_t find_border(std::string_view text, size_t from, size_t most, BorderKinds kinds);

}  // namespace xrun
