#include "core/data/rows/text_stretch.h"

#include "core/base/count_text.h"
#include "core/data/rows/ledger.h"

namespace xrun {

namespace {

[[noreturn]] void refuse(size_t begin, size_t end, const Tokenizer& tokenizer) {
  const SplitKinds kinds = tokenizer.safe_splits();
  const std::string most = count_text(static_cast<int64_t>(tokenizer.max_stretch()));
  if (!kinds.space && !kinds.line) {
    throw RowRefusal("too_long",
                     fmt::format("the text has {} bytes, and this tokenizer cannot take one in "
                                 "parts: at most {} bytes; make several rows of it",
                                 count_text(static_cast<int64_t>(end)), most));
  }
  throw RowRefusal("too_long",
                   fmt::format("bytes {} to {} of the text have {}{}{}; at most {} such bytes are "
                               "tokenised",
                               begin, end, kinds.space ? "no space between letters" : "",
                               kinds.space && kinds.line ? " and " : "",
                               kinds.line ? "no line that begins with one" : "", most));
}

}  // namespace

void require_borders(std::string_view text, const Tokenizer& tokenizer) {
  const size_t most = tokenizer.max_stretch();
  const SplitKinds kinds = tokenizer.safe_splits();
  for (size_t at = 0; text.size() - at > most;) {
    const bool none = !kinds.space && !kinds.line;
    const size_t end = none ? text.size() : find_safe_split(text, at, at + most, kinds);
    if (end - at > most) refuse(at, end, tokenizer);
    at = end;
  }
}

}  // namespace xrun
