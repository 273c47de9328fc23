// Slots of the cache change hands without being lost.

#include "core/rollout/sequence_slots.h"

#include <gtest/gtest.h>

#include "tests/error_of.h"

namespace xrun::sequence_slots_test {

TEST(SequenceSlots, ASequenceThatCannotBeTakenIsStillHeld) {
  ModelConfig config;
  config.layers = config.heads = config.kv_heads = 1;
  config.head_dim = 8;
  SequenceSlots slots(config, at::kFloat, at::kCPU, 64);
  const int64_t slot = slots.open(100);
  slots.cache().use_slots({slot});
  slots.cache().advance({0, 3});
  slots.hold({.ids = {5, 6, 7}, .slot = slot, .ticket = 1, .sample = 0});
  const auto held = slots.find({5, 6, 7, 8});
  ASSERT_NE(held, slots.none());
  EXPECT_EQ(error_of([&] { slots.take(held, 2); }),
            "a slot of 2 tokens is too small for the 3 that it holds");
  EXPECT_EQ(slots.find({5, 6, 7, 8}), held);
  EXPECT_EQ(slots.release_held(), 1);
  EXPECT_EQ(slots.open(1), slot);  // free again
}

}  // namespace xrun::sequence_slots_test
