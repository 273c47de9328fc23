// A state copy restores the saved objects exactly.

#include "core/run/state_copy.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <new>

#include "core/base/error.h"
#include "core/train/models/saveable.h"
#include "tests/error_of.h"

namespace xrun::state_copy_test {
namespace {

class Counter : public Saveable {
 public:
  at::Tensor values = at::full({3}, 1.0);
  int64_t count = 0;

  std::vector<NamedTensor> tensors() const override {
    if (count == 0) return {};
    return {{"values", values}};
  }
  Json state() const override { return Json(Json::Object{{"count", count}}); }
  void restore(const TensorSource& tensor, const Json& state) override {
    count = state.at("count").as_int();
    if (count > 0) values.copy_(tensor("values"));
  }
};

TEST(StateCopy, RestoresTheCopiedState) {
  const auto counter = std::make_shared<Counter>();
  const SavedObjects objects = {{"counter", counter}};
  StateCopy kept;
  EXPECT_TRUE(kept.empty());
  kept.keep(objects);
  EXPECT_EQ(kept.bytes(), 0);
  counter->count = 1;
  EXPECT_EQ(StateCopy::bytes_of(objects), 12);
  kept.keep(objects);
  EXPECT_EQ(kept.bytes(), 12);
  counter->values.fill_(5);
  counter->count = 2;
  kept.restore(objects);
  EXPECT_EQ(counter->count, 1);
  EXPECT_EQ(counter->values.sum().item().toDouble(), 3);
  counter->count = 7;
  EXPECT_EQ(error_of([&] {
              kept.restore({{"counter", counter}, {"other", counter}});
            }),
            "cannot restore other: it was not saved in the copy");
  EXPECT_EQ(counter->count, 7) << "no object is touched where one is not known";
}

// Elements 2 and 3 of a tensor of 6, whose others are on other ranks, beside the whole tensor.
class HalfSpread : public Counter {
 public:
  at::Tensor held = at::full({2}, 1.0);

  std::vector<TensorRange> ranges() const override { return {{"spread", {6}, 2, held}}; }
  void restore(const TensorSource& tensor, const Json& state) override {
    Counter::restore(tensor, state);
    held.copy_(tensor.range("spread", {6}, 2, 2));
  }
};

TEST(StateCopy, RestoresRangesAndWholeTensorsOfOneObject) {
  const auto object = std::make_shared<HalfSpread>();
  object->count = 1;
  const SavedObjects objects = {{"object", object}};
  StateCopy kept;
  kept.keep(objects);
  EXPECT_EQ(kept.bytes(), 4 * (3 + 2));
  object->values.fill_(5);
  object->held.fill_(5);
  kept.restore(objects);
  EXPECT_EQ(object->values.sum().item().toDouble(), 3);
  EXPECT_EQ(object->held.sum().item().toDouble(), 2);
}

class Broken : public Counter {
 public:
  std::vector<NamedTensor> tensors() const override { throw std::bad_alloc(); }
};

TEST(StateCopy, IsEmptyAfterAFailedCopy) {
  const auto counter = std::make_shared<Counter>();
  counter->count = 1;
  StateCopy kept;
  kept.keep({{"counter", counter}});
  EXPECT_EQ(message_of<std::bad_alloc>([&] {
              kept.keep({{"counter", counter}, {"z", std::make_shared<Broken>()}});
            }),
            "std::bad_alloc");
  EXPECT_TRUE(kept.empty());
}

}  // namespace
}  // namespace xrun::state_copy_test
