// ids = turn 1, tail 1, turn 2, tail 2, ...: a tail is what the template writes behind a turn,
// without the token that ended the turn if the policy has sampled one. Turns are answered in the
// order in which they were asked for, whichever is finished first, so an environment with a state
// of its own sees the same order on every machine.

#include "core/rollout/conversations.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/model/model.h"
#include "core/rollout/text_stream.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/policy.h"

namespace xrun {

namespace {

// A turn of each of `samples` conversations behind the same ids.
struct TurnRequest {
  size_t first = 0;                 // conversation
  int64_t samples = 1, sample = 0;  // sample: of the first in its group
  uint64_t prompt_key = 0;
  std::vector<int32_t> ids = {};
  int64_t max_tokens = 0;
};

// Samples turns: with a model, or as random tokens in a dry run.
class TurnSource {
 public:
  virtual ~TurnSource() = default;
  virtual void ask(const TurnRequest& request) = 0;
  virtual std::vector<TextSample> next() = 0;  // the turns of the oldest request
};

class ModelTurns : public TurnSource {
 public:
  ModelTurns(Model& model, const Tokenizer& tokenizer, const TextOptions& text)
      : tokenizer_(tokenizer),
        text_(text),
        stop_ids_(text.generate.stop_ids),
        sampler_(model, sampler_options(text.generate)) {
    for (const int32_t id : special_stop_ids(tokenizer, text.stop)) stop_ids_.push_back(id);
  }

  void ask(const TurnRequest& request) override {
    // A deque keeps its elements in place, which the sampler calls back.
    Streams& streams = asked_.emplace_back();
    for (int64_t s = 0; s < request.samples; ++s) {
      streams.push_back(std::make_unique<TextStream>(tokenizer_, text_.stop));
    }
    SampleRequest wanted{.prompt = request.ids,
                         .samples = request.samples,
                         .max_new_tokens = request.max_tokens,
                         .stop_ids = stop_ids_,
                         .sampling = text_.generate.sampling,
                         .prompt_key = request.prompt_key,
                         .first_sample = static_cast<uint32_t>(request.sample),
                         .hold = true};
    wanted.on_token = [&streams](int64_t sample, int32_t id) {
      TextStream& stream = *streams[static_cast<size_t>(sample)];
      stream.push(id);
      return stream.stopped();
    };
    sampler_.submit(std::move(wanted));
  }

  std::vector<TextSample> next() override {
    std::optional<SampledGroup> group = sampler_.poll();
    for (; !group; group = sampler_.poll()) {
      sampler_.step();
      const auto& progress = text_.generate.progress;
      if (progress && !progress(sampler_.counters().tokens)) sampler_.cancel_all();
    }
    std::vector<TextSample> turns;
    for (size_t s = 0; s < group->samples.size(); ++s) {
      TextStream& stream = *asked_.front()[s];
      stream.finish();
      TextSample& turn = turns.emplace_back();
      turn.generation = std::move(group->samples[s]);
      turn.text = stream.text();
      turn.reason = stream.stopped() ? "stop_string" : turn.generation.finish;
    }
    asked_.pop_front();
    return turns;
  }

 private:
  using Streams = std::vector<std::unique_ptr<TextStream>>;

  const Tokenizer& tokenizer_;
  const TextOptions& text_;
  std::vector<int32_t> stop_ids_;
  std::deque<Streams> asked_;
  Sampler sampler_;  // last: it calls the streams
};

// Turns that end, so that a dry run also renders the environment's messages.
class RandomTurns : public TurnSource {
 public:
  RandomTurns(const Tokenizer& tokenizer, const BatchInfo& info)
      : tokenizer_(tokenizer),
        seed_(philox_u64(info.seed, kStreamStandIn, static_cast<uint64_t>(info.step), 1)) {}

  void ask(const TurnRequest& request) override { asked_.push_back(request); }

  std::vector<TextSample> next() override {
    constexpr uint64_t kLongest = 16;
    const TurnRequest request = std::move(asked_.front());
    asked_.pop_front();
    const auto vocab = static_cast<uint64_t>(tokenizer_.vocab_size());
    const uint64_t most = std::min(static_cast<uint64_t>(request.max_tokens), kLongest);
    std::vector<TextSample> turns;
    for (size_t s = 0; s < static_cast<size_t>(request.samples); ++s) {
      const uint64_t bits =
          philox_u64(seed_, kStreamStandIn, request.first + s, request.ids.size());
      TextSample& turn = turns.emplace_back();
      for (uint64_t t = 0; t < 1 + bits % most; ++t) {
        turn.generation.ids.push_back(
            static_cast<int32_t>(philox_u64(bits, kStreamStandIn, 2, t) % vocab));
        turn.generation.logprobs.push_back(0);
      }
      turn.text = tokenizer_.decode(turn.generation.ids, true);
      turn.reason = "stop";
    }
    return turns;
  }

 private:
  const Tokenizer& tokenizer_;
  uint64_t seed_;
  std::deque<TurnRequest> asked_;
};

class Conversations {
 public:
  Conversations(const Policy& policy, TurnSource& source,
                const std::vector<ConversationStart>& starts, const TextOptions& text,
                const EnvironmentOptions& environment, const BatchInfo& info, int64_t limit)
      : policy_(policy),
        tokenizer_(*policy.tokenizer()),
        source_(source),
        starts_(starts),
        text_(text),
        environment_(environment),
        info_(info),
        limit_(limit) {}

  RolloutList run() {
    const int64_t samples = text_.generate.samples;
    for (size_t p = 0; p < starts_.size(); ++p) {
      const ConversationStart& start = starts_[p];
      formats_.push_back(
          call_format_of(*start.conversation.chat_template, start.conversation.kwargs));
      for (int64_t s = 0; s < samples; ++s) {
        auto one = std::make_shared<Rollout>();
        one->row = start.row;
        one->prompt = static_cast<int64_t>(p);
        one->sample = s;
        one->version = policy_.update_count();
        one->prompt_ids = start.ids;
        one->prompt_text = tokenizer_.decode(*start.ids, true);
        one->stand_in = policy_.is_replaced();
        rollouts_.push_back(std::move(one));
        tails_.emplace_back(tokenizer_, start.conversation);
      }
      ask(p * static_cast<size_t>(samples), samples);
    }
    while (!asked_.empty()) {
      const size_t first = asked_.front();
      asked_.pop_front();
      const std::vector<TextSample> turns = source_.next();
      for (size_t s = 0; s < turns.size(); ++s) take(first + s, turns[s]);
    }
    return std::move(rollouts_);
  }

 private:
  static int64_t length(const Rollout& one) {
    return std::ssize(*one.prompt_ids) + std::ssize(one.ids);
  }

  void ask(size_t conversation, int64_t samples) {
    const Rollout& one = *rollouts_[conversation];
    TurnRequest request{.first = conversation, .samples = samples, .sample = one.sample};
    request.prompt_key = text_.generate.prompt_names[static_cast<size_t>(one.prompt)];
    request.ids = *one.prompt_ids;
    request.ids.insert(request.ids.end(), one.ids.begin(), one.ids.end());
    request.max_tokens = std::min(text_.generate.max_new_tokens, limit_ - length(one));
    source_.ask(request);
    asked_.push_back(conversation);
  }

  // Adds a finished turn, and what follows it.
  void take(size_t conversation, const TextSample& turn) {
    Rollout& one = *rollouts_[conversation];
    const Generation& made = turn.generation;
    RolloutTurn& added = one.turns.emplace_back();
    added.begin = std::ssize(one.ids);
    one.ids.insert(one.ids.end(), made.ids.begin(), made.ids.end());
    one.logprobs.insert(one.logprobs.end(), made.logprobs.begin(), made.logprobs.end());
    added.end = std::ssize(one.ids);
    added.text = one.text = turn.text;
    added.finish = one.finish = turn.reason;
    const bool ended = !made.ids.empty() && tokenizer_.is_special(made.ids.back());
    const std::vector<SampledCall> calls =
        parse_calls(tokenizer_.decode(std::span(made.ids).first(made.ids.size() - (ended ? 1 : 0))),
                    formats_[static_cast<size_t>(one.prompt)]);
    added.calls = calls_json(calls);
    TurnReply reply = environment_.reply(conversation, one);
    one.environment_reward += reply.reward;
    if (!reply.failure.empty()) {
      one.finish = "aborted";
    } else if (one.stopped() && reply.messages.size() > 0) {
      if (std::ssize(one.turns) >= environment_.max_turns) {
        one.finish = "max_turns";
      } else {
        continue_with(conversation, calls, std::move(reply.messages), ended);
      }
    }
  }

  void continue_with(size_t conversation, const std::vector<SampledCall>& calls, Json messages,
                     bool ended) {
    Rollout& one = *rollouts_[conversation];
    std::vector<int32_t> tail;
    try {
      tail = tails_[conversation].append(calls, messages);
    } catch (const Interrupted&) {
      throw;
    } catch (const Error& error) {
      throw Error(fmt::format("{}: turn {} of sample {}: {}", row_text(info_, one.row),
                              one.turns.size(), one.sample, error.what()));
    }
    if (ended) tail.erase(tail.begin());
    if (length(one) + std::ssize(tail) >= limit_) {
      one.finish = "length";
      return;
    }
    one.ids.insert(one.ids.end(), tail.begin(), tail.end());
    one.turns.back().reply = std::move(messages);
    ask(conversation, 1);
  }

  const Policy& policy_;
  const Tokenizer& tokenizer_;
  TurnSource& source_;
  const std::vector<ConversationStart>& starts_;
  const TextOptions& text_;
  const EnvironmentOptions& environment_;
  const BatchInfo& info_;
  const int64_t limit_;              // tokens of a conversation, its prompt included
  std::vector<CallFormat> formats_;  // by prompt
  RolloutList rollouts_;
  std::vector<TurnTail> tails_;  // by conversation
  std::deque<size_t> asked_;     // the first conversation of each request
};

}  // namespace

RolloutList sample_conversations(const Policy& policy, Model* model,
                                 const std::vector<ConversationStart>& starts,
                                 const TextOptions& text, const EnvironmentOptions& environment,
                                 const BatchInfo& info) {
  if (environment.max_turns < 1) {
    throw UsageError(
        fmt::format("max_turns is {}, wanted 1 or more: the turns of the policy in a "
                    "conversation",
                    environment.max_turns));
  }
  int64_t limit = info.max_tokens > 0 ? info.max_tokens : std::numeric_limits<int32_t>::max();
  std::unique_ptr<TurnSource> source;
  if (model == nullptr) {
    source = std::make_unique<RandomTurns>(*policy.tokenizer(), info);
  } else {
    limit = std::min(limit, model->config().max_length);
    source = std::make_unique<ModelTurns>(*model, *policy.tokenizer(), text);
  }
  return Conversations(policy, *source, starts, text, environment, info, limit).run();
}

}  // namespace xrun
