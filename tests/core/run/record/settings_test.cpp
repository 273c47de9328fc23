#include "core/run/record/settings.h"

#include <gtest/gtest.h>

namespace xrun::settings_test {
namespace {

TEST(Settings, AreFlatInTheOrderOfTheConfig) {
  const Json config = parse_json(
      R"({"beta":0.1,"optim":{"lr":1e-5,"betas":[0.9,0.999]},"data":[{"path":"a","keep":["x"]}],
          "laws":{}})",
      "config");
  const Json origins = parse_json(
      R"({"beta":"--set","optim":"r.lua:3","optim.lr":"r.lua:4","data.1.keep.1":"r.lua:5"})",
      "origins");
  const auto settings = flat_settings(config, origins);
  ASSERT_EQ(settings.size(), 6u);
  EXPECT_EQ(settings[0].key, "beta");
  EXPECT_EQ(settings[0].origin, "--set");
  EXPECT_EQ(settings[1].key, "optim.lr");
  EXPECT_EQ(settings[1].origin, "r.lua:4");
  EXPECT_EQ(settings[2].key, "optim.betas");
  EXPECT_EQ(dump_json(settings[2].value), "[0.9,0.999]");
  EXPECT_EQ(settings[2].origin, "r.lua:3") << "from further up";
  EXPECT_EQ(settings[3].key, "data.1.path");
  EXPECT_EQ(settings[3].origin, "");
  EXPECT_EQ(settings[4].key, "data.1.keep");
  EXPECT_EQ(settings[4].origin, "r.lua:5") << "of the first element";
  EXPECT_EQ(settings[5].key, "laws");
}

TEST(Settings, OfNoObjectAreNone) {
  EXPECT_TRUE(flat_settings(Json(), Json()).empty());
  EXPECT_TRUE(flat_settings(Json::object(), Json("x")).empty());
}

}  // namespace
}  // namespace xrun::settings_test
