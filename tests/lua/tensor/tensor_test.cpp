// Tensors as values: indexing, lists, printing, gradients.

#include "tests/lua/state/lua_fixture.h"

namespace xrun::tensor_test {

using TensorValue = LuaTest;

TEST_F(TensorValue, IndicesCountFromZeroAndFromTheEnd) {
  const std::string t = "local t = xrun.arange(12):view(3, 4); return ";
  EXPECT_EQ(run(t + "t[0]"), "i64[4] cpu\n [0, 1, 2, 3]");
  EXPECT_EQ(run(t + "t[-1][0]:item()"), "8");
  EXPECT_EQ(run(t + "t[{1, 2}]:item()"), "6");
  EXPECT_EQ(run(t + "t[{{1, 3}, 0}]"), "i64[2] cpu\n [4, 8]");
  EXPECT_EQ(run(t + "t[{':', {0, 4, 2}}].shape[2]"), "2");
  EXPECT_EQ(run(t + "t[{{}, {2, xrun.none}}].shape[2]"), "2");
  EXPECT_EQ(run(t + "t[t:gt(9)]"), "i64[2] cpu\n [10, 11]");
  EXPECT_EQ(run(t + "t[{':', xrun.tensor{3, 0}}][0]"), "i64[2] cpu\n [3, 0]");
  EXPECT_EQ(run(t + "t[xrun.tensor{2}][0][0]:item()"), "8");
}

TEST_F(TensorValue, ElementsCanBeSet) {
  EXPECT_EQ(run("local t = xrun.zeros(2, 2); t[0] = 1.5; t[{1, 1}] = xrun.tensor(2); return t"),
            "f32[2,2] cpu\n [[1.5, 1.5],\n  [0, 2]]");
  EXPECT_EQ(run("local t = xrun.arange(4); t[t:gt(1)] = 0; return t"), "i64[4] cpu\n [0, 1, 0, 0]");
}

TEST_F(TensorValue, BadIndicesNameTheValidForms) {
  error_has("return xrun.ones(2)[5]", "index 5 out of range for tensor of size [2] at dimension 0");
  error_has("return xrun.ones(2)[{0, 0}]", "2 indices for f32[2] cpu");
  error_has("return xrun.ones(2)[true]", "an index is a number");
  error_has("return xrun.ones({})[0]", "has no dimension to index");
  error_has("return xrun.ones(4)[{{start = 1, stop = 3}}]", "an index has no names such as \"st");
  error_has("return xrun.ones(4)[{dim = 0}]", "an index has no names such as \"dim\"");
  error_has("local t = xrun.ones(2); t[0] = 'x'", "set to a number or a Tensor, got \"x\"");
}

TEST_F(TensorValue, AListOfDoublesIsNotRounded) {
  EXPECT_EQ(run("return xrun.tensor({0.1}, {dtype = 'f64'}):tolist()[1] == 0.1"), "true");
  EXPECT_EQ(run("return xrun.tensor(0.1, {dtype = 'f64'}):item() == 0.1"), "true");
}

TEST_F(TensorValue, AListIsNotWrappedToASmallType) {
  error_has("return xrun.tensor({300}, {dtype = 'u8'})", "beyond the range of u8");
  error_has("return xrun.tensor({0 / 0}, {dtype = 'i64'})", "beyond the range of i64");
  EXPECT_EQ(run("return xrun.tensor({1.5, -128}, {dtype = 'i8'})"), "i8[2] cpu\n [1, -128]");
}

TEST_F(TensorValue, ListsRoundTrip) {
  EXPECT_EQ(run("local l = xrun.tensor{{1, 2}, {3, 4}}:tolist(); return l[2][1], #l"), "3, 2");
  EXPECT_EQ(run("return xrun.tensor{true, false}.dtype, xrun.tensor{}.shape[1]"), "bool, 0");
  EXPECT_EQ(run("return xrun.tensor({1, 2}, {dtype = 'f32'}):mean():item()"), "1.5");
  error_has("return xrun.tensor{{1, 2}, {3}}", "lists of 2 and of 1 elements in dimension 1");
  error_has("return xrun.tensor{1, {2}}", "got a list, wanted a number");
  error_has("return xrun.tensor{1, 'a'}", "got \"a\", wanted a number or a boolean");
  error_has("return xrun.tensor({1}, {dtyp = 'f32'})", "did you mean `dtype`?");
}

TEST_F(TensorValue, PrintsTypeShapeDeviceAndCutsTheMiddle) {
  EXPECT_EQ(run("return xrun.arange(20)"), "i64[20] cpu\n [0, 1, 2, ..., 17, 18, 19]");
  EXPECT_EQ(run("return xrun.ones({2}, {requires_grad = true})"), "f32[2] cpu grad\n [1, 1]");
  EXPECT_EQ(run("return xrun.zeros({0, 3})"), "f32[0,3] cpu\n []");
  EXPECT_EQ(run("return xrun.ones({2, 2}, {device = 'meta'})"), "f32[2,2] meta");
}

TEST_F(TensorValue, GradientsFlowThroughLua) {
  EXPECT_EQ(run("local x = xrun.tensor({1.5, 2}, {requires_grad = true})\n"
                "local loss = (x * x):sum(); loss:backward(); return x.grad"),
            "f32[2] cpu\n [3, 4]");
  EXPECT_EQ(run("local x = xrun.tensor({1.5, 2}, {requires_grad = true})\n"
                "local y = x * 2; y:backward(xrun.tensor{1., 10.5}); return x.grad[1]:item()"),
            "21");
  EXPECT_EQ(run("local x = xrun.ones({1}, {requires_grad = true}); local y = (x * x):sum()\n"
                "y:backward{retain_graph = true}; y:backward(); return x.grad:item()"),
            "4");
  error_has(
      "local x = xrun.ones({1}, {requires_grad = true}); local y = (x * x):sum()\n"
      "y:backward(); y:backward()",
      "pass { retain_graph = true } to it");
  error_has("xrun.ones(1):backward()", "no input of it requires grad");
  error_has("xrun.ones(1):backward(xrun.ones(1), {gradient = xrun.ones(1)})", "is given twice");
}

TEST_F(TensorValue, NoGradRecordsNothingAndReturnsResults) {
  EXPECT_EQ(run("local x = xrun.ones({1}, {requires_grad = true})\n"
                "local a, b = xrun.no_grad(function(k) return x * k, k end, 3)\n"
                "return a.requires_grad, b, (x * 2).requires_grad"),
            "false, 3, true");
  EXPECT_EQ(run("local x = xrun.ones({1}, {requires_grad = true})\n"
                "pcall(xrun.no_grad, function() error('x') end)\n"
                "return (x * 2).requires_grad"),
            "true");
}

TEST_F(TensorValue, ReadOnlyPropertiesCannotBeSet) {
  error_has("xrun.ones(2).shape = {1}", "`shape` of a Tensor is read-only");
  error_has("local ok, e = pcall(xrun.ones, 'x'); e.message = ''",
            "`message` of an Error is read-only");
}

// LibTorch frees a chain of gradients by recursion.
TEST_F(TensorValue, AGradientIsForgottenAndNotReplaced) {
  EXPECT_EQ(run("local x = xrun.ones({1}, {requires_grad = true})\n"
                "local y = (x * x):sum(); y:backward(); x.grad = nil; return x.grad"),
            "nil");
  error_has("local x = xrun.ones(1); x.grad = xrun.ones(1)", "wanted nil");
  error_has("xrun.ones(1, {requires_grad = true}):sum():backward{create_graph = true}",
            "create_graph");
}

TEST_F(TensorValue, RejectsUseAfterClose) {
  error_has("local t = xrun.ones(2); t:close(); return t + 1", "this Tensor is closed");
  error_has("local t = xrun.ones(2); t:close(); return t.shape", "xrun.keep(t)");
  EXPECT_EQ(run("local t = xrun.ones(2); t:close(); t:close(); return tostring(t)"),
            "closed Tensor");
}

}  // namespace xrun::tensor_test
