// "step 0: 8 prompts x 4 samples = 32 answers trained, 1 update, loss: the mean over 1,024 tokens,
// loss path: on-policy"

#include "core/rollout/rollout_notices.h"

#include <algorithm>
#include <map>

#include "core/base/strings.h"

namespace xrun {

namespace {

// "8 prompts x 4 samples = 32 answers trained"; "" if the update trained answers of another body.
std::string trained_text(const BodyRollouts& body) {
  std::map<const void*, int64_t> of_prompt;
  int64_t answers = 0;
  for (const auto& one : body.all) {
    if (!one->trained) continue;
    ++of_prompt[one->prompt_ids.get()];
    ++answers;
  }
  const auto groups = std::ssize(of_prompt);
  if (groups == 0) return "";
  const bool equal = std::ranges::all_of(
      of_prompt, [&](const auto& prompt) { return prompt.second * groups == answers; });
  const std::string text =
      // A product if every prompt has equally many answers left, else the two numbers.
      equal ? fmt::format("{} x {} = {}", counted(groups, "prompt"),
                          counted(answers / groups, "sample"), counted(answers, "answer"))
            : fmt::format("{} to {}", counted(answers, "answer"), counted(groups, "prompt"));
  return text + " trained";
}

}  // namespace

std::string RolloutNotices::update_line(int64_t step, const BodyRollouts& body) {
  const std::string path = body.updates.path();
  // Without the share in brackets, which differs from step to step: one line for each path.
  const std::string kind = path.substr(0, path.find(" ("));
  if (body.updates.updates == 0 || !paths_.insert(kind).second) return "";
  std::string text;
  if (paths_.size() == 1) {
    text = trained_text(body);
    add_item(text, counted(body.updates.updates, "update"));
    add_item(text, "loss: " + body.updates.loss);
  }
  if (!path.empty()) add_item(text, "loss path: " + path);
  if (text.empty()) return "";  // a later update without a policy gradient has no path to name
  return fmt::format("step {}: {}", step, text);
}

std::string RolloutNotices::cut_line(int64_t step, const BodyRollouts& body) {
  const bool cut = std::all_of(body.all.begin(), body.all.end(), [](const auto& one) {
    return one->finish == "length" && !one->stand_in;
  });
  if (cut_reported_ || !cut || body.all.empty()) return "";
  cut_reported_ = true;
  const int64_t answers = std::ssize(body.all);
  int64_t longest = 0, by_model = 0;
  for (const auto& one : body.all) {
    longest = std::max(longest, std::ssize(one->logprobs));
    const int64_t tokens = std::ssize(*one->prompt_ids) + std::ssize(one->ids);
    if (body.model_tokens > 0 && tokens >= body.model_tokens) ++by_model;
  }
  std::string limit = "their limit", fix = "raise max_tokens of the sampling";
  if (by_model > 0) {
    const std::string whole =
        fmt::format("{} for prompt and answer", counted(body.model_tokens, "token"));
    limit = by_model == answers
                ? "the model's limit of " + whole
                : fmt::format("their limit ({} at the model's, {})", count_text(by_model), whole);
    // A larger max_tokens cannot help an answer that fills the model.
    fix = by_model == answers ? "shorten the prompts" : fix + ", shorten the prompts";
  }
  return fmt::format(
      "step {}: none of {} ended by itself; all were cut at {}, the longest after {}: {}, or name "
      "in `stop` a string that ends an answer. rollout/stopped is the share that ends",
      step, counted(answers, "answer"), limit, counted(longest, "token"), fix);
}

std::string RolloutNotices::equal_line(int64_t step, const Metrics& metrics,
                                       const BodyRollouts& body) {
  const auto reward = find_metric(metrics, "rollout/reward");
  if (equal_reported_ || !reward) return "";
  const double groups = find_metric(metrics, "rollout/groups").value_or(0);
  const bool equal = find_metric(metrics, "rollout/zero_variance_groups") == groups;
  // Groups of one sample have no variance to begin with.
  if (!equal || static_cast<double>(body.all.size()) <= groups) return "";
  equal_reported_ = true;
  return fmt::format(
      "step {}: in every group all rewards are equal (mean {:.4f}), so every advantage is 0 and "
      "the step learns nothing from them; the prompts are too hard or too easy, the reward is "
      "wrong, or a temperature near 0 makes all answers the same. rollout/zero_variance_groups "
      "counts such groups",
      step, *reward);
}

std::vector<std::string> RolloutNotices::after_body(int64_t step, const Metrics& metrics,
                                                    const BodyRollouts& body) {
  std::vector<std::string> lines = {update_line(step, body), cut_line(step, body),
                                    equal_line(step, metrics, body)};
  std::erase(lines, "");
  return lines;
}

}  // namespace xrun
