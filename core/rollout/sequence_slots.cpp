// A held sequence keeps its slot and its ids. A continuation takes the slot over, so that its keys
// are neither copied nor computed again.

#include "core/rollout/sequence_slots.h"

#include <algorithm>
#include <utility>

#include "core/model/ops/rope.h"

namespace xrun {

int64_t SequenceSlots::open(int64_t capacity, int64_t shared) {
  if (free_.empty()) free_.push_back(slots_++);
  const int64_t slot = free_.back();
  cache_.open(slot, capacity, shared);
  free_.pop_back();  // not before: if the cache throws, the slot is still free
  return slot;
}

void SequenceSlots::close(int64_t slot) {
  cache_.close(slot);
  free_.push_back(slot);
}

void SequenceSlots::hold(HeldSequence sequence) {
  // Gives back the room for tokens that were never drawn.
  cache_.reserve(sequence.slot, std::ssize(sequence.ids));
  held_.push_back(std::move(sequence));
}

SequenceSlots::Held SequenceSlots::find(const std::vector<int32_t>& tokens) {
  const auto frequencies = [&](const std::vector<int32_t>& ids) {
    return rope_frequency_class(config_.rope, std::ssize(ids));
  };
  // The longest held sequence that the tokens extend; the last token is always computed, since its
  // hidden state draws the next one.
  Held best = held_.end();
  for (Held it = held_.begin(); it != held_.end(); ++it) {
    const size_t n = it->ids.size();
    if (n >= tokens.size() || (best != held_.end() && n <= best->ids.size())) continue;
    if (frequencies(it->ids) != frequencies(tokens)) continue;  // its keys have other angles
    if (std::equal(it->ids.begin(), it->ids.end(), tokens.begin())) best = it;
  }
  return best;
}

int64_t SequenceSlots::take(Held held, int64_t capacity) {
  const int64_t slot = held->slot;
  cache_.reserve(slot, capacity);
  held_.erase(held);  // not before: if the cache throws, the sequence is still held
  return slot;
}

void SequenceSlots::release(uint64_t ticket, int64_t sample) {
  const Held found = std::find_if(held_.begin(), held_.end(), [&](const HeldSequence& one) {
    return one.ticket == ticket && one.sample == sample;
  });
  if (found != held_.end()) drop(found);
}

int64_t SequenceSlots::release_held() {
  const int64_t count = std::ssize(held_);
  for (Held it = held_.begin(); it != held_.end();) it = drop(it);
  return count;
}

// Held sequences are dropped in the order in which they were held, oldest first.
bool SequenceSlots::make_room(int64_t bytes, Held wanted) {
  const auto fits = [&] { return cache_.bytes() + bytes <= limit_; };
  for (Held it = held_.begin(); it != held_.end() && !fits();) {
    // The caller is about to take this one over.
    if (it == wanted) {
      ++it;
      continue;
    }
    it = drop(it);
    ++evicted_;
  }
  return fits();
}

SequenceSlots::Held SequenceSlots::drop(Held held) {
  close(held->slot);
  return held_.erase(held);
}

}  // namespace xrun
