#pragma once
// A run of two loops with a reference taken between them.

#include <string>

#include "tests/lua/bind/session_fixture.h"

namespace xrun {

class TwoPhases : public SessionTest {
 protected:
  // Three steps of likelihood, then three of preference against a reference that is taken between
  // the loops. There the folder's own reference, `reference`, is a metric. `body` is the body of
  // the second loop, over `batch` with the objective `later`.
  static std::string two_phases(const std::string& body) {
    return head() + R"(
local function sft(p) return { sequence = -policy:logprob(p.all) } end
for _, batch in run:steps(train, { pairs = 2, max_tokens = 600, steps = 3 }) do
  run:log(adamw:step(batch, sft))
end
local second = policy:reference()
local function later(p)
  local chosen = policy:logprob(p.chosen) - second:logprob(p.chosen)
  local rejected = policy:logprob(p.rejected) - second:logprob(p.rejected)
  local margin = cfg.beta * (chosen - rejected)
  return -margin:log_sigmoid(), { margin = margin, first = reference:logprob(p.chosen) }
end
for step, batch in run:steps(train, { pairs = 4, max_tokens = 600, steps = 3 }) do
)" + body + "\nend\n" +
           kExport;
  }
};

}  // namespace xrun
