#pragma once
// A tiny model with a sampler, and its answers by other ways: alone, and as a packed forward.

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "core/model/model.h"
#include "core/model/ops/linear_head.h"
#include "core/model/weights/init_model.h"
#include "core/rollout/sampler.h"
#include "tests/core/model/load_model.h"
#include "tests/scratch_folder.h"

namespace xrun {

class SamplerFixture : public testing::Test {
 protected:
  using Ids = std::vector<int32_t>;

  static constexpr int64_t kVocab = 97;
  static inline const SamplingOptions kDraws{.temperature = 0.9, .top_p = 0.95, .seed = 3};

  void SetUp() override {
    init_model(
        dir_,
        {.hidden = 32, .ffn = 48, .vocab = kVocab, .max_length = 300, .scale = 0.3, .seed = 5});
    model_ = load_model(dir_, at::kFloat, true);
  }

  // `length` ids that differ from prompt to prompt.
  static Ids prompt_of(int64_t length, int64_t first) {
    Ids ids;
    for (int64_t i = 0; i < length; ++i) {
      ids.push_back(static_cast<int32_t>((first * 31 + i * i + 7 * i) % kVocab));
    }
    return ids;
  }

  static std::vector<SampledGroup> finish_all(Sampler& sampler) {
    while (sampler.step()) {
    }
    std::vector<SampledGroup> groups;
    while (auto group = sampler.poll()) groups.push_back(std::move(*group));
    return groups;
  }

  Generation alone(const SampleRequest& request, int64_t sample = 0) {
    SampleRequest one = request;
    one.samples = 1;
    one.first_sample += static_cast<uint32_t>(sample);
    Sampler sampler(*model_);
    sampler.submit(one);
    return finish_all(sampler).at(0).samples.at(0);
  }

  // The log-probs of `ids` after `prompt` in a packed forward, at the temperature of kDraws.
  std::vector<float> packed(const Ids& prompt, const Ids& ids) {
    const at::NoGradGuard no_grad;
    Ids all = prompt;
    std::vector<int64_t> index, target;
    for (const int32_t id : ids) {
      index.push_back(std::ssize(all) - 1);
      target.push_back(id);
      all.push_back(id);
    }
    const at::Tensor logprob =
        model_
            ->head(model_->forward(pack_sequences({all})), int64_tensor(index),
                   int64_tensor(target), {.temperature = kDraws.temperature})
            .logprob.contiguous();
    const float* const begin = logprob.const_data_ptr<float>();
    return {begin, begin + logprob.numel()};
  }

  void update_policy() {
    const at::NoGradGuard no_grad;
    for (Parameter& p : model_->parameters()) p.master.mul_(1.1);
    ++model_->update_count;
  }

  static void expect_same(const Generation& got, const Generation& want) {
    EXPECT_EQ(got.ids, want.ids);
    EXPECT_EQ(got.logprobs, want.logprobs);
    EXPECT_EQ(got.logprobs_kept, want.logprobs_kept);
    EXPECT_EQ(got.finish, want.finish);
  }

  const ScratchFolder scratch_;
  const std::filesystem::path dir_ = scratch_ / "model";
  std::shared_ptr<Model> model_;
};

}  // namespace xrun
