#pragma once
// Lines that the console shows about a run's rollouts, each once: how they are trained, and signs
// that a step teaches nothing.

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/rollout/rollout_log.h"

namespace xrun {

class RolloutNotices {
 public:
  // Returns the lines due after a body, each of them once in a run:
  //   after the first body with an update  its prompts, samples, updates and loss
  //   at each new loss path                its name
  //   if every answer was cut              the limit, which may be the model's, and the fix
  //   if rewards vary within no group      the likely causes
  // `metrics` are rollout_metrics of the body.
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
