#pragma once
// Conversations between the policy and an environment: the policy's turns are sampled and trained,
// the environment's messages are context.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/rollout/rollouts.h"
#include "core/rollout/text_sampler.h"
#include "core/text/chat/turn_tail.h"

namespace xrun {

class AnswerHistory;
class Policy;

// The answer of an environment to a turn.
struct TurnReply {
  Json messages = Json::array();  // [{"role", "content"}]; [] ends the conversation
  double reward = 0;              // added to Rollout::environment_reward
  std::string failure = {};       // not "": the environment failed, which aborts the conversation
};

struct EnvironmentOptions {
  // Called with each turn of each conversation, given by its index in the results; the newest turn
  // is the last of its `turns`. The order of the calls depends on the turns alone, not on the time
  // they took. Empty: there is no environment, and an answer has one turn.
  std::function<TurnReply(size_t conversation, const Rollout& so_far)> reply = {};
  // Turns of the policy; messages after the last one are dropped ("max_turns").
  int64_t max_turns = kMaxTurns;
  // Called at most once by sample_conversations, if the template writes tool calls in a form that
  // is not read (call_format.h). Empty: not reported.
  std::function<void(const std::string& notice)> notify = {};
};

// The prompt of `samples` conversations.
struct ConversationStart {
  int64_t row = -1;
  std::shared_ptr<const std::vector<int32_t>> ids;  // as rendered
  Conversation conversation;
};

struct ConversationOptions {
  TextOptions text = {};  // max_new_tokens of a turn; the draw keys of all turns as in generate()
  EnvironmentOptions environment = {};
  // As RolloutOptions::history. The draft of a turn is the sample's latest turn of the same number,
  // whatever came before it.
  AnswerHistory* history = nullptr;
};

// Samples the conversations of all prompts together. Those of one prompt share its keys, and a
// further turn computes only its new tokens. The ids of a turn are never decoded and encoded again:
// the template's text after a turn (TurnTail) is encoded on its own. A conversation ends when the
// environment ends it, when the environment fails ("aborted") and after max_turns; it ends with
// "length" when a turn reaches max_new_tokens or the conversation info.max_tokens (0: only the
// model's limit).
//   model  computes; null: a dry run, with seeded random turns that all end and log-probs of 0
// Throws Error that names row, sample and turn if the template cannot write the messages.
RolloutList sample_conversations(const Policy& policy, Model* model,
                                 const std::vector<ConversationStart>& starts,
                                 const ConversationOptions& options, const BatchInfo& info);

}  // namespace xrun
