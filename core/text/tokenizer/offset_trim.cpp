#include "core/text/tokenizer/offset_trim.h"

#include <algorithm>

#include "core/base/utf8.h"
#include "core/text/unicode/unicode.h"
#include "core/text/unicode/utf8_cursor.h"

namespace xrun {

namespace {

constexpr uint32_t kSpelledSpace = 0x120;  // a space in the byte alphabet

bool is_blank(std::string_view piece, size_t at) {
  const uint32_t c = utf8_character(piece, at);
  return c == kSpelledSpace || char_kind(c) == CharKind::kSpace;
}

void trim(const PostContext& context, std::string_view piece, bool is_first, bool prefix_space,
          ByteRange& range) {
  uint32_t leading = 0, trailing = 0;
  for (size_t at = 0; at < piece.size() && is_blank(piece, at); at += utf8_size(piece[at])) {
    ++leading;
  }
  for (size_t at = piece.size(); at > 0 && is_blank(piece, utf8_before(piece, at));
       at = utf8_before(piece, at)) {
    ++trailing;
  }
  // One space before the first word counts as the one that add_prefix_space put there.
  if ((is_first || range.begin == 0) && prefix_space && leading == 1) leading = 0;
  for (; leading > 0 && range.begin < range.end; --leading) {
    range.begin = std::min(range.begin + read_utf8(context.text, range.begin).size, range.end);
  }
  for (; trailing > 0 && range.begin < range.end; --trailing) {
    range.end = std::max(uint32_t(utf8_before(context.text, range.end)), range.begin);
  }
}

}  // namespace

void trim_offsets(Encoding& encoding, const PostContext& context, bool prefix_space) {
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    trim(context, context.spelling(encoding.ids[i], encoding.offsets[i]),
         i == 0 && context.at_begin, prefix_space, encoding.offsets[i]);
  }
}

}  // namespace xrun
