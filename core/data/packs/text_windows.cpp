// Window w of length n has the tokens [w (n - 1), w (n - 1) + n) of the stream.

#include "core/data/packs/text_windows.h"

#include <algorithm>

#include "core/base/error.h"

namespace xrun {

TextWindows::TextWindows(std::shared_ptr<const RowCache> cache, int64_t begin, int64_t end,
                         int64_t length)
    : cache_(std::move(cache)), end_row_(end), stride_(length - 1) {
  XRUN_CHECK(length >= 2, "a window has {} tokens, wanted at least 2", length);
  first_ = cache_->first_token(begin);
  last_ = cache_->first_token(end);
  // The very last token predicts nothing, so it begins no window.
  const int64_t targets = std::max<int64_t>(last_ - first_ - 1, 0);
  size_ = targets / stride_ + (targets % stride_ != 0);
}

std::vector<TextWindows::WindowPiece> TextWindows::pieces(int64_t window) const {
  XRUN_CHECK(window >= 0 && window < size_, "window {} is out of range, there are {}", window,
             size_);
  const int64_t from = first_ + window * stride_;
  const int64_t to = std::min(from + stride_ + 1, last_);
  std::vector<WindowPiece> pieces;
  int64_t row = cache_->row_of_token(from);
  for (int64_t at = from; at < to && row < end_row_; ++row) {
    const int64_t row_begin = cache_->first_token(row);
    const int64_t end = std::min(cache_->first_token(row + 1), to);
    // A single token predicts nothing.
    if (end - at >= 2) pieces.push_back({row, at - row_begin, end - row_begin});
    at = end;
  }
  return pieces;
}

}  // namespace xrun
