// Extra columns of numbers in a loss: as the margin of a pair and as its weight.

#include <cmath>
#include <numbers>

#include "tests/lua/bind/session_fixture.h"

namespace xrun::extra_column_test {

class ExtraColumnTest : public SessionTest {
 protected:
  // Pairs in the files' order; every batch of four has the gaps 0.5, 1.5, 0.5, 1.5.
  ExtraColumnTest() {
    const std::string text = read_file("pairs.jsonl");
    std::string rows;
    int64_t i = 0;
    for (size_t at = 0; at < text.size(); ++i) {
      const size_t end = text.find('\n', at);
      Json row = parse_json(std::string_view(text).substr(at, end - at), "pairs.jsonl");
      row.set("gap", i % 2 == 0 ? 0.5 : 1.5);
      rows += dump_json(row) + "\n";
      at = end + 1;
    }
    write_file_atomic("pairs.jsonl", rows);
  }

  // Returns the loss of the first step, where every margin of DPO is 0. The objective ends with
  // `returned`.
  double first_loss(const std::string& returned) {
    std::string recipe = head("fraction = 0");
    const std::string topic = R"("topic")";
    recipe.replace(recipe.find(topic), topic.size(), R"("gap")");
    recipe +=
        "local function gapped(p)\n"
        "  local loss, metrics = dpo(p)\n"
        "  local margin = metrics.margin\n"
        "  return " +
        returned +
        ", { loss_of_dpo = loss }\n"
        "end\n"
        "for step, batch in run:steps(train, cfg.batch) do run:log(adamw:step(batch, gapped)) "
        "end\n";
    EXPECT_EQ(run(recipe, "r", {.steps = 1, .sets = {"shuffle=false"}}), "");
    const Json first = parse_json(metrics("r").at(0), "metrics");
    EXPECT_NEAR(first.at("train/loss_of_dpo").as_double(), std::numbers::ln2, 1e-6);
    return first.at("train/loss").as_double();
  }
};

TEST_F(ExtraColumnTest, IsAMarginOfTheLoss) {
  const double wanted = (std::log1p(std::exp(0.5)) + std::log1p(std::exp(1.5))) / 2;
  EXPECT_NEAR(first_loss("-(margin - p.gap):log_sigmoid()"), wanted, 1e-6);
}

TEST_F(ExtraColumnTest, WeighsTheLoss) {
  EXPECT_NEAR(first_loss("p.gap * loss"), std::numbers::ln2, 1e-6);
  std::filesystem::remove_all("r");
  EXPECT_NEAR(first_loss("(p.gap - 0.5) * loss"), std::numbers::ln2 / 2, 1e-6);
}

}  // namespace xrun::extra_column_test
