// Greedy decoding: the cache changes nothing, sequences leave the batch on their own.

#include "core/model/generate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/model/init_model.h"
#include "core/model/model.h"

namespace xrun {

namespace {

class GenerateTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::temp_directory_path() / fmt::format("xrun_generate_{}", ::getpid());
    std::filesystem::remove_all(dir_);
    init_model(dir_,
               {.hidden = 32, .ffn = 48, .vocab = 97, .max_length = 40, .scale = 0.3, .seed = 5});
    model_ = Model::load(dir_, at::kFloat, true);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  std::string message(const std::vector<std::vector<int32_t>>& prompts) {
    try {
      generate(*model_, prompts, {});
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  std::filesystem::path dir_;
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

TEST_F(GenerateTest, TheBatchDoesNotChangeASequence) {
  const std::vector<Generation> together = generate(*model_, kPrompts, {.max_new_tokens = 12});
  const std::vector<Generation> alone =
      generate(*model_, kPrompts, {.max_new_tokens = 12, .stop_ids = {}, .batch = 1});
  for (size_t s = 0; s < kPrompts.size(); ++s) EXPECT_EQ(together[s].ids, alone[s].ids);
}

TEST_F(GenerateTest, AStopIdEndsItsSequenceAndNoOther) {
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
    // the last token is made from the model's last position
    EXPECT_EQ(got[s].ids.size() + kPrompts[s].size(), 41u);
  }
}

TEST_F(GenerateTest, ProgressMayEndIt) {
  int calls = 0;
  GenerateOptions options{.max_new_tokens = 20};
  options.progress = [&](int64_t) { return ++calls < 4; };
  const std::vector<Generation> got = generate(*model_, kPrompts, options);
  for (const Generation& g : got) {
    EXPECT_EQ(g.finish, "interrupted");
    EXPECT_EQ(g.ids.size(), 4u);
  }
}

TEST_F(GenerateTest, NoTokensAndNoPromptsAreLegal) {
  EXPECT_TRUE(generate(*model_, {}, {}).empty());
  const std::vector<Generation> none = generate(*model_, kPrompts, {.max_new_tokens = 0});
  EXPECT_TRUE(none[0].ids.empty());
  EXPECT_EQ(none[0].finish, "length");
}

TEST_F(GenerateTest, RefusesPromptsThatDoNotFit) {
  EXPECT_EQ(message({{1}, {}}), "prompt 2 is empty; a continuation needs at least one token");
  EXPECT_EQ(message({{97}}), "prompt 1 holds the id 97, outside the model's vocabulary of 97");
  EXPECT_EQ(message({std::vector<int32_t>(41, 1)}),
            "prompt 1 has 41 tokens, the model's limit is 40");
}

TEST_F(GenerateTest, Bf16AndFp16DecodeAsTheirOwnForwardSays) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const auto model = Model::load(dir_, type, false);
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

TEST_F(GenerateTest, ALongropeSequenceIsRefilledWhereItCrosses) {
  Json config = read_json((dir_ / "config.json").string());
  config.set("rope_parameters", parse_json(R"({"rope_type":"longrope","rope_theta":10000.0,
    "original_max_position_embeddings":8,"short_factor":[1,1,1,1],"long_factor":[2,3,5,9]})",
                                           "rope"));
  write_file_atomic(dir_ / "config.json", dump_json(config));
  const auto model = Model::load(dir_, at::kFloat, false);
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

}  // namespace xrun
