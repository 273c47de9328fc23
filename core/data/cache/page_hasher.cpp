#include "core/data/cache/page_hasher.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <algorithm>

namespace xrun {

struct PageHasher::State {
  XXH3_state_t xxh;
};

PageHasher::PageHasher(uint64_t page_bytes)
    : state_(std::make_unique<State>()), page_bytes_(page_bytes) {
  XXH3_64bits_reset(&state_->xxh);
}

PageHasher::~PageHasher() = default;

void PageHasher::bytes(std::string_view piece) {
  while (!piece.empty()) {
    const size_t n = std::min<uint64_t>(piece.size(), page_bytes_ - filled_);
    XXH3_64bits_update(&state_->xxh, piece.data(), n);
    filled_ += n;
    piece.remove_prefix(n);
    if (filled_ == page_bytes_) end_page();
  }
}

void PageHasher::end_page() {
  pages_.push_back(XXH3_64bits_digest(&state_->xxh));
  XXH3_64bits_reset(&state_->xxh);
  filled_ = 0;
}

std::vector<uint64_t> PageHasher::finish() {
  if (filled_ > 0) end_page();
  return std::move(pages_);
}

}  // namespace xrun
