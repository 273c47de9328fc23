// The unchanged recipes/sft.lua, from two files to the losses of a plain PyTorch loop
// (tests/golden/make/sft_steps.py): rendering, ids, masks, weights, mixture, schedule and step.

#include <algorithm>
#include <cmath>

#include "tests/lua/bind/session_fixture.h"
#include "tests/tree.h"

namespace xrun::sft_golden_test {

class SftRecipe : public SessionTest, public testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(Fold, SftRecipe, testing::Values("false", "true"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(SftRecipe, TwentyStepsAgreeWithPlainPyTorch) {
  const std::string source = source_path(), golden = source + "/tests/golden/";
  ASSERT_EQ(
      run(read_file(source + "/recipes/sft.lua"), "r",
          {.sets = {"model=" + golden + "tiny_dpo", "data.1.path=" + golden + "sft_chats.jsonl",
                    "data.2.path=" + golden + "sft_tasks.jsonl", "data.2.fields.weight=weight",
                    "shuffle=false", "valid.fraction=0", "batch.sequences=4", "steps=20",
                    "optim.lr=1e-3", "optim.betas.2=0.95", "optim.weight_decay=0.1",
                    std::string("batch.fold=") + GetParam(), "batch.fold_min=1"}}),
      "");
  EXPECT_EQ(output_.find("folds") != std::string::npos, GetParam() == std::string("true"));
  const Json::Array steps = read_json(golden + "sft_steps.json").at("steps").as_array();
  size_t step = 0;
  for (const std::string& line : metrics("r")) {
    const Json object = parse_json(line, "metrics");
    const Json* loss = object.find("train/loss");
    if (loss == nullptr) continue;
    ASSERT_LT(step, steps.size());
    EXPECT_NEAR(loss->as_double(), steps[step].at("loss").as_double(), 5e-4) << "step " << step;
    EXPECT_NEAR(object.at("train/lr").as_double(), steps[step].at("lr").as_double(), 1e-12);
    ++step;
  }
  EXPECT_EQ(step, steps.size());
}

}  // namespace xrun::sft_golden_test
