// The objectives of the shipped recipes against TRL's losses of the same 64 pairs of given
// log-probs (tests/golden/make/preference_losses.py).

#include <cmath>
#include <filesystem>

#include "tests/lua/bind/given_logprobs.h"

namespace xrun {

class PreferenceLosses : public GivenLogprobs {
 protected:
  const Json golden_ = read_json(source_path("tests/golden/preference_losses.json"));
};

TEST_F(PreferenceLosses, OfEveryRecipeAreThoseOfTrl) {
  for (const auto& [recipe, wanted] : golden_.at("recipes").as_object()) {
    SCOPED_TRACE(recipe);
    at::Tensor got;
    try {
      got = losses(recipe, wanted.at("settings"), golden_.at("pairs"));
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
      continue;
    }
    expect_near(got, wanted.at("loss"));
  }
}

TEST_F(PreferenceLosses, OfEveryRecipeOfPairsAreInTheGolden) {
  for (const auto& file : std::filesystem::directory_iterator(source_path("recipes"))) {
    if (file.path().extension() != ".lua") continue;
    if (read_file(file.path()).find("p.chosen") == std::string::npos) continue;
    EXPECT_NE(golden_.at("recipes").find(file.path().stem().string()), nullptr) << file.path();
  }
}

TEST_F(PreferenceLosses, AnotherSettingGivesOtherLosses) {
  const Json& wanted = golden_.at("recipes").at("rpo");
  const Json settings(Json::Object{{"alpha", 0.25}, {"beta", wanted.at("settings").at("beta")}});
  const at::Tensor got = losses("rpo", settings, golden_.at("pairs")).contiguous();
  EXPECT_GT(std::abs(got.const_data_ptr<double>()[0] - wanted.at("loss").as_array()[0].as_double()),
            1e-3);
}

}  // namespace xrun
