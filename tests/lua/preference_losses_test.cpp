// The objectives of the shipped recipes against TRL's losses of the same 64 pairs of given
// log-probs (tests/golden/make/preference_losses.py).

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/base/file.h"
#include "core/base/json.h"
#include "tests/lua/lua_fixture.h"

namespace xrun {

class PreferenceLosses : public LuaTest {
 protected:
  static constexpr const char* kRoot = XRUN_SOURCE_DIR;

  // The losses of a recipe's objective over `pairs`, [n] f64.
  at::Tensor losses(const std::string& recipe, const Json& settings, const Json& pairs) {
    lua_State* L = state_;
    const StackGuard guard(L);
    const std::string text = read_file(std::string(kRoot) + "/tests/lua/given_logprobs.lua");
    if (luaL_loadbuffer(L, text.data(), text.size(), "@given_logprobs.lua") != 0) {
      throw LuaError(report_of(L, -1));
    }
    state_.push_module(L);
    push(L, std::string(kRoot) + "/recipes/" + recipe + ".lua");
    push(L, settings);
    push(L, pairs);
    protected_call(L, 4, 1);
    return read_tensor(L, -1, "losses");
  }

  const Json golden_ = read_json(std::string(kRoot) + "/tests/golden/preference_losses.json");
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
    const Json::Array& values = wanted.at("loss").as_array();
    ASSERT_EQ(got.scalar_type(), at::kDouble);
    ASSERT_EQ(got.dim(), 1);
    ASSERT_EQ(got.numel(), static_cast<int64_t>(values.size()));
    const at::Tensor flat = got.contiguous();
    for (size_t i = 0; i < values.size(); ++i) {
      const double value = values[i].as_double();
      EXPECT_NEAR(flat.const_data_ptr<double>()[i], value, 1e-6 * std::max(1.0, std::abs(value)))
          << "pair " << i;
    }
  }
}

TEST_F(PreferenceLosses, OfEveryRecipeOfPairsAreInTheGolden) {
  for (const auto& file : std::filesystem::directory_iterator(std::string(kRoot) + "/recipes")) {
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
