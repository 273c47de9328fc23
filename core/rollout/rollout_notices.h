#pragma once
// The lines that the console shows once about the rollouts of a run: how they are trained, and
// signs that a step teaches nothing.

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/rollout/rollout_log.h"

namespace xrun {

class RolloutNotices {
 public:
  // Returns the lines due after a body: its prompts, samples, updates and loss after the first one
  // with an update, and each loss path once; once also that every answer was cut at max_tokens, and
  // that all rewards of every group are equal.
  //   metrics  rollout_metrics of the body
  std::vector<std::string> after_body(int64_t step, const Metrics& metrics,
                                      const BodyRollouts& body);

 private:
  std::string update_line(int64_t step, const BodyRollouts& body);
  std::string cut_line(int64_t step, const BodyRollouts& body);
  std::string equal_line(int64_t step, const Metrics& metrics, const BodyRollouts& body);

  std::set<std::string> paths_;  // reported, without their shares
  bool cut_reported_ = false, equal_reported_ = false;
};

}  // namespace xrun
