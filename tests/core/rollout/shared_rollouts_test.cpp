// Ranks sample the answers to their own prompts, and each has what one process would sample.

#include "core/rollout/shared_rollouts.h"

#include <gtest/gtest.h>

#include "core/base/temporary_dir.h"
#include "core/model/ops/moe_routing.h"
#include "core/model/weights/init_model.h"
#include "core/rollout/rollout_sampler.h"
#include "core/rollout/watched_rollouts.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/adamw.h"
#include "core/train/models/gradient_exchange.h"
#include "core/train/models/policy.h"
#include "core/train/step.h"
#include "tests/forked_ranks.h"
#include "tests/tree.h"

namespace xrun::shared_rollouts_test {
namespace {

class SharedRollouts : public testing::Test {
 protected:
  void SetUp() override {
    const std::filesystem::path tokenizer = source_path("tests/data/tiny_tokenizer");
    InitOptions options{.family = "qwen3_moe", .hidden = 32, .ffn = 48, .scale = 0.2};
    options.tokenizer = tokenizer;
    options.vocab = Tokenizer::load(tokenizer)->vocab_size();
    options.experts = 4;
    options.top_k = 2;
    options.expert_ffn = 16;
    init_model(folder_.path() / "model", options);
  }

  // Five prompts, two of one row, in one pack.
  static std::shared_ptr<Batch> prompts(Ranks* ranks) {
    PackedBatch pack;
    const std::vector<int64_t> rows = {10, 11, 12, 11, 13};
    for (size_t i = 0; i < rows.size(); ++i) {
      std::vector<int32_t> ids;
      for (int32_t t = 0; t < 5 + static_cast<int32_t>(rows[i] % 7); ++t) {
        ids.push_back((7 * t + static_cast<int32_t>(rows[i])) % 250);
      }
      const auto index = static_cast<int64_t>(i);
      pack.append({.row_id = rows[i], .group_id = index, .segment_id = index}, ids,
                  std::vector<uint8_t>(ids.size(), 0));
    }
    BatchInfo info;
    info.step = 4;
    info.seed = 3;
    info.max_tokens = 60;
    info.ranks = ranks;
    return std::make_shared<Batch>(std::move(info), std::vector<PackedBatch>{pack});
  }

  static std::string text_of(const Rollouts& rollouts) {
    std::string text;
    for (const auto& one : rollouts.rollouts()) {
      text += fmt::format("{} {} {} {} {} {}", one->row, one->prompt, one->sample, one->text,
                          one->finish, one->turns.size());
      for (size_t i = 0; i < one->ids.size(); ++i) text += fmt::format(" {}", one->ids[i]);
      for (const float logprob : one->logprobs) text += fmt::format(" {:a}", logprob);
      if (one->routes) {
        for (const int16_t expert : one->routes->experts) text += fmt::format(" {}", expert);
      }
      text += one->routed_by == nullptr ? "\n" : " routed\n";
    }
    return text;
  }

  TemporaryDir folder_{"shared_rollouts"};
};

TEST_F(SharedRollouts, SlowMatchOneProcessAndSoDoesTheirUpdate) {
  expect_one_process(3, [&](Ranks* ranks) {
    const auto policy = Policy::open(folder_.path() / "model");
    RolloutOptions options{.samples = 3};
    options.text.generate = {.max_new_tokens = 8, .sampling = {.temperature = 1, .seed = 5}};
    options.replay_routes = true;
    const auto rollouts = sample_rollouts(*policy, &policy->model(), *prompts(ranks), options);
    AdamW adamw({policy}, {.lr = 1e-2, .schedule = Schedule::kConstant}, {ranks, 0});
    std::string text = text_of(*rollouts);
    for (int update = 0; update < 2; ++update) {
      std::vector<StepTerm> terms = {{rollouts.get(), [&](MicroBatch& micro) {
                                        const View all = micro.all();
                                        const at::Tensor logprob = policy->token_logprob(all);
                                        ObjectiveResult result;
                                        result.losses.emplace_back(
                                            Unit::kToken,
                                            logprob.sub(all.field("old_logprob")).exp().neg());
                                        return result;
                                      }}};
      const WatchedRollouts watched(terms, adamw);
      StepOptions step;
      step.ranks = ranks;
      Metrics metrics = train_step(terms, &adamw, step);
      UpdateRecord record;
      watched.report(record, metrics, ranks);
      text += record.path() + " " + record.loss + "\n";
      for (const auto& [name, value] : metrics) {
        if (!name.starts_with("perf/")) text += fmt::format("{} {:a}\n", name, value);
      }
    }
    return text;
  });
}

TEST_F(SharedRollouts, TurnsArriveOnEveryRank) {
  expect_one_process(2, [&](Ranks* ranks) {
    const RolloutList made = share_rollouts(
        ranks,
        [&] {
          RolloutList own;
          for (int64_t prompt = 0; prompt < 5; ++prompt) {
            if (!owns_prompt(ranks, prompt)) continue;
            auto one = std::make_shared<Rollout>();
            one->prompt = prompt;
            one->ids = {static_cast<int32_t>(prompt)};
            one->turns.push_back({.begin = 0, .end = 1, .text = "turn", .finish = "stop"});
            own.push_back(one);
          }
          return own;
        },
        [](int64_t prompt, int64_t sample) {
          auto one = std::make_shared<Rollout>();
          one->prompt = prompt;
          one->sample = sample;
          return one;
        });
    std::string text;
    for (const auto& one : made) {
      text += fmt::format("{} {} {}\n", one->prompt, one->ids[0], one->turns[0].text);
    }
    return text;
  });
}

TEST_F(SharedRollouts, AFailureOfOneRankEndsAll) {
  const auto texts = on_ranks(2, [&](Ranks* ranks) -> std::string {
    try {
      share_rollouts(
          ranks,
          [&]() -> RolloutList {
            if (ranks->rank() == 1) throw Error("prompts.jsonl:7: no room");
            return {};
          },
          [](int64_t, int64_t) { return std::make_shared<Rollout>(); });
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  });
  EXPECT_EQ(texts[0], "rank 1 of 2: prompts.jsonl:7: no room");
  EXPECT_EQ(texts[1], "prompts.jsonl:7: no room");
}

}  // namespace
}  // namespace xrun::shared_rollouts_test
