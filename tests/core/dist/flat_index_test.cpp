// The flat layout and its ranges.

#include "core/dist/flat_index.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace xrun::flat_index_test {
namespace {

// The shapes of a Llama of this size.
std::vector<TensorShape> decoder(int64_t layers, int64_t hidden, int64_t ffn, int64_t vocab) {
  std::vector<TensorShape> out = {{"model.embed_tokens.weight", {vocab, hidden}}};
  for (int64_t i = 0; i < layers; ++i) {
    const std::string at = fmt::format("model.layers.{}.", i);
    out.push_back({at + "input_layernorm.weight", {hidden}});
    for (const char* name : {"q", "k", "v", "o"}) {
      out.push_back({at + name + "_proj.weight", {hidden, hidden}});
    }
    out.push_back({at + "post_attention_layernorm.weight", {hidden}});
    out.push_back({at + "mlp.gate_proj.weight", {ffn, hidden}});
    out.push_back({at + "mlp.up_proj.weight", {ffn, hidden}});
    out.push_back({at + "mlp.down_proj.weight", {hidden, ffn}});
  }
  out.push_back({"model.norm.weight", {hidden}});
  return out;
}

TEST(FlatIndex, TensorsAreAlignedAndDoNotOverlap) {
  const FlatIndex index({{"a", {3, 5}}, {"b", {}}, {"c", {0, 4}}, {"d", {70000}}});
  ASSERT_EQ(index.buckets().size(), 1u);
  int64_t end = 0;
  for (const FlatTensor& tensor : index.tensors()) {
    EXPECT_EQ(tensor.offset % FlatIndex::kAlign, 0) << tensor.name;
    EXPECT_GE(tensor.offset, end) << tensor.name;
    end = tensor.offset + tensor.elements;
  }
  EXPECT_GE(index.size(), end);
  EXPECT_EQ(index.size() % FlatIndex::kAlign, 0);
  EXPECT_EQ(index.tensors()[1].elements, 1);
  EXPECT_EQ(index.tensors()[2].slice_count, 0);
}

TEST(FlatIndex, SlicesTileEachTensor) {
  const FlatIndex index(decoder(2, 300, 800, 1000));
  for (size_t t = 0; t < index.tensors().size(); ++t) {
    const FlatTensor& tensor = index.tensors()[t];
    int64_t end = 0;
    for (int64_t c = tensor.first_slice; c < tensor.first_slice + tensor.slice_count; ++c) {
      const FlatSlice& slice = index.slices()[static_cast<size_t>(c)];
      EXPECT_EQ(slice.tensor, static_cast<int64_t>(t));
      EXPECT_EQ(slice.begin, end);
      EXPECT_LE(slice.end - slice.begin, kSliceElements);
      end = slice.end;
    }
    EXPECT_EQ(end, tensor.elements) << tensor.name;
  }
}

TEST(FlatIndex, ABucketHoldsTensorsOfOneBlock) {
  const FlatIndex index(decoder(3, 64, 128, 100), 20000);
  for (const FlatBucket& bucket : index.buckets()) {
    for (int64_t t = bucket.first_tensor; t < bucket.first_tensor + bucket.tensor_count; ++t) {
      const std::string& name = index.tensors()[static_cast<size_t>(t)].name;
      EXPECT_TRUE(name.starts_with(bucket.block)) << name << " in " << bucket.block;
    }
  }
  EXPECT_EQ(index.buckets().front().block, "");
  EXPECT_EQ(index.buckets()[1].block, "model.layers.0.");
}

// Of the ranges of `tensors` the buckets from `first` on are those of `alone`.
void expect_group(const std::vector<TensorShape>& tensors, size_t first,
                  const std::vector<TensorShape>& alone) {
  const FlatIndex index(tensors, 20000), wanted(alone, 20000);
  ASSERT_GE(index.buckets().size(), first + wanted.buckets().size());
  for (const int64_t n : {2, 3, 5}) {
    const RankRanges ranges(index, n), wanted_ranges(wanted, n);
    for (size_t b = 0; b < wanted.buckets().size(); ++b) {
      EXPECT_EQ(index.buckets()[first + b].block, wanted.buckets()[b].block);
      EXPECT_EQ(index.buckets()[first + b].tensor_count, wanted.buckets()[b].tensor_count);
      EXPECT_EQ(ranges.sizes(static_cast<int64_t>(first + b)),
                wanted_ranges.sizes(static_cast<int64_t>(b)))
          << n << " ranks, bucket " << b;
    }
  }
}

TEST(RankRanges, AGroupIsDividedAsIfItWereAlone) {
  const std::vector<TensorShape> before = decoder(2, 100, 300, 270);
  std::vector<TensorShape> after = decoder(3, 90, 200, 300), both = before;
  // A first tensor that has the block of the last one before it.
  after.insert(after.begin(), {"head.weight", {100}});
  for (TensorShape one : after) {
    one.group = 1;
    both.push_back(std::move(one));
  }
  expect_group(both, 0, before);
  expect_group(both, FlatIndex(before, 20000).buckets().size(), after);
}

TEST(RankRanges, RangesCoverEveryBucketInRankOrder) {
  const FlatIndex index(decoder(3, 100, 260, 500), 50000);
  for (int64_t n = 1; n <= 9; ++n) {
    const RankRanges ranges(index, n);
    for (int64_t b = 0; b < static_cast<int64_t>(index.buckets().size()); ++b) {
      const FlatBucket& bucket = index.buckets()[static_cast<size_t>(b)];
      EXPECT_EQ(ranges.begin(b, 0), 0);
      EXPECT_EQ(ranges.end(b, n - 1), bucket.size);
      EXPECT_EQ(ranges.first_slice(b, 0), bucket.first_slice);
      EXPECT_EQ(ranges.end_slice(b, n - 1), bucket.first_slice + bucket.slice_count);
      for (int64_t r = 0; r < n; ++r) {
        EXPECT_LE(ranges.begin(b, r), ranges.end(b, r));
        for (int64_t c = ranges.first_slice(b, r); c < ranges.end_slice(b, r); ++c) {
          EXPECT_GE(index.slice_offset(c), ranges.begin(b, r));
          EXPECT_LT(index.slice_offset(c), ranges.end(b, r));
        }
      }
    }
  }
}

TEST(RankRanges, NoRankOwnsMoreThanItsShareAndFivePercent) {
  // 0.5B and 1.5B of Qwen2.5, and 8B of Llama 3 without its head.
  for (const auto& shapes : {decoder(24, 896, 4864, 151936), decoder(28, 1536, 8960, 151936),
                             decoder(32, 4096, 14336, 128256)}) {
    const FlatIndex index(shapes);
    for (const int64_t n : {2, 3, 4, 7, 8, 16, 64}) {
      const RankRanges ranges(index, n);
      const double share = static_cast<double>(index.size()) / static_cast<double>(n);
      for (int64_t r = 0; r < n; ++r) {
        EXPECT_LE(static_cast<double>(ranges.total(r)), 1.05 * share) << r << " of " << n;
      }
    }
  }
}

TEST(RankRanges, AModelOfFewSlicesIsWithinOneSliceOfItsShare) {
  const FlatIndex index(decoder(2, 300, 800, 1000));
  for (int64_t n = 2; n <= 8; ++n) {
    const RankRanges ranges(index, n);
    const double share = static_cast<double>(index.size()) / static_cast<double>(n);
    for (int64_t r = 0; r < n; ++r) {
      EXPECT_LE(static_cast<double>(ranges.total(r)), share + kSliceElements) << r << " of " << n;
    }
  }
}

}  // namespace
}  // namespace xrun::flat_index_test
