// Decoding: the cache does not change results; sequences leave the batch one by one and others
// replace them.

#include "core/rollout/generate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/tensor.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/model/model.h"
#include "core/model/ops/linear_head.h"
#include "core/model/weights/init_model.h"
#include "tests/core/model/load_model.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace xrun::generate_test {

namespace {

class GenerateTest : public testing::Test {
 protected:
  void SetUp() override {
    init_model(dir_,
               {.hidden = 32, .ffn = 48, .vocab = 97, .max_length = 40, .scale = 0.3, .seed = 5});
    model_ = load_model(dir_, at::kFloat, true);
  }

  std::string message(const std::vector<std::vector<int32_t>>& prompts) {
    try {
      generate(*model_, prompts, {});
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  const ScratchFolder scratch_;
  const std::filesystem::path dir_ = scratch_ / "model";
  std::shared_ptr<Model> model_;
};

const std::vector<std::vector<int32_t>> kPrompts = {
    {4, 9, 2}, {50}, {7, 7, 7, 8, 30, 31, 60, 61, 5}};

}  // namespace

TEST_F(GenerateTest, EveryTokenIsTheLikeliestOfAFullForward) {
  const std::vector<Generation> got = generate(*model_, kPrompts, {.max_new_tokens = 10});
  const at::NoGradGuard no_grad;
  for (size_t s = 0; s < kPrompts.size(); ++s) {
    std::vector<int32_t> sequence = kPrompts[s];
    for (size_t t = 0; t < got[s].ids.size(); ++t) {
      const PackInput input = pack_sequences({sequence});
      const auto last = static_cast<int64_t>(sequence.size()) - 1;
      const at::Tensor logits = model_->forward(input)[last].matmul(model_->head_weight().t());
      EXPECT_EQ(got[s].ids[t], at::argmax(logits).item<int64_t>()) << s << " " << t;
      const at::Tensor logprob = model_->token_logprob(
          input, at::tensor({last}, at::kLong), at::tensor({int64_t{got[s].ids[t]}}, at::kLong));
      EXPECT_NEAR(got[s].logprobs[t], logprob.item<float>(), 1e-5);
      sequence.push_back(got[s].ids[t]);
    }
  }
}

TEST_F(GenerateTest, LogProbsAreTheBitsOfTheHeadAtAnyTemperature) {
  const at::NoGradGuard no_grad;
  for (const double temperature : {0.35, 0.7, 1.0, 1.6}) {
    const std::vector<Generation> got =
        generate(*model_, kPrompts,
                 {.max_new_tokens = 12,
                  .batch = 2,
                  .sampling = {.temperature = temperature, .top_p = 0.95},
                  .samples = 3});
    for (size_t s = 0; s < got.size(); ++s) {
      std::vector<int32_t> sequence = kPrompts[s / 3];
      std::vector<int64_t> index, target;
      for (const int32_t id : got[s].ids) {
        index.push_back(static_cast<int64_t>(sequence.size()) - 1);
        target.push_back(id);
        sequence.push_back(id);
      }
      const at::Tensor hidden = model_->forward(pack_sequences({sequence}));
      const at::Tensor logprob = model_
                                     ->head(hidden, int64_tensor(index), int64_tensor(target),
                                            {.temperature = temperature})
                                     .logprob;
      for (size_t t = 0; t < index.size(); ++t) {
        EXPECT_EQ(got[s].logprobs[t], logprob[static_cast<int64_t>(t)].item<float>())
            << "temperature " << temperature << ", sequence " << s << ", token " << t;
      }
    }
  }
}

TEST_F(GenerateTest, TheBatchDoesNotChangeASequence) {
  const std::vector<Generation> together = generate(*model_, kPrompts, {.max_new_tokens = 12});
  const std::vector<Generation> alone =
      generate(*model_, kPrompts, {.max_new_tokens = 12, .stop_ids = {}, .batch = 1});
  for (size_t s = 0; s < kPrompts.size(); ++s) EXPECT_EQ(together[s].ids, alone[s].ids);
}

TEST_F(GenerateTest, ASequenceDrawsTheSameTokensInAnyBatch) {
  std::vector<std::vector<int32_t>> prompts;
  for (int32_t i = 0; i < 9; ++i) {
    std::vector<int32_t>& prompt = prompts.emplace_back(kPrompts[static_cast<size_t>(i) % 3]);
    prompt.push_back(i);
  }
  for (const SamplingOptions& sampling :
       {SamplingOptions{.temperature = 1, .seed = 4},
        SamplingOptions{.temperature = 0.8, .top_k = 30, .top_p = 0.9, .min_p = 0.01}}) {
    GenerateOptions options{.max_new_tokens = 12, .stop_ids = {3, 40}, .sampling = sampling};
    const std::vector<Generation> together = generate(*model_, prompts, options);
    for (const int64_t batch : {1, 3, 8}) {
      options.batch = batch;
      const std::vector<Generation> got = generate(*model_, prompts, options);
      for (size_t s = 0; s < prompts.size(); ++s) EXPECT_EQ(got[s].ids, together[s].ids);
    }
    for (size_t s = 0; s < prompts.size(); ++s) {  // by itself, under its name
      options.prompt_names = {s};
      EXPECT_EQ(generate(*model_, {prompts[s]}, options)[0].ids, together[s].ids);
    }
  }
}

TEST_F(GenerateTest, FinishedPromptsAreHandedOnInOrderWhileOthersAreSampled) {
  GenerateOptions options{
      .max_new_tokens = 8, .batch = 2, .sampling = {.temperature = 1}, .samples = 2};
  const std::vector<Generation> want = generate(*model_, kPrompts, options);
  int64_t drawn = 0;
  std::vector<int64_t> drawn_before;  // each call
  std::vector<Generation> got;
  options.on_token = [&](size_t, int32_t) {
    ++drawn;
    return false;
  };
  options.finished = [&](std::vector<Generation> samples) {
    EXPECT_EQ(samples.size(), 2u);
    drawn_before.push_back(drawn);
    for (Generation& one : samples) got.push_back(std::move(one));
  };
  EXPECT_TRUE(generate(*model_, kPrompts, options).empty());
  ASSERT_EQ(drawn_before.size(), kPrompts.size());
  for (size_t p = 0; p + 1 < kPrompts.size(); ++p) EXPECT_LT(drawn_before[p], drawn) << p;
  ASSERT_EQ(got.size(), want.size());
  for (size_t s = 0; s < want.size(); ++s) EXPECT_EQ(got[s].ids, want[s].ids) << s;
}

TEST_F(GenerateTest, AnEqualPromptOfAnotherNameDrawsOtherTokens) {
  const GenerateOptions options{.max_new_tokens = 12, .sampling = {.temperature = 1}};
  const std::vector<Generation> got = generate(*model_, {kPrompts[0], kPrompts[0]}, options);
  EXPECT_NE(got[0].ids, got[1].ids);
  EXPECT_EQ(got[0].ids, generate(*model_, {kPrompts[0]}, options)[0].ids);
}

TEST_F(GenerateTest, SamplesOfOnePromptDifferAndShareItsKeys) {
  GenerateOptions options{.max_new_tokens = 8, .sampling = {.temperature = 1}, .samples = 4};
  const std::vector<Generation> forked = generate(*model_, kPrompts, options);
  ASSERT_EQ(forked.size(), 12u);
  EXPECT_NE(forked[0].ids, forked[1].ids);
  EXPECT_NE(forked[1].ids, forked[2].ids);
  for (const int64_t batch : {1, 3, 5}) {  // some samples begin later than others of their prompt
    options.batch = batch;
    const std::vector<Generation> got = generate(*model_, kPrompts, options);
    for (size_t s = 0; s < got.size(); ++s) EXPECT_EQ(got[s].ids, forked[s].ids) << s;
  }
  options.samples = 1;
  EXPECT_EQ(generate(*model_, kPrompts, options)[1].ids, forked[4].ids);
}

TEST_F(GenerateTest, SlotsAreRefilledWhileOthersContinue) {
  std::vector<size_t> order;
  GenerateOptions options{.max_new_tokens = 6, .batch = 2};
  std::vector<int> made(4);
  options.on_token = [&](size_t sequence, int32_t) {
    order.push_back(sequence);
    return sequence == 0 && ++made[0] == 2;
  };
  std::vector<std::vector<int32_t>> prompts = kPrompts;
  prompts.push_back({8, 8});
  const std::vector<Generation> got = generate(*model_, prompts, options);
  EXPECT_EQ(got[0].ids.size(), 2u);
  EXPECT_EQ(got[0].finish, "stop");
  for (size_t s = 1; s < 4; ++s) EXPECT_EQ(got[s].ids.size(), 6u);
  // Sequence 2 starts before the next token of 1, and 3 before the next of 2.
  EXPECT_EQ(order,
            std::vector<size_t>({0, 1, 0, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 3, 2, 3, 3, 3, 3, 3}))
      << fmt::format("{}", fmt::join(order, ", "));
}

TEST_F(GenerateTest, MemoryLimitsHowManyAreDecodedTogether) {
  int most = 0, live = 0;
  GenerateOptions options{.max_new_tokens = 3, .cache_mb = 0};
  const std::vector<Generation> want = generate(*model_, kPrompts, {.max_new_tokens = 3});
  std::vector<int> made(3);
  options.on_token = [&](size_t sequence, int32_t) {
    live += made[sequence]++ == 0;
    most = std::max(most, live);
    live -= made[sequence] == 3;
    return false;
  };
  const std::vector<Generation> got = generate(*model_, kPrompts, options);
  EXPECT_EQ(most, 1);
  for (size_t s = 0; s < got.size(); ++s) EXPECT_EQ(got[s].ids, want[s].ids);
}

TEST_F(GenerateTest, AStopIdEndsOnlyItsSequence) {
  const std::vector<Generation> free = generate(*model_, kPrompts, {.max_new_tokens = 8});
  const int32_t stop = free[1].ids[2];
  const std::vector<Generation> got =
      generate(*model_, kPrompts, {.max_new_tokens = 8, .stop_ids = {stop}});
  for (size_t s = 0; s < kPrompts.size(); ++s) {
    std::vector<int32_t> want;
    bool stopped = false;
    for (const int32_t id : free[s].ids) {
      want.push_back(id);
      stopped = id == stop;
      if (stopped) break;
    }
    EXPECT_EQ(got[s].ids, want);
    EXPECT_EQ(got[s].finish, stopped ? "stop" : "length");
    EXPECT_EQ(got[s].ids.size(), got[s].logprobs.size());
  }
  EXPECT_EQ(got[1].finish, "stop");
}

TEST_F(GenerateTest, EndsAtTheModelsLimit) {
  const std::vector<Generation> got = generate(*model_, kPrompts, {.max_new_tokens = 1000});
  for (size_t s = 0; s < kPrompts.size(); ++s) {
    EXPECT_EQ(got[s].finish, "length");
    // The last token comes from the model's last position.
    EXPECT_EQ(got[s].ids.size() + kPrompts[s].size(), 41u);
  }
}

TEST_F(GenerateTest, TheProgressCallbackMayEndIt) {
  int calls = 0;
  GenerateOptions options{.max_new_tokens = 20};
  options.progress = [&](int64_t) { return ++calls < 4; };
  const std::vector<Generation> got = generate(*model_, kPrompts, options);
  for (const Generation& g : got) {
    EXPECT_EQ(g.finish, "interrupted");
    EXPECT_EQ(g.ids.size(), 4u);
  }
}

TEST_F(GenerateTest, ZeroTokensAndZeroPromptsAreLegal) {
  EXPECT_TRUE(generate(*model_, {}, {}).empty());
  const std::vector<Generation> none = generate(*model_, kPrompts, {.max_new_tokens = 0});
  EXPECT_TRUE(none[0].ids.empty());
  EXPECT_EQ(none[0].finish, "length");
}

TEST_F(GenerateTest, CallsShareThePackedWeightsOfAnUpdate) {
  int64_t packed = 0;
  GenerateOptions options{.max_new_tokens = 12};
  options.counted = [&](const SamplerCounters& counters) { packed = counters.packed; };
  const std::vector<Generation> first = generate(*model_, kPrompts, options);
  EXPECT_EQ(packed, 1);
  const std::vector<Generation> second = generate(*model_, kPrompts, options);
  EXPECT_EQ(packed, 0) << "the model still has those of the first call";
  for (size_t s = 0; s < first.size(); ++s) EXPECT_EQ(second[s].logprobs, first[s].logprobs);
  {
    const at::NoGradGuard no_grad;
    for (Parameter& p : model_->parameters()) p.master.mul_(1.1);
  }
  ++model_->update_count;
  const std::vector<Generation> updated = generate(*model_, kPrompts, options);
  EXPECT_EQ(packed, 1);
  const auto fresh = model_->clone(false);
  const std::vector<Generation> want = generate(*fresh, kPrompts, options);
  for (size_t s = 0; s < want.size(); ++s) {
    EXPECT_EQ(updated[s].ids, want[s].ids);
    EXPECT_EQ(updated[s].logprobs, want[s].logprobs);
    EXPECT_NE(updated[s].logprobs, first[s].logprobs);
  }
}

TEST_F(GenerateTest, RefusesPromptsThatDoNotFit) {
  EXPECT_EQ(message({{1}, {}}), "prompt 2 is empty; a continuation needs at least one token");
  EXPECT_EQ(message({{97}}), "prompt 1 holds the id 97, outside the model's vocabulary of 97");
  EXPECT_EQ(message({std::vector<int32_t>(41, 1)}),
            "prompt 1 has 41 tokens, the model's limit is 40");
}

TEST_F(GenerateTest, RefusesOptionsOutOfRange) {
  const auto refusal = [&](const GenerateOptions& options) {
    return error_of([&] { generate(*model_, kPrompts, options); });
  };
  EXPECT_EQ(message_of<UsageError>(
                [&] { generate(*model_, kPrompts, {.sampling = {.temperature = -1}}); }),
            "temperature is -1, wanted 0 (the likeliest token) or a number from 0.001 to 1000");
  EXPECT_EQ(refusal({.samples = 0}), "samples is 0, wanted 1 to 1048576");
  EXPECT_EQ(refusal({.batch = 0}), "batch is 0, wanted at least 1");
  EXPECT_EQ(refusal({.prompt_names = {1}}),
            fmt::format("{} prompts have 1 names", kPrompts.size()));
}

TEST_F(GenerateTest, Bf16AndFp16DecodeTheTokensOfTheirForward) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const auto model = load_model(dir_, type, false);
    const std::vector<Generation> got = generate(*model, kPrompts, {.max_new_tokens = 6});
    const at::NoGradGuard no_grad;
    for (size_t s = 0; s < kPrompts.size(); ++s) {
      std::vector<int32_t> sequence = kPrompts[s];
      for (size_t t = 0; t < got[s].ids.size(); ++t) {
        const auto last = static_cast<int64_t>(sequence.size()) - 1;
        const at::Tensor logprob =
            model->token_logprob(pack_sequences({sequence}), at::tensor({last}, at::kLong),
                                 at::tensor({int64_t{got[s].ids[t]}}, at::kLong));
        EXPECT_NEAR(got[s].logprobs[t], logprob.item<float>(), 0.15) << s << " " << t;
        sequence.push_back(got[s].ids[t]);
      }
    }
  }
}

TEST_F(GenerateTest, ALongropeSequenceIsRefilledAtTheOriginalLength) {
  Json config = read_json((dir_ / "config.json").string());
  config.set("rope_parameters", parse_json(R"({"rope_type":"longrope","rope_theta":10000.0,
    "original_max_position_embeddings":8,"short_factor":[1,1,1,1],"long_factor":[2,3,5,9]})",
                                           "rope"));
  write_file_atomic(dir_ / "config.json", dump_json(config));
  const auto model = load_model(dir_, at::kFloat, false);
  const at::NoGradGuard no_grad;
  const std::vector<Generation> got = generate(*model, kPrompts, {.max_new_tokens = 12});
  for (size_t s = 0; s < kPrompts.size(); ++s) {
    std::vector<int32_t> sequence = kPrompts[s];
    ASSERT_EQ(got[s].ids.size(), 12u);
    for (size_t t = 0; t < 12; ++t) {
      const auto last = static_cast<int64_t>(sequence.size()) - 1;
      const at::Tensor logprob =
          model->token_logprob(pack_sequences({sequence}), at::tensor({last}, at::kLong),
                               at::tensor({int64_t{got[s].ids[t]}}, at::kLong));
      EXPECT_NEAR(got[s].logprobs[t], logprob.item<float>(), 1e-4) << s << " " << t;
      sequence.push_back(got[s].ids[t]);
    }
  }
}

}  // namespace xrun::generate_test
