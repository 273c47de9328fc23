#pragma once
// Small policies of several families, and prompts with an extra column of each type.

#include <ATen/Parallel.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/model/weights/init_model.h"
#include "core/rollout/rollout_sampler.h"
#include "core/rollout/rollouts.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/models/policy.h"
#include "tests/scratch_folder.h"
#include "tests/tree.h"

namespace xrun {

class RolloutsTest : public testing::Test {
 protected:
  RolloutsTest() { at::set_num_threads(1); }

  std::shared_ptr<Policy> open(const std::string& family, int64_t max_length = 2048) const {
    const std::filesystem::path tokenizer = source_path("tests/data/tiny_tokenizer");
    InitOptions options{.family = family, .hidden = 32, .ffn = 48, .scale = 0.2};
    options.tokenizer = tokenizer;
    options.vocab = Tokenizer::load(tokenizer)->vocab_size();
    if (family == "gpt2") options.kv_heads = options.heads;
    if (family == "qwen3_moe") {
      options.experts = 4;
      options.top_k = 2;
      options.expert_ffn = 16;
    }
    options.max_length = max_length;
    const std::filesystem::path dir = folder_ / fmt::format("{}_{}", family, max_length);
    if (!std::filesystem::exists(dir)) init_model(dir, options);
    return Policy::open(dir);
  }

  // A batch of prompts whose rows are 10, 11, ... (or as given), with a column of each type.
  static std::shared_ptr<Batch> prompts(std::vector<int64_t> rows = {10, 11, 12},
                                        BatchInfo info = {}) {
    info.step = 4;
    info.total_steps = 10;
    PackedBatch pack;
    std::vector<double> level;
    std::vector<std::string> answer;
    for (size_t i = 0; i < rows.size(); ++i) {
      std::vector<int32_t> ids;
      for (int32_t t = 0; t < 5 + 3 * static_cast<int32_t>(rows[i] % 7); ++t) {
        ids.push_back((7 * t + static_cast<int32_t>(rows[i])) % 250);
      }
      const auto index = static_cast<int64_t>(i);
      pack.append({.row_id = rows[i], .group_id = index, .segment_id = index}, ids,
                  std::vector<uint8_t>(ids.size(), 0));
      level.push_back(static_cast<double>(rows[i]) / 2);
      answer.push_back(fmt::format("answer {}", rows[i]));
    }
    auto batch = std::make_shared<Batch>(std::move(info), std::vector<PackedBatch>{pack});
    batch->set_field("level", at::tensor(level, at::kDouble), Unit::kSequence);
    batch->set_strings("answer", answer);
    return batch;
  }

  static RolloutOptions options(double temperature = 1) {
    RolloutOptions made{.samples = 3};
    made.text.generate = {.max_new_tokens = 12,
                          .sampling = {.temperature = temperature, .seed = 5}};
    return made;
  }
  static std::shared_ptr<Rollouts> sample(Policy& policy, const Batch& batch,
                                          const RolloutOptions& options) {
    return sample_rollouts(policy, &policy.model(), batch, options);
  }

  const ScratchFolder scratch_;
  const std::filesystem::path folder_ = scratch_.path();
};

}  // namespace xrun
