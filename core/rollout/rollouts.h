#pragma once
// Rollouts: answers sampled from a policy, as a batch that trains their tokens.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/json.h"
#include "core/train/batches/batch.h"

namespace xrun {

class CompanionSource;
struct TokenRoutes;

// One turn of the policy in a conversation with an environment.
struct RolloutTurn {
  int64_t begin = 0, end = 0;  // its tokens in Rollout::ids; those after it are the environment's
  std::string text, finish;    // as in Rollout
  Json calls = Json::array();  // {"name", "arguments", "id"} or {"error"} (sampled_calls.h)
  Json reply = Json::array();  // the messages that were rendered after it
};

// {"begin","end","text","finish","tool_calls","reply"}
Json turn_json(const RolloutTurn& turn);
RolloutTurn turn_from(const Json& json);

// {"layers","top_k","experts"}
Json routes_json(const TokenRoutes& routes);
std::shared_ptr<const TokenRoutes> routes_from(const Json& json);

// One sampled answer. Shared by the batches that contain it, so that notes of a step or a reward
// reach the record of its body.
struct Rollout {
  int64_t row = -1;           // of the data set
  std::string location = {};  // "pairs.jsonl:17", once a body records it
  int32_t source = 0;         // of the row
  float weight = 1;           // of the row, in the loss
  int64_t prompt = 0;         // index of its prompt among those sampled; its group
  int64_t sample = 0;         // 0 to samples - 1
  int64_t version = 0;        // updates of the policy that gave it
  std::shared_ptr<const std::vector<int32_t>> prompt_ids;
  std::vector<int32_t> ids;     // the answer, with the token that ended it
  std::vector<float> logprobs;  // of sampled ids, over the whole vocabulary at the temperature
  // Log-probs of the sampled ids over the tokens that top_k, top_p and min_p left; empty without
  // these.
  std::vector<float> logprobs_kept = {};
  std::string prompt_text, text;  // without special tokens; text ends before a stop string
  std::string finish;             // "stop", "stop_string" or "length"
  // Empty unless an environment answered: all ids are sampled. Otherwise `ids` holds everything
  // after the prompt, and `text` and `finish` are those of the last turn; `finish` may also be
  // "max_turns" or "aborted".
  std::vector<RolloutTurn> turns = {};
  double environment_reward = 0;      // the sum of the environment's rewards
  std::optional<double> reward = {};  // absent before scoring, and where it failed
  std::vector<std::pair<std::string, double>> parts = {};  // named parts of the reward
  std::optional<double> advantage = {};                    // of the latest update, if it had one
  // The experts that the sampler chose for prompt and answer, which the model then takes in
  // training too; null: its router chooses.
  std::shared_ptr<const TokenRoutes> routes = nullptr;
  const Model* routed_by = nullptr;  // the model that takes `routes`; only compared, never used
  bool trained = false;              // in an update
  bool stand_in = false;             // random tokens of a dry run

  bool stopped() const { return finish == "stop" || finish == "stop_string"; }
  // Tokens of ids that the policy sampled; logprobs has one for each.
  int64_t sampled_tokens() const;
  bool aborted() const { return finish == "aborted"; }  // its environment failed
};

using RolloutList = std::vector<std::shared_ptr<Rollout>>;

// Returns the tokens of its prompt and those after it: a segment of the batch.
std::vector<int32_t> whole_ids(const Rollout& one);

// The chunks of a batch of rollouts: aligned with a companion (companion_source.h), or one per loss
// row.
struct RolloutChunks {
  // Has a companion for each rollout; null: each loss row is a chunk.
  std::shared_ptr<const CompanionSource> companions;
};

// Throws Error for an extra column of prompts with the name of a field or method of rollouts.
void check_column(const std::string& name);
void check_columns(const Batch& prompts);

// Gives each rollout the source and the loss weight of its prompt's row: rollout i takes those of
// segment of[i] of `prompts`.
void take_row_weights(const RolloutList& rollouts, const Batch& prompts,
                      const std::vector<int64_t>& of);

// A batch with one segment per rollout, in the order (prompt, sample). It trains the tokens of the
// answers, including the one that ended each. Its fields besides those of every batch: sample,
// version, reward (once scored), environment_reward (of conversations), sampler_logprob [R] and
// old_logprob [R] (at first the same values; a recipe may assign the second), the strings prompt,
// text and finish, and every extra column of the prompts; `group` is Rollout::prompt. Log-probs of
// its views are at the temperature at which it was sampled, so that in fp32 on the CPU the ratio to
// old_logprob is exactly 1 before the next update.
class Rollouts : public Batch {
 public:
  // Packs the rollouts as a data set packs its rows: best-fit-decreasing into packs of at most
  // info.max_tokens computed tokens. Without rollouts there is one empty pack. Throws Error that
  // names the row of a rollout that does not fit.
  //   chunks  nullopt: there are none
  Rollouts(BatchInfo info, RolloutList rollouts,
           std::optional<RolloutChunks> chunks = std::nullopt);

  const RolloutList& rollouts() const { return rollouts_; }  // in batch order

  // Returns true if the experts of some answers were recorded (Rollout::routes).
  bool has_routes() const;
  // Returns the experts of rollout i, [tokens, layers, top_k] int64 over prompt and answer except
  // the last token; -1 where none is known. An undefined tensor if they were not recorded.
  at::Tensor routes(int64_t i) const;

  // Returns the rollouts at these indices, ascending, with every field, column and chunk.
  std::shared_ptr<Rollouts> subset(const std::vector<int64_t>& indices) const;
  // Returns the same rollouts with other chunks. Throws Error under fold_weight, which would split
  // the weight of a chunk.
  std::shared_ptr<Rollouts> with_chunks(RolloutChunks chunks) const;

  // Copies the extra columns of the prompts: rollout i gets those of segment of[i] of `prompts`. If
  // the prompts are rollouts themselves, fields that only rollouts have are left out. Throws as
  // check_columns does.
  void set_columns(const Batch& prompts, const std::vector<int64_t>& of);

  // Sets sampler_logprob and old_logprob, [R] in batch order.
  void set_sampler_logprob(const at::Tensor& logprob);

  // Sets the field `reward` from Rollout::reward. Requires a reward on each rollout.
  void set_rewards();

  // Notes on each rollout that an update trained it. Also notes its advantage if the batch has that
  // field with one value per rollout.
  void note_trained() const;

  // In a dry run: if all rewards are equal, replaces them by seeded ones, so that a step has
  // something to learn, and returns true. Does nothing for rollouts of a model.
  bool vary_stand_ins();

  // Returns the indices of the rollouts of each group, groups in batch order.
  std::vector<std::vector<int64_t>> groups() const;

  // Returns the indices of minibatches of `groups` groups each. Every epoch has the groups in
  // another order, a pure function of (seed, step, epoch). The last minibatch of an epoch may be
  // smaller.
  std::vector<std::vector<int64_t>> minibatches(int64_t epochs, int64_t groups) const;

 private:
  std::shared_ptr<Rollouts> copy(const std::vector<int64_t>& indices, BatchInfo info,
                                 std::optional<RolloutChunks> chunks) const;

  RolloutList rollouts_;
  std::optional<RolloutChunks> chunks_;
};

// Returns "prompts.jsonl:17" of a row, or "row 17" where the batch has no names.
std::string row_text(const BatchInfo& info, int64_t row);

}  // namespace xrun
