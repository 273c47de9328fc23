// The objectives of the shipped recipes against TRL's losses for the same 64 pairs of given
// log-probs (tests/golden/make/preference_losses.py).

#include <cmath>
#include <filesystem>

#include "tests/lua/bind/train/given_logprobs.h"

namespace xrun::preference_losses_test {

class PreferenceLosses : public GivenLogprobs {
 protected:
  // The losses of a golden entry's recipe: `loss` in the settings names one of pair_losses.lua.
  at::Tensor losses_of(const std::string& name, const Json& settings) {
    const bool chosen = settings.find("loss") != nullptr;
    return losses(chosen ? "pair_losses" : name, settings, golden_.at("pairs"));
  }
  const Json golden_ = read_json(source_path("tests/golden/preference_losses.json"));
};

TEST_F(PreferenceLosses, MatchTrl) {
  for (const auto& [name, wanted] : golden_.at("recipes").as_object()) {
    SCOPED_TRACE(name);
    at::Tensor got;
    try {
      got = losses_of(name, wanted.at("settings"));
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
      continue;
    }
    expect_near(got, wanted.at("loss"));
  }
}

TEST_F(PreferenceLosses, EveryRecipeOverPairsIsInTheGolden) {
  for (const auto& file : std::filesystem::directory_iterator(source_path("recipes"))) {
    if (file.path().extension() != ".lua" || file.path().stem() == "pair_losses") continue;
    if (read_file(file.path()).find("p.chosen") == std::string::npos) continue;
    EXPECT_NE(golden_.at("recipes").find(file.path().stem().string()), nullptr) << file.path();
  }
}

// The error for an unknown name lists all losses, so it proves that the golden has each.
TEST_F(PreferenceLosses, AnUnknownNameListsExactlyTheLossesOfTheGolden) {
  std::string names;  // sorted
  for (const auto& [name, entry] : golden_.at("recipes").as_object()) {
    if (entry.at("settings").find("loss") != nullptr) names += (names.empty() ? "" : ", ") + name;
  }
  const Json settings(Json::Object{{"loss", "hing"}});
  try {
    losses("pair_losses", settings, golden_.at("pairs"));
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(
        std::string(error.what()).find("no loss is named \"hing\"; there are " + names + "\n"),
        std::string::npos)
        << error.what() << "\n  wanted: " << names;
  }
}

TEST_F(PreferenceLosses, AnotherSettingGivesOtherLosses) {
  const Json& wanted = golden_.at("recipes").at("rpo");
  Json settings = wanted.at("settings");
  settings.set("alpha", 0.25);
  const at::Tensor got = losses_of("rpo", settings).contiguous();
  EXPECT_GT(std::abs(got.const_data_ptr<double>()[0] - wanted.at("loss").as_array()[0].as_double()),
            1e-3);
}

}  // namespace xrun::preference_losses_test
