// Operators as a recipe spells them against PyTorch's own results (tests/golden/make/lua_ops.py).

#include "core/base/json.h"
#include "lua/tensor/dtype_names.h"
#include "tests/lua/state/lua_fixture.h"
#include "tests/tree.h"

namespace xrun::op_golden_test {

class OpGolden : public LuaTest {
 protected:
  static constexpr const char* kScope =
      "local x = xrun.arange(12, {dtype = 'f32'}):view(3, 4) / 7 - 0.5\n"
      "local y = xrun.arange(12, {dtype = 'f32'}):flip(0):view(3, 4) / 5\n"
      "local i, m = xrun.tensor{2, 0}, x:gt(0.2)\n";

  at::Tensor value(const std::string& expression) {
    run(kScope + ("result = " + expression));
    lua_State* L = state_;
    const StackGuard guard(L);
    lua_getglobal(L, "result");
    return read_tensor(L, -1, "result");
  }
};

TEST_F(OpGolden, EveryExpressionMatchesPyTorch) {
  const Json golden = read_json(source_path("tests/golden/lua_ops.json"));
  for (const Json& row : golden.at("cases").as_array()) {
    const std::string& lua = row.at("lua").as_string();
    SCOPED_TRACE(lua);
    at::Tensor got;
    try {
      got = value(lua);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
      continue;
    }
    EXPECT_EQ(got.scalar_type(), dtype_of(row.at("dtype").as_string()));
    ASSERT_EQ(got.dim(), static_cast<int64_t>(row.at("shape").size()));
    for (int64_t d = 0; d < got.dim(); ++d) {
      ASSERT_EQ(got.size(d), row.at("shape").as_array()[static_cast<size_t>(d)].as_int());
    }
    const at::Tensor flat = got.to(at::kDouble).contiguous().view(-1);
    const auto& wanted = row.at("values").as_array();
    ASSERT_EQ(flat.numel(), static_cast<int64_t>(wanted.size()));
    for (size_t k = 0; k < wanted.size(); ++k) {
      EXPECT_FLOAT_EQ(static_cast<float>(flat.const_data_ptr<double>()[k]),
                      static_cast<float>(wanted[k].as_double()));
    }
  }
}

}  // namespace xrun::op_golden_test
