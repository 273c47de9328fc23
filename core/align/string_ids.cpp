// All strings are in one arena. A hash table with open addressing holds their numbers, each with 32
// bits of the hash.

#include "core/align/string_ids.h"

#include <algorithm>
#include <bit>

#include "core/text/tokenizer/piece_hash.h"

namespace xrun {

StringIds::StringIds(size_t expected) : slots_(std::bit_ceil(2 * expected + 2)) {
  begin_.reserve(expected + 1);
}

// The tag avoids most reads of the arena.
size_t StringIds::slot_of(std::string_view text, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  const auto tag = static_cast<uint32_t>(hash >> 32);
  size_t slot = hash & mask;
  while (slots_[slot].id >= 0 && (slots_[slot].tag != tag || this->text(slots_[slot].id) != text)) {
    slot = (slot + 1) & mask;
  }
  return slot;
}

int32_t StringIds::add(std::string_view text) {
  const uint64_t hash = hash_piece(text);
  size_t slot = slot_of(text, hash);
  if (slots_[slot].id >= 0) return slots_[slot].id;
  const int32_t id = size();
  arena_ += text;
  begin_.push_back(static_cast<uint32_t>(arena_.size()));
  longest_ = std::max(longest_, text.size());
  if (begin_.size() * 2 > slots_.size()) {
    grow();
  } else {
    slots_[slot] = {static_cast<uint32_t>(hash >> 32), id};
  }
  return id;
}

// Most lookups are of joined tokens, longer than any stored string: skip the hash.
int32_t StringIds::find(std::string_view text) const {
  if (text.size() > longest_) return -1;
  return slots_[slot_of(text, hash_piece(text))].id;
}

// Keeps the numbers; only their slots change.
void StringIds::grow() {
  slots_.assign(slots_.size() * 2, {});
  for (int32_t id = 0; id < size(); ++id) {
    const uint64_t hash = hash_piece(text(id));
    slots_[slot_of(text(id), hash)] = {static_cast<uint32_t>(hash >> 32), id};
  }
}

}  // namespace xrun
