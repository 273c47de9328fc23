// Rows of a table, in the order of docs/runs.md, then of docs/rollout-metrics.md.

#include "core/run/record/metric_docs.h"

#include <algorithm>

namespace xrun {

namespace {

constexpr MetricDoc kMetricDocs[] = {
    {"train/loss, valid/loss",
     "the objective's loss; of a second validation set `valid/NAME/loss`"},
    {"accuracy, margin, reward_chosen, reward_rejected",
     "of objectives over pairs, under `train/` and `valid/`: the share of pairs with a higher "
     "reward of chosen, the mean of `reward_chosen` - `reward_rejected`, and the mean rewards"},
    {"margin_policy, margin_reference",
     "of dpo and pair_losses, under `train/` and `valid/`: the log-prob of chosen minus that of "
     "rejected, under the policy and under the reference"},
    {"logprob_chosen, logprob_rejected, length_chosen, length_rejected",
     "of pairs, under `train/` and `valid/`: the mean log-prob and the mean number of trained "
     "tokens of a side"},
    {"logprob_all, length_all", "of rows that are not pairs: the same two means"},
    {"train/grad_norm, train/lr", "the gradient norm and the learning rate"},
    {"train/skipped",
     "1 in a step without an update, because its losses have weight 0; such a step logs only "
     "this and `train/lr`"},
    {"train/moe/aux_loss, load_max, load_min, idle",
     "of a mixture of experts: the balance loss, the fullest and the emptiest expert as "
     "multiples of an even share, the share of experts that no token chose (docs/numerics.md)"},
    {"train/loss/SOURCE, train/accuracy/SOURCE, ...",
     "of each source of a mixture, under `train/` and `valid/`: the loss, and each metric with "
     "one value per pair, sequence or token; SOURCE is `data[i].name`, by default the file's "
     "name without its extension"},
    {"train/updates",
     "updates of a body that made several; its other `train/` values are their means"},
    {"perf/tokens_per_s, perf/step_s", "tokens of a step per second, and its seconds"},
    {"perf/flops_per_s", "floating-point operations that the models of the step need, per second"},
    {"perf/head_recomputed",
     "loss rows of the step whose softmax was computed again, since `head_mb` does not hold them"},
    {"perf/moe_counted",
     "forwards before a step of several micro-batches that count the choices of experts, with "
     "`moe.aux`"},
    {"perf/fold_deviation",
     "with `batch.fold_check`: the largest difference between a folded micro-batch and its "
     "separate sequences"},
    {"align/chunks, wrong, one_sided",
     "of a set aligned with a teacher (`texts:align`), each step: chunks that train (one per token "
     "if the vocabularies are equal), pairs whose sides spell different bytes, tokens without a "
     "partner"},
    {"align/invalid",
     "pairs left out because only some of their tokens are trained, or because they begin the "
     "teacher's text, which nothing predicts"},
    {"align/coverage, align/tokens_lost",
     "the share of trained tokens that are in a chunk that trains, and the number of those that "
     "are not"},
    {"align/tokens_cut",
     "of the tokens lost, those beyond the last text that the teacher can read: the row is cut "
     "there"},
    {"perf/align_s",
     "seconds in which the step's documents were aligned, mostly reads of the cache"},
    {"sample/length, sample/score, sample/turns",
     "of `run:sample` (turns with an environment), whose `score` is a function or the name of an "
     "extra column that an answer must contain; greedy unless `temperature` is above 0"},
    {"choices/accuracy, accuracy_mean, accuracy_byte",
     "of `run:choices`: the share of questions whose right choice has the highest log-prob, by "
     "the sum, by the mean per token, by the mean per byte"},

    {"rollout/reward, rollout/reward_std", "mean and deviation over the body's samples"},
    {"rollout/reward/NAME", "mean of a part of the reward"},
    {"rollout/length, length_p50, length_max", "tokens of an answer: mean, median, maximum"},
    {"rollout/stopped", "share of answers that ended before `max_tokens`"},
    {"rollout/turns, truncated, aborted",
     "of conversations with an environment: mean number of turns; shares that ended as "
     "\"length\" or \"max_turns\", and that were aborted"},
    {"rollout/groups, rollout/zero_variance_groups",
     "groups, and those whose rewards are equal (a deviation of at most 1e-6): they teach "
     "nothing"},
    {"rollout/failed_rewards", "failed rewards, if there are any"},
    {"rollout/attempts, valid_groups, stale_dropped, waiting_groups",
     "of `xrun.rollouts`: groups sampled in this body, those with varied rewards, those dropped "
     "for their age, those that wait after it"},
    {"rollout/total_attempts, total_valid_groups, total_zero_variance_groups, total_stale_dropped",
     "the same counts since the loop began, across resumes"},
    {"rollout/attempts_per_batch",
     "groups sampled per batch since the loop began; the `groups` of a batch divided by it are "
     "the share of prompts that teach"},
    {"rollout/logprob_diff_mean, logprob_diff_max",
     "over tokens that the present weights sampled: the distance between the sampler's log-prob "
     "and the training forward's; in fp32 on the CPU exactly 0"},
    {"rollout/token_mult_prob_error, rollout/ratio_outside",
     "of the same tokens: the mean of exp(distance), in fp32 on the CPU exactly 1, and the share "
     "whose ratio leaves [0.9, 1.1], there exactly 0"},
    {"train/ratio_mean, train/ratio_max",
     "of the trained tokens: the ratio to `old_logprob`, exactly 1 at the first update in fp32 "
     "on the CPU"},
    {"train/path_on_policy, path_clipped, path_corrected",
     "shares of the trained tokens of all updates of a step by the loss path: sampled by the "
     "present weights; by older ones, with a ratio to `old_logprob`; the same, with "
     "`truncated_ratio`"},
    {"rollout/pass_at_1, pass_at_2, ...", "pass@k, where answers pass or fail"},
    {"rollout/groups_all_passed, groups_none_passed",
     "shares of groups in which every answer passes, and in which none does; the rest teach"},
    {"perf/sample_s, perf/reward_s", "seconds of sampling, and of rewards"},
    {"perf/early_rewards",
     "rewards (of `score_groups`: groups) that were ready before the last answer was sampled"},
    {"perf/sample_tokens_per_s", "sampled tokens per second of `perf/sample_s`"},
    {"perf/draft_accepted",
     "share of the drawn tokens that a draft predicted, if there were drafts; a resume does not "
     "repeat it"},
};

std::string_view last_part_of(std::string_view name) { return name.substr(name.rfind('/') + 1); }

bool is_placeholder(std::string_view name) {
  return name == "..." || name.ends_with("/NAME") || name.ends_with("/SOURCE");
}

// Returns true if the documented name `ours` stands for `name`.
bool stands_for(const std::string& ours, std::string_view name) {
  if (ours == name) return true;
  const bool valid = name.starts_with("valid/");
  if (!valid && !name.starts_with("train/")) return false;
  const bool of_objective = ours.find('/') == std::string::npos;
  return (of_objective || (valid && ours.starts_with("valid/"))) &&
         last_part_of(name) == last_part_of(ours);
}

}  // namespace

std::span<const MetricDoc> metric_docs() { return kMetricDocs; }

// A later name has the group of the first one unless it begins with one itself.
std::vector<std::string> metric_names(const MetricDoc& doc) {
  std::vector<std::string> names;
  std::string group;
  std::string_view rest = doc.names;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(','), rest.size());
    const std::string name(rest.substr(0, end));
    const size_t slash = name.rfind('/');
    if (names.empty() && slash != std::string::npos) group = name.substr(0, slash + 1);
    if (!is_placeholder(name)) names.push_back(slash == std::string::npos ? group + name : name);
    rest.remove_prefix(std::min(end + 2, rest.size()));
  }
  return names;
}

const MetricDoc* find_metric_doc(std::string_view name) {
  for (const MetricDoc& doc : metric_docs()) {
    for (const std::string& ours : metric_names(doc)) {
      if (stands_for(ours, name)) return &doc;
    }
  }
  return nullptr;
}

}  // namespace xrun
