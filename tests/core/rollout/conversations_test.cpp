// Conversations: sampled ids stay, the environment's tokens are context, log-probs are the
// trainer's, and every conversation ends.

#include "core/rollout/conversations.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <span>

#include "core/base/error.h"
#include "core/model/model.h"
#include "core/model/ops/moe_routing.h"
#include "core/model/weights/init_model.h"
#include "core/rollout/answer_history.h"
#include "core/rollout/rollout_log.h"
#include "core/rollout/rollout_sampler.h"
#include "core/text/chat/chat_tokens.h"
#include "core/text/chat/template_families.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/adamw.h"
#include "core/train/models/policy.h"
#include "core/train/step.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"
#include "tests/tree.h"

namespace xrun::conversations_test {
namespace {

Json message(const char* role, const std::string& content) {
  return Json(Json::Object{{"role", role}, {"content", content}});
}

class ConversationsTest : public testing::Test {
 protected:
  ConversationsTest() {
    at::set_num_threads(1);
    open_policy({.family = "llama", .hidden = 32, .ffn = 48, .scale = 0.2});
  }
  void open_policy(InitOptions options) {
    const std::filesystem::path tokenizer = source_path("tests/data/tiny_tokenizer");
    options.tokenizer = tokenizer;
    options.vocab = Tokenizer::load(tokenizer)->vocab_size();
    std::filesystem::remove_all(folder_);
    init_model(folder_, options);
    policy_ = Policy::open(folder_);
  }

  const Tokenizer& tokenizer() const { return *policy_->tokenizer(); }

  static Conversation conversation(int64_t row) {
    for (const BuiltinTemplate& one : builtin_templates()) {
      if (one.name != "chatml") continue;
      return {Json(Json::Array{message("user", fmt::format("say {}", row))}), Json::object(),
              make_jinja_template(std::string(one.source), "chatml", {})};
    }
    throw Error("no template");
  }

  // A batch of prompts of these rows. Random weights seldom end a turn, so letters do.
  std::shared_ptr<Batch> prompts(const std::vector<int64_t>& rows, BatchInfo info = {}) const {
    info.step = 4;
    info.conversations = [](const std::vector<int64_t>& wanted, const Tokenizer&) {
      std::vector<Conversation> found;
      for (const int64_t row : wanted) found.push_back(conversation(row));
      return found;
    };
    PackedBatch pack;
    for (size_t i = 0; i < rows.size(); ++i) {
      const Conversation one = conversation(rows[i]);
      const Json kwargs(Json::Object{{"add_generation_prompt", true}});
      const auto ids = encode_chat(tokenizer(), *one.chat_template, one.messages, kwargs).ids;
      const auto index = static_cast<int64_t>(i);
      pack.append({.row_id = rows[i], .group_id = index, .segment_id = index}, ids,
                  std::vector<uint8_t>(ids.size(), 0));
    }
    return std::make_shared<Batch>(std::move(info), std::vector<PackedBatch>{pack});
  }

  RolloutOptions options(decltype(EnvironmentOptions::reply) reply, int64_t samples = 4) const {
    RolloutOptions made{.samples = samples};
    made.text.generate = {.max_new_tokens = 24, .sampling = {.temperature = 0.8, .seed = 5}};
    for (char c = 'a'; c <= 'z'; ++c) made.text.stop.emplace_back(1, c);
    made.environment = {.reply = std::move(reply), .max_turns = 3};
    return made;
  }

  std::shared_ptr<Rollouts> sample(const Batch& batch, const RolloutOptions& options) const {
    return sample_rollouts(*policy_, &policy_->model(), batch, options);
  }

  // Another message for every turn.
  static TurnReply again(size_t, const Rollout& so_far) {
    return {.messages = Json(Json::Array{
                message("user", fmt::format("go on {}", so_far.turns.back().text.size() % 2))}),
            .reward = 0.5};
  }
  // One message, then the end.
  static TurnReply once(size_t i, const Rollout& so_far) {
    return so_far.turns.size() == 1 ? again(i, so_far) : TurnReply{};
  }

  const ScratchFolder scratch_;
  const std::filesystem::path folder_ = scratch_ / "model";
  std::shared_ptr<Policy> policy_;
};

TEST_F(ConversationsTest, SampledIdsStayAndTheTemplateWritesWhatIsBetween) {
  const auto rollouts = sample(*prompts({10, 11, 12}), options(again));
  int64_t followed = 0;
  for (const auto& one : rollouts->rollouts()) {
    ASSERT_FALSE(one->turns.empty());
    EXPECT_EQ(one->turns[0].begin, 0);
    size_t sampled = 0;
    for (size_t t = 0; t < one->turns.size(); ++t) {
      const RolloutTurn& turn = one->turns[t];
      sampled += static_cast<size_t>(turn.end - turn.begin);
      const auto begin = one->ids.begin();
      const std::vector<int32_t> ids(begin + turn.begin, begin + turn.end);
      EXPECT_TRUE(tokenizer().decode(ids, true).starts_with(turn.text));
      if (t + 1 == one->turns.size()) {
        EXPECT_EQ(turn.end, std::ssize(one->ids));
        EXPECT_EQ(turn.reply.size(), 0u);
        break;
      }
      const std::vector<int32_t> between(begin + turn.end, begin + one->turns[t + 1].begin);
      std::string text = fmt::format("<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n",
                                     turn.reply.as_array().at(0).at("content").as_string());
      const bool ended = ids.back() == *tokenizer().id_of("<|im_end|>");
      EXPECT_EQ(tokenizer().decode(between), (ended ? "\n" : "<|im_end|>\n") + text);
      ++followed;
    }
    EXPECT_EQ(one->logprobs.size(), sampled);
    EXPECT_EQ(one->text, one->turns.back().text);
    EXPECT_EQ(one->environment_reward, 0.5 * static_cast<double>(one->turns.size()));
  }
  EXPECT_GT(followed, 6);
  EXPECT_EQ(rollouts->row_count(), rollouts->field("old_logprob").numel());
}

TEST_F(ConversationsTest, ATurnThatThePolicyEndsIsNotEndedTwice) {
  RolloutOptions random = options(once);  // almost uniform, so that the end of a turn is drawn
  random.text.stop = {};
  random.text.generate.max_new_tokens = 400;
  random.text.generate.sampling.temperature = 50;
  const auto rollouts = sample(*prompts({10, 11}), random);
  int64_t ended = 0;
  for (const auto& one : rollouts->rollouts()) {
    if (one->turns.size() < 2) continue;
    const int64_t end = one->turns[0].end;
    EXPECT_EQ(one->ids[static_cast<size_t>(end) - 1], *tokenizer().id_of("<|im_end|>"));
    const std::span<const int32_t> after = std::span(one->ids).subspan(static_cast<size_t>(end));
    EXPECT_TRUE(tokenizer().decode(after).starts_with("\n<|im_start|>user\n"));
    ++ended;
  }
  EXPECT_GT(ended, 2);
}

TEST_F(ConversationsTest, ASpecialStopStringIsFollowedByTheTemplatesEndOfTurn) {
  RolloutOptions random = options(once);
  random.text.stop = {"<|im_start|>"};
  random.text.generate.max_new_tokens = 400;
  random.text.generate.sampling.temperature = 50;
  const auto rollouts = sample(*prompts({10, 11, 12, 13}), random);
  int64_t stopped = 0;
  for (const auto& one : rollouts->rollouts()) {
    if (one->turns.size() < 2) continue;
    const int64_t end = one->turns[0].end;
    if (one->ids[static_cast<size_t>(end) - 1] != *tokenizer().id_of("<|im_start|>")) continue;
    const std::span<const int32_t> after = std::span(one->ids).subspan(static_cast<size_t>(end));
    EXPECT_TRUE(tokenizer().decode(after).starts_with("<|im_end|>\n<|im_start|>user\n"));
    ++stopped;
  }
  EXPECT_GT(stopped, 1);
}

TEST_F(ConversationsTest, DraftsFromTheHistoryChangeTheTimeAlone) {
  const auto ids = [&](AnswerHistory* history, SamplerCounters& counters) {
    RolloutOptions asked = options(again);
    asked.history = history;
    asked.text.generate.counted = [&](const SamplerCounters& all) { counters = all; };
    std::vector<std::vector<int32_t>> all;
    std::vector<float> logprobs;
    const auto rollouts = sample(*prompts({10, 11, 12}), asked);
    for (const auto& one : rollouts->rollouts()) {
      all.push_back(one->ids);
      logprobs.insert(logprobs.end(), one->logprobs.begin(), one->logprobs.end());
    }
    return std::pair(all, logprobs);
  };
  AnswerHistory history;
  SamplerCounters none, first, second;
  const auto without = ids(nullptr, none);
  EXPECT_EQ(ids(&history, first), without);
  EXPECT_EQ(first.drafted, 0);
  EXPECT_EQ(ids(&history, second), without);
  EXPECT_GT(second.accepted, 0);
  EXPECT_EQ(second.tokens, none.tokens);
  // Each turn has the draft of the same number, so nearly all tokens after the first are accepted.
  int64_t turns = 0, tokens = 0;
  const auto rollouts = sample(*prompts({10, 11, 12}), options(again));
  for (const auto& one : rollouts->rollouts()) {
    turns += std::ssize(one->turns);
    tokens += one->sampled_tokens();
  }
  EXPECT_GT(4 * second.accepted, 3 * (tokens - turns));
}

TEST_F(ConversationsTest, ReplayTheExpertsOfAllTurns) {
  InitOptions mixture{.family = "qwen3_moe", .hidden = 32, .ffn = 48, .scale = 0.2};
  mixture.experts = 6;
  mixture.top_k = 2;
  mixture.expert_ffn = 16;
  open_policy(mixture);
  const auto sampled = [&](bool replay, int64_t cache_mb, FoldMode fold) {
    RolloutOptions asked = options(again);
    asked.replay_routes = replay;
    asked.text.generate.cache_mb = cache_mb;
    BatchInfo info;
    info.fold = {.mode = fold, .min_run = 2};
    info.total_steps = 10;
    return sample(*prompts({10, 11}, info), asked);
  };
  const auto logprob = [&](Rollouts& rollouts) {
    return policy_->LogprobSource::token_logprob(rollouts);
  };
  const auto whole = sampled(true, 4096, FoldMode::kNever);
  const auto evicted = sampled(true, 0, FoldMode::kNever);
  const auto folded = sampled(true, 4096, FoldMode::kAlways);
  const auto free = sampled(false, 4096, FoldMode::kNever);
  size_t several = 0;
  for (size_t i = 0; i < whole->rollouts().size(); ++i) {
    const Rollout& one = *whole->rollouts()[i];
    several += one.turns.size() > 1 ? 1 : 0;
    ASSERT_NE(one.routes, nullptr);
    EXPECT_EQ(one.routes->token_count() + 1, std::ssize(*one.prompt_ids) + std::ssize(one.ids));
    EXPECT_EQ(std::count(one.routes->experts.begin(), one.routes->experts.end(), -1), 0);
    EXPECT_EQ(evicted->rollouts()[i]->routes->experts, one.routes->experts);
    EXPECT_EQ(free->rollouts()[i]->routes, nullptr);
  }
  EXPECT_GT(several, 3u);
  for (const auto& one : {whole, folded}) {
    EXPECT_TRUE(logprob(*one).equal(one->field("old_logprob")));
  }
  {  // every router now prefers the experts that it preferred least
    const at::NoGradGuard no_grad;
    for (Parameter& parameter : policy_->model().parameters()) {
      if (parameter.name.ends_with("mlp.gate.weight")) parameter.master.neg_();
    }
    ++policy_->model().update_count;
  }
  EXPECT_TRUE(logprob(*folded).equal(logprob(*whole)));
  EXPECT_FALSE(logprob(*free).equal(logprob(*whole))) << "routing has changed";
}

TEST_F(ConversationsTest, ATemplateWhoseCallsAreNotReadIsReportedOncePerCall) {
  BatchInfo info;
  const auto batch = prompts({10, 11}, info);
  const auto notices = [&](const std::string& call) {
    BatchInfo other = batch->info();
    other.conversations = [&](const std::vector<int64_t>& rows, const Tokenizer&) {
      std::vector<Conversation> found;
      for (const int64_t row : rows) {
        found.push_back(conversation(row));
        found.back().chat_template = make_jinja_template(
            "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
            "{% for c in m.tool_calls or [] %}" +
                call + "{% endfor %}<|im_end|>\n{% endfor %}",
            "mine", {});
      }
      return found;
    };
    std::vector<std::string> said;
    RolloutOptions asked = options(once);
    asked.environment.notify = [&](const std::string& notice) { said.push_back(notice); };
    sample(Batch(other, {batch->micros()[0]->pack()}), asked);
    return said;
  };
  const auto said = notices("{{ c.function.name }}: {{ c.function.arguments }}");
  ASSERT_EQ(said.size(), 1u);
  EXPECT_TRUE(
      said[0].starts_with("the chat template \"mine\" writes tool calls in a form that is "
                          "not read, so tool_calls of a turn is always empty; "))
      << said[0];
  EXPECT_TRUE(notices("<tool_call>{{ c.function | tojson }}</tool_call>").empty());
  EXPECT_TRUE(notices("").empty()) << "the form of Hermes is the default";
}

TEST_F(ConversationsTest, TheRatioOfTheFirstUpdateIsExactlyOneFoldedOrNot) {
  AdamW adamw({policy_}, {.lr = 1e-2});
  std::vector<at::Tensor> scored;
  for (const FoldMode fold : {FoldMode::kNever, FoldMode::kAlways}) {
    BatchInfo info;
    info.fold = {.mode = fold, .min_run = 2};
    info.max_tokens = 400;
    const auto rollouts = sample(*prompts({10, 11, 12}, info), options(once));
    EXPECT_GT(rollouts->row_count(), 30);
    scored.push_back(policy_->LogprobSource::token_logprob(*rollouts));
    EXPECT_TRUE(scored.back().equal(rollouts->field("old_logprob")));
    int64_t others = 0;
    const Objective ratio = [&](MicroBatch& micro) {
      bool by_row = false;
      const at::Tensor rho =
          policy_->token_logprob(micro.all()).sub(micro.field("old_logprob", &by_row)).exp();
      others += rho.detach().ne(1).sum().item().toLong();
      return ObjectiveResult{{{Unit::kToken, rho.neg()}}, {}};
    };
    train_step({{rollouts.get(), ratio}}, &adamw, {.read_gradients = [] {}});
    EXPECT_EQ(others, 0);
  }
  EXPECT_TRUE(scored[0].equal(scored[1]));
}

TEST_F(ConversationsTest, DependOnTheRowAndTheSampleAndNotOnTheBatch) {
  const auto all = [&](const std::vector<int64_t>& rows, RolloutOptions options) {
    std::vector<std::vector<int32_t>> ids;
    const auto rollouts = sample(*prompts(rows), options);
    for (const auto& one : rollouts->rollouts()) ids.push_back(one->ids);
    return ids;
  };
  const auto first = all({10, 11, 12}, options(again));
  EXPECT_EQ(all({10, 11, 12}, options(again)), first);
  const auto other = all({12, 10}, options(again));
  EXPECT_EQ(std::vector(other.begin(), other.begin() + 4),
            std::vector(first.begin() + 8, first.end()));
  EXPECT_EQ(all({11}, options(again, 2))[1], first[5]);
  RolloutOptions small = options(again);
  small.text.generate.batch = 1;
  EXPECT_EQ(all({10, 11, 12}, small), first);
}

TEST_F(ConversationsTest, EveryConversationEnds) {
  const auto finishes = [&](const RolloutOptions& options, int64_t max_tokens = 0) {
    BatchInfo info;
    info.max_tokens = max_tokens;
    std::map<std::string, int64_t> counts;
    const auto rollouts = sample(*prompts({10, 11}, info), options);
    for (const auto& one : rollouts->rollouts()) {
      ++counts[one->finish];
      EXPECT_LE(std::ssize(one->turns), options.environment.max_turns);
      if (max_tokens > 0) {
        EXPECT_LE(std::ssize(*one->prompt_ids) + std::ssize(one->ids), max_tokens);
      }
    }
    return counts;
  };
  RolloutOptions endless = options(again);
  EXPECT_GT(finishes(endless)["max_turns"], 2);
  endless.environment.max_turns = 1000;
  const int64_t prompt = std::ssize(*sample(*prompts({10}), endless)->rollouts()[0]->prompt_ids);
  EXPECT_EQ(finishes(endless, prompt + 80)["length"], 8);
  RolloutOptions silent = options(again);
  silent.text.stop = {"never"};
  EXPECT_EQ(finishes(silent)["length"], 8) << "a turn without an end is not continued";
  RolloutOptions failing = options(
      [](size_t i, const Rollout&) { return i == 3 ? TurnReply{.failure = "no"} : TurnReply{}; });
  EXPECT_EQ(finishes(failing)["aborted"], 1);
  RolloutOptions none = options(again);
  none.environment.max_turns = 0;
  EXPECT_EQ(error_of([&] { finishes(none); }),
            "max_turns is 0, wanted 1 or more: the turns of the policy in a conversation");
}

TEST_F(ConversationsTest, MetricsAndTheRecordCountTurns) {
  BodyRollouts body;
  body.all = sample(*prompts({10, 11}), options(once))->rollouts();
  double turns = 0;
  for (size_t i = 0; i < 8; ++i) {
    body.all[i]->finish = i == 0 ? "aborted" : i < 3 ? "max_turns" : i < 4 ? "length" : "stop";
    turns += static_cast<double>(body.all[i]->turns.size()) / 8;
  }
  const Metrics metrics = rollout_metrics(body);
  EXPECT_DOUBLE_EQ(find_metric(metrics, "rollout/turns").value(), turns);
  EXPECT_DOUBLE_EQ(find_metric(metrics, "rollout/truncated").value(), 3.0 / 8);
  EXPECT_DOUBLE_EQ(find_metric(metrics, "rollout/aborted").value(), 1.0 / 8);
  EXPECT_DOUBLE_EQ(find_metric(metrics, "rollout/stopped").value(), 4.0 / 8);
  write_rollouts(folder_ / "rollouts", 0, body);
}

TEST_F(ConversationsTest, ATemplateThatRefusesTheMessagesIsNamedWithRowSampleAndTurn) {
  const auto batch = prompts({10});
  BatchInfo info = batch->info();
  info.row_name = [](int64_t row) { return fmt::format("p.jsonl:{}", row); };
  info.conversations = [](const std::vector<int64_t>&, const Tokenizer&) {
    Conversation one = conversation(10);
    one.chat_template =
        make_jinja_template("{% for m in messages %}{{ m.content }}{% endfor %}", "plain", {});
    return std::vector<Conversation>{one};
  };
  const Batch plain(info, {batch->micros()[0]->pack()});
  const std::string error = error_of([&] { sample(plain, options(again)); });
  EXPECT_TRUE(error.starts_with("p.jsonl:10: turn 1 of sample ")) << error;
  EXPECT_NE(error.find("the chat template \"plain\" cannot continue a sampled turn: it writes no "
                       "special token after a turn"),
            std::string::npos)
      << error;
}

}  // namespace
}  // namespace xrun::conversations_test
