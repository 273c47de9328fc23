#pragma once
// The sequences of a golden file of logits, as they are or folded.

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "core/data/packs/packed_batch.h"
#include "core/model/model.h"
#include "core/model/weights/safetensors.h"
#include "core/train/batches/computed_pack.h"

namespace xrun {

// Cuts `tokens` at `cu_seqlens`.
inline std::vector<std::vector<int32_t>> golden_sequences(const SafetensorsFile& golden) {
  const at::Tensor tokens = golden.read("tokens"), cu = golden.read("cu_seqlens");
  std::vector<std::vector<int32_t>> all;
  for (int64_t s = 0; s + 1 < cu.size(0); ++s) {
    std::vector<int32_t>& one = all.emplace_back();
    for (int64_t t = cu[s].item<int32_t>(); t < cu[s + 1].item<int32_t>(); ++t) {
      one.push_back(static_cast<int32_t>(tokens[t].item<int64_t>()));
    }
  }
  return all;
}

// The input computed for the sequences, and the rows to read from the result.
struct GoldenPack {
  PackInput input;
  std::vector<at::Tensor> rows;  // of each copy of the golden's tokens, [T] int64
};

// Folded, the pack has every sequence twice, and once its first half with another ending: the
// prefixes are nodes inside a tree, and all tokens of a sequence are shared.
inline GoldenPack golden_pack(std::vector<std::vector<int32_t>> sequences,
                              const ModelConfig& config, bool folded) {
  if (!folded) {
    PackInput input = pack_sequences(sequences);
    const at::Tensor rows = at::arange(input.tokens.size(0), at::kLong);
    return {std::move(input), {rows}};
  }
  const size_t count = sequences.size();
  for (size_t s = 0; s < count; ++s) sequences.push_back(sequences[s]);
  for (size_t s = 0; s < count; ++s) {
    const auto half = static_cast<std::ptrdiff_t>((sequences[s].size() + 1) / 2);
    auto& begun = sequences.emplace_back(sequences[s].begin(), sequences[s].begin() + half);
    begun.push_back((begun.back() + 1) % 7);
  }
  PackedBatch pack;
  for (const std::vector<int32_t>& ids : sequences) {
    PackedBatch::Segment segment;
    segment.segment_id = pack.segment_count();
    pack.append(segment, ids, std::vector<uint8_t>(ids.size(), 1));
  }
  const ComputedPack computed = computed_pack(pack, {.mode = FoldMode::kAlways, .min_run = 1},
                                              frequency_classes(pack, config), c10::kCPU);
  EXPECT_LT(computed.token_count(), pack.token_count() * 2 / 3);
  const at::Tensor flat_of = int64_tensor(
      std::vector<int64_t>(computed.fold->flat_of.begin(), computed.fold->flat_of.end()));
  const int64_t T = pack.cu_seqlens[count];
  return {computed.input, {flat_of.narrow(0, 0, T), flat_of.narrow(0, T, T)}};
}

}  // namespace xrun
