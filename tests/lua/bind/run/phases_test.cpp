// Several loops in one run: a reference taken between them, learning rates given by the recipe.

#include "tests/lua/bind/run/two_phases.h"

namespace xrun::phases_test {

using Phases = TwoPhases;

// Two references: the folder's weights, and those that the first loop made.
TEST_F(Phases, SlowAPhaseWithItsReferenceResumesAnywhere) {
  expect_same_when_resumed(two_phases(R"(
  run:log(run:evaluate(valid, later))
  local m = adamw:step(batch, later)
  assert(step > 3 or math.abs(m.loss - math.log(2)) < 1e-6, m.loss)
  run:log(m))"),
                           {2, 3, 4, 5});
}

TEST_F(Phases, ALearningRateMayBeGivenToAStep) {
  EXPECT_EQ(run(head() + R"(
local before = policy:digest()
for step, batch in run:steps(train, cfg.batch) do
  local rate = nil
  if step == 0 then rate = 0 elseif step == 1 then rate = 5e-4 end
  local m = adamw:step(batch, dpo, { lr = rate })
  run:log(m)
  if step == 0 then assert(m.lr == 0 and policy:digest() == before) end
  if step == 1 then assert(m.lr == 5e-4 and policy:digest() ~= before) end
  -- nil is the schedule's own: linear from 1e-3 to 0 over 4 steps
  if step == 2 then assert(math.abs(m.lr - 5e-4) < 1e-12, m.lr) end
  if step == 3 then assert(math.abs(m.lr - 2.5e-4) < 1e-12, m.lr) end
end
)",
                "r"),
            "");
  has(run(head() + "for _, batch in run:steps(train, cfg.batch) do\n"
                   "  adamw:step(batch, dpo, { lr = 'much' })\nend\n",
          "s"),
      "`lr`");
}

// Not of the run, whose steps the loop's length does not count.
TEST_F(Phases, ABatchIsNumberedInItsLoop) {
  ASSERT_EQ(run(two_phases("  run:log(adamw:step(batch, later)) print(tostring(batch))"), "r"), "");
  for (const char* text : {"Batch 0 of 3 (", "Batch 1 of 3 (", "Batch 2 of 3 ("})
    has(output_, text);
}

}  // namespace xrun::phases_test
