#pragma once
// Objectives of shipped recipes over given log-probs (given_logprobs.lua).

#include <cmath>
#include <string>

#include "core/base/file.h"
#include "core/base/json.h"
#include "tests/lua/state/lua_fixture.h"
#include "tests/parity.h"
#include "tests/tree.h"

namespace xrun {

class GivenLogprobs : public LuaTest {
 protected:
  struct Stepped {
    at::Tensor losses;            // [n] f64
    at::Tensor chosen, rejected;  // the policy's sums, leaves [n] f64; undefined without pairs
  };

  // Returns the losses of a recipe's objective over the given log-probs.
  Stepped step(const std::string& recipe, const Json& settings, const Json& given) {
    lua_State* L = state_;
    const StackGuard guard(L);
    const std::string text = read_file(source_path("tests/lua/bind/train/given_logprobs.lua"));
    if (luaL_loadbuffer(L, text.data(), text.size(), "@given_logprobs.lua") != 0) {
      throw LuaError(report_of(L, -1));
    }
    state_.push_module(L);
    push(L, source_path("recipes/") + recipe + ".lua");
    push(L, settings);
    push(L, given);
    protected_call(L, 4, 3);
    const auto leaf = [&](int index) {
      return lua_isnil(L, index) ? at::Tensor() : read_tensor(L, index, "leaf");
    };
    return {read_tensor(L, -3, "losses"), leaf(-2), leaf(-1)};
  }
  at::Tensor losses(const std::string& recipe, const Json& settings, const Json& given) {
    return step(recipe, settings, given).losses;
  }

  // Expects losses within 1e-6 of another implementation's, relative above 1.
  static void expect_near(const at::Tensor& got, const Json& wanted) {
    const Json::Array& values = wanted.as_array();
    ASSERT_EQ(got.scalar_type(), at::kDouble);
    ASSERT_EQ(got.dim(), 1);
    ASSERT_EQ(got.numel(), static_cast<int64_t>(values.size()));
    const at::Tensor flat = got.contiguous();
    for (size_t i = 0; i < values.size(); ++i) {
      const double value = values[i].as_double();
      SCOPED_TRACE(i);
      expect_parity(flat.const_data_ptr<double>()[i], value, 1e-6 * std::max(1.0, std::abs(value)));
    }
  }
};

}  // namespace xrun
