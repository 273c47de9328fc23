// ids = turn 1, tail 1, turn 2, tail 2, ...: a tail is what the template writes after a turn,
// without the token that ended the turn if the policy has sampled one. Turns are answered in the
// order of their requests, whichever finishes first, so an environment that has state sees the
// same order on every machine.

#include "core/rollout/conversations.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/model/model.h"
#include "core/model/ops/moe_routing.h"
#include "core/rollout/answer_history.h"
#include "core/rollout/rollout_sampler.h"
#include "core/rollout/turn_source.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/models/policy.h"

namespace xrun {

namespace {

// Shared by the conversations of a prompt.
struct TurnRules {
  const CallFormat* calls;          // null: tool calls are not read
  Json tools;                       // of the prompt, or null
  std::optional<int32_t> turn_end;  // the special token that the template writes after a turn
};

// Appends the experts of the newest turn, whose request began with all earlier tokens. A token that
// was computed twice keeps the experts of its first forward, which drew the token after it.
void add_routes(Rollout& one, const Generation& turn) {
  if (turn.routes == nullptr) return;
  TokenRoutes all = *turn.routes;
  if (one.routes != nullptr) {
    XRUN_CHECK(all.experts.size() >= one.routes->experts.size(),
               "a turn has routes of {} tokens, fewer than the {} before it", all.token_count(),
               one.routes->token_count());
    std::copy(one.routes->experts.begin(), one.routes->experts.end(), all.experts.begin());
  }
  one.routes = std::make_shared<const TokenRoutes>(std::move(all));
}

class Conversations {
 public:
  // limit  tokens of a conversation, its prompt included
  // vocab  of the model; 0 in a dry run
  Conversations(const Policy& policy, TurnSource& source,
                const std::vector<ConversationStart>& starts, const ConversationOptions& options,
                const BatchInfo& info, int64_t limit, int64_t vocab)
      : policy_(policy),
        tokenizer_(*policy.tokenizer()),
        source_(source),
        starts_(starts),
        text_(options.text),
        environment_(options.environment),
        history_(vocab > 0 ? options.history : nullptr),
        info_(info),
        limit_(limit),
        vocab_(vocab) {}

  RolloutList run() {
    const int64_t samples = text_.generate.samples;
    for (size_t p = 0; p < starts_.size(); ++p) {
      const ConversationStart& start = starts_[p];
      rules_.push_back(rules_of(start.conversation));
      for (int64_t s = 0; s < samples; ++s) {
        auto one = new_rollout(policy_, start.row, start.ids, static_cast<int64_t>(p), s);
        one->prompt_text = tokenizer_.decode(*start.ids, true);
        rollouts_.push_back(std::move(one));
        tails_.emplace_back(tokenizer_, start.conversation);
      }
      // All first turns of a prompt are one request: they share its keys.
      ask(p * static_cast<size_t>(samples), samples);
    }
    while (!asked_.empty()) {
      const size_t first = asked_.front();
      asked_.pop_front();
      const std::vector<TextSample> turns = source_.next();
      for (size_t s = 0; s < turns.size(); ++s) take(first + s, turns[s]);
    }
    source_.report();
    return std::move(rollouts_);
  }

 private:
  static int64_t length(const Rollout& one) {
    return std::ssize(*one.prompt_ids) + std::ssize(one.ids);
  }

  TurnRules rules_of(const Conversation& conversation) {
    const ChatTemplate& chat_template = *conversation.chat_template;
    const CallFormat* const calls = call_format_of(chat_template, conversation.kwargs);
    if (calls == nullptr && environment_.notify && !notified_) {
      notified_ = true;
      environment_.notify(fmt::format(
          "the chat template \"{}\" writes tool calls in a form that is not read, so tool_calls of "
          "a turn is always empty; read turn.text, or set template to one whose calls are read, "
          "such as qwen2.5",
          chat_template.name()));
    }
    const Json* const tools = conversation.kwargs.find("tools");
    return {calls, tools == nullptr ? Json() : *tools, turn_end_of(tokenizer_, chat_template)};
  }

  // The key of the conversation's next turn in the history. Names are below 2^44, and a turn has
  // the draft of the same turn only.
  AnswerHistory::HistoryPrompt history_key(const Rollout& one) const {
    const uint64_t name = text_.generate.prompt_names[static_cast<size_t>(one.prompt)];
    return {*one.prompt_ids, name + (static_cast<uint64_t>(one.turns.size()) << 44), vocab_};
  }

  void ask(size_t conversation, int64_t samples) {
    const Rollout& one = *rollouts_[conversation];
    TurnRequest request{.first = conversation, .samples = samples, .sample = one.sample};
    request.prompt_key = text_.generate.prompt_names[static_cast<size_t>(one.prompt)];
    request.ids = *one.prompt_ids;
    request.ids.insert(request.ids.end(), one.ids.begin(), one.ids.end());
    // `limit_` counts the whole conversation, max_new_tokens one turn.
    request.max_tokens = std::min(text_.generate.max_new_tokens, limit_ - length(one));
    request.is_last = std::ssize(one.turns) + 1 >= environment_.max_turns;
    if (history_ != nullptr) {
      // drafts() begins at sample 0; only the last `samples` are wanted.
      request.drafts = history_->drafts(history_key(one), one.sample + samples);
      request.drafts.erase(request.drafts.begin(), request.drafts.end() - samples);
    }
    source_.ask(std::move(request));
    asked_.push_back(conversation);
  }

  // Returns true if the id ends a turn in the template or for the model. A special token that is
  // only a stop string of the user ends neither, and the template's own end then follows it.
  bool ends_turn(const Rollout& one, int32_t id) const {
    const std::vector<int32_t>& ids = text_.generate.stop_ids;
    return id == rules_[static_cast<size_t>(one.prompt)].turn_end ||
           std::find(ids.begin(), ids.end(), id) != ids.end();
  }

  // Adds a finished turn and asks for the next one, if there is one.
  void take(size_t conversation, const TextSample& turn) {
    Rollout& one = *rollouts_[conversation];
    const Generation& made = turn.generation;
    if (history_ != nullptr) history_->remember(history_key(one), one.sample, made.ids);
    RolloutTurn& added = one.turns.emplace_back();
    added.begin = std::ssize(one.ids);
    one.ids.insert(one.ids.end(), made.ids.begin(), made.ids.end());
    one.logprobs.insert(one.logprobs.end(), made.logprobs.begin(), made.logprobs.end());
    add_routes(one, made);
    one.logprobs_kept.insert(one.logprobs_kept.end(), made.logprobs_kept.begin(),
                             made.logprobs_kept.end());
    added.end = std::ssize(one.ids);
    added.text = one.text = turn.text;
    added.finish = one.finish = turn.reason;
    const bool ended = !made.ids.empty() && ends_turn(one, made.ids.back());
    const std::vector<SampledCall> calls = calls_of(one, made.ids, ended);
    added.calls = calls_json(calls);
    TurnReply reply = environment_.reply(conversation, one);
    one.environment_reward += reply.reward;
    bool continues = false;
    if (!reply.failure.empty()) {
      one.finish = "aborted";
      // A turn that was cut at max_tokens has no end to answer.
    } else if (one.stopped() && reply.messages.size() > 0) {
      if (std::ssize(one.turns) >= environment_.max_turns) {
        one.finish = "max_turns";
      } else {
        continues = continue_with(conversation, calls, std::move(reply.messages), ended);
      }
    }
    // Frees the keys that were held for a next turn.
    if (!continues) source_.end(conversation);
  }

  std::vector<SampledCall> calls_of(const Rollout& one, const std::vector<int32_t>& turn,
                                    bool ended) const {
    const TurnRules& rules = rules_[static_cast<size_t>(one.prompt)];
    if (rules.calls == nullptr) return {};
    const std::span<const int32_t> ids = std::span(turn).first(turn.size() - (ended ? 1 : 0));
    return parse_calls(tokenizer_.decode(ids), *rules.calls, rules.tools);
  }

  // Returns false if there is no room for a further turn.
  bool continue_with(size_t conversation, const std::vector<SampledCall>& calls, Json messages,
                     bool ended) {
    Rollout& one = *rollouts_[conversation];
    std::vector<int32_t> tail;
    try {
      tail = tails_[conversation].append(calls, messages);
    } catch (const Error& error) {
      throw Error(fmt::format("{}: turn {} of sample {}: {}", row_text(info_, one.row),
                              one.turns.size(), one.sample, error.what()));
    }
    // The policy has sampled the end of the turn itself.
    if (ended || one.ids.back() == tail.front()) tail.erase(tail.begin());
    // At least one token of an answer must fit after the tail.
    if (length(one) + std::ssize(tail) >= limit_) {
      one.finish = "length";
      return false;
    }
    one.ids.insert(one.ids.end(), tail.begin(), tail.end());
    one.turns.back().reply = std::move(messages);
    ask(conversation, 1);
    return true;
  }

  const Policy& policy_;
  const Tokenizer& tokenizer_;
  TurnSource& source_;
  const std::vector<ConversationStart>& starts_;
  const TextOptions& text_;
  const EnvironmentOptions& environment_;
  AnswerHistory* const history_;
  const BatchInfo& info_;
  const int64_t limit_, vocab_;
  std::vector<TurnRules> rules_;  // by prompt
  RolloutList rollouts_;
  std::vector<TurnTail> tails_;  // by conversation
  std::deque<size_t> asked_;     // the first conversation of each request
  bool notified_ = false;
};

}  // namespace

RolloutList sample_conversations(const Policy& policy, Model* model,
                                 const std::vector<ConversationStart>& starts,
                                 const ConversationOptions& options, const BatchInfo& info) {
  if (options.environment.max_turns < 1) {
    throw UsageError(
        fmt::format("max_turns is {}, wanted 1 or more: the turns of the policy in a "
                    "conversation",
                    options.environment.max_turns));
  }
  int64_t limit = info.max_tokens > 0 ? info.max_tokens : std::numeric_limits<int32_t>::max();
  std::unique_ptr<TurnSource> source;
  if (model == nullptr) {
    source = random_turns(*policy.tokenizer(), info);
  } else {
    limit = std::min(limit, model->config().max_length);
    source = model_turns(*model, *policy.tokenizer(), options.text);
  }
  const int64_t vocab = model == nullptr ? 0 : model->config().vocab;
  return Conversations(policy, *source, starts, options, info, limit, vocab).run();
}

}  // namespace xrun
