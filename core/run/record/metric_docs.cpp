// Rows of a table, in the order of docs/runs.md, then of docs/rollout-metrics.md.

#include "core/run/record/metric_docs.h"

#include <algorithm>

namespace xrun {

namespace {

constexpr MetricDoc kMetricDocs[] = {
    {"train/loss, valid/loss",
     "the objective's loss; a second validation set logs `valid/NAME/loss`"},
    {"accuracy, margin, reward_chosen, reward_rejected",
     "from objectives over pairs, under `train/` and `valid/`: the share of pairs whose chosen "
     "answer has the higher reward, the mean of `reward_chosen` - `reward_rejected`, and the mean "
     "rewards"},
    {"margin_policy, margin_reference",
     "from dpo and pair_losses, under `train/` and `valid/`: the log-prob of chosen minus that of "
     "rejected, under the policy and under the reference"},
    {"logprob_chosen, logprob_rejected, length_chosen, length_rejected",
     "for pairs, under `train/` and `valid/`: the mean log-prob and the mean number of trained "
     "tokens of a side"},
    {"logprob_all, length_all", "the same for rows that are not pairs"},
    {"train/grad_norm, train/lr", "the gradient norm and the learning rate"},
    {"train/skipped",
     "1 in a step without an update, because its losses have weight 0; such a step logs only "
     "this and `train/lr`"},
    {"train/moe/aux_loss, load_max, load_min, idle",
     "for a mixture of experts: the balance loss, the fullest and the emptiest expert as multiples "
     "of an even share, and the share of experts that no token chose (docs/numerics.md)"},
    {"train/loss/SOURCE, train/accuracy/SOURCE, ...",
     "for each source of a mixture, under `train/` and `valid/`: the loss, and each metric with "
     "one value per pair, sequence or token; SOURCE is `data[i].name`, by default the file's name "
     "without its extension"},
    {"train/updates",
     "the number of updates of a body that made several; its other `train/` values are their "
     "means"},
    {"perf/tokens_per_s, perf/step_s", "tokens of a step per second, and its seconds"},
    {"perf/flops_per_s", "floating-point operations that the models of the step need, per second"},
    {"perf/head_recomputed",
     "loss rows of the step whose softmax was computed again because they do not fit `head_mb`"},
    {"perf/moe_counted",
     "forwards before a step of several micro-batches that count the choices of experts, with "
     "`moe.aux`"},
    {"perf/fold_deviation",
     "with `batch.fold_check`: the largest difference between a folded micro-batch and its "
     "separate sequences"},
    {"align/chunks, wrong, one_sided",
     "for a set aligned with a teacher (`texts:align`), in each step: chunks that train (with "
     "equal vocabularies one per token), pairs whose sides spell different bytes, and tokens "
     "without a partner"},
    {"align/invalid",
     "pairs left out because only some of their tokens are trained, or because they begin the "
     "teacher's text, which nothing predicts"},
    {"align/coverage, align/tokens_lost",
     "the share of trained tokens that are in a chunk that trains, and the number of the other "
     "trained tokens"},
    {"align/tokens_cut",
     "the lost tokens that lie beyond the text that the teacher can read: the row is cut there"},
    {"perf/align_s", "seconds spent on aligning the step's documents, mostly on reading the cache"},
    {"sample/length, sample/score, sample/turns",
     "from `run:sample`: the mean number of tokens, the mean score, and with an environment the "
     "mean number of turns; `score` is a function or the name of an extra column that an answer "
     "must contain; answers are greedy unless `temperature` is above 0"},
    {"choices/accuracy, accuracy_mean, accuracy_byte",
     "from `run:choices`: the share of questions whose right choice has the highest log-prob, by "
     "the sum, by the mean per token, and by the mean per byte"},

    {"rollout/reward, rollout/reward_std",
     "mean and standard deviation over the samples of the body"},
    {"rollout/reward/NAME", "mean of a part of the reward"},
    {"rollout/length, length_p50, length_max", "tokens of an answer: mean, median, maximum"},
    {"rollout/stopped", "share of answers that ended before `max_tokens`"},
    {"rollout/turns, truncated, aborted",
     "for conversations with an environment: the mean number of turns, the share that ended as "
     "\"length\" or \"max_turns\", and the share that was aborted"},
    {"rollout/groups, rollout/zero_variance_groups",
     "the number of groups, and of those whose rewards are equal (a standard deviation of at most "
     "1e-6), which teach nothing"},
    {"rollout/failed_rewards", "the number of failed rewards, if there are any"},
    {"rollout/attempts, valid_groups, stale_dropped, waiting_groups",
     "from `xrun.rollouts`: groups sampled in this body, groups with varied rewards, groups "
     "dropped for their age, and groups that wait after the body"},
    {"rollout/total_attempts, total_valid_groups, total_zero_variance_groups, total_stale_dropped",
     "the same since the loop began, including the time before a resume"},
    {"rollout/attempts_per_batch",
     "groups sampled per batch since the loop began; the `groups` of a batch divided by it are "
     "the share of prompts that teach"},
    {"rollout/logprob_diff_mean, logprob_diff_max",
     "over tokens that the current weights sampled: the difference between the log-probs of the "
     "sampler and of the training forward; in fp32 on the CPU exactly 0"},
    {"rollout/token_mult_prob_error, rollout/ratio_outside",
     "over the same tokens: the mean of exp(difference), in fp32 on the CPU exactly 1, and the "
     "share whose ratio is outside [0.9, 1.1], there exactly 0"},
    {"train/ratio_mean, train/ratio_max",
     "over the trained tokens: the ratio to `old_logprob`, at the first update exactly 1 in fp32 "
     "on the CPU"},
    {"train/path_on_policy, path_clipped, path_corrected",
     "shares of the trained tokens of all updates of a step by loss path: sampled by the current "
     "weights; sampled by older weights, with a ratio to `old_logprob`; sampled by older weights, "
     "with `truncated_ratio`"},
    {"rollout/pass_at_1, pass_at_2, ...", "pass@k, if answers pass or fail"},
    {"rollout/groups_all_passed, groups_none_passed",
     "the share of groups in which every answer passes, and in which none passes; the other groups "
     "teach"},
    {"perf/sample_s, perf/reward_s", "seconds of sampling and of rewards"},
    {"perf/early_rewards",
     "rewards (of `score_groups`: groups) that were ready before the last answer was sampled"},
    {"perf/sample_tokens_per_s", "sampled tokens per second of `perf/sample_s`"},
    {"perf/draft_accepted",
     "the share of the sampled tokens that a draft predicted, if there were drafts; a resume does "
     "not repeat this value"},
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

// Returns the row of a name that is written out in the table, or nullptr.
const MetricDoc* find_written(std::string_view name) {
  for (const MetricDoc& doc : metric_docs()) {
    for (const std::string& ours : metric_names(doc)) {
      if (stands_for(ours, name)) return &doc;
    }
  }
  return nullptr;
}

// Returns true if a row has a placeholder for `name`: NAME, or a number after those before "...".
bool has_placeholder(const MetricDoc& doc, std::string_view name) {
  const std::string_view group = name.substr(0, name.size() - last_part_of(name).size());
  if (doc.names.ends_with("/NAME")) {
    return !last_part_of(name).empty() && group == doc.names.substr(0, doc.names.size() - 4);
  }
  const std::string first = metric_names(doc).empty() ? "" : metric_names(doc).front();
  const size_t digits = first.find_last_not_of("0123456789") + 1;
  if (!doc.names.ends_with("...") || digits == first.size()) return false;
  return name.size() > digits && name.starts_with(first.substr(0, digits)) &&
         name.find_first_not_of("0123456789", digits) == std::string_view::npos;
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
  if (const MetricDoc* const doc = find_written(name)) return doc;
  // A metric of one source of a mixture has the metric's own name before the source's.
  const bool of_source =
      (name.starts_with("train/") || name.starts_with("valid/")) &&
      find_written(name.substr(0, std::min(name.rfind('/'), name.size()))) != nullptr;
  for (const MetricDoc& doc : metric_docs()) {
    if (has_placeholder(doc, name)) return &doc;
    if (of_source && doc.names.find("/SOURCE") != std::string_view::npos) return &doc;
  }
  return nullptr;
}

}  // namespace xrun
