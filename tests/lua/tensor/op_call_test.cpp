// The schema bridge: every pitfall of choosing an overload is a test.

#include "lua/tensor/op_table.h"
#include "tests/lua/state/lua_fixture.h"

namespace xrun::op_call_test {

using OpCall = LuaTest;

TEST_F(OpCall, MethodsFunctionsAndOperatorsReachTheSameOperators) {
  EXPECT_EQ(run("return xrun.tensor{1, 2, 3}:sum()"), "i64[] cpu 6");
  EXPECT_EQ(run("return xrun.sum(xrun.tensor{1, 2, 3})"), "i64[] cpu 6");
  EXPECT_EQ(run("return xrun.ops.aten.sum(xrun.tensor{1, 2, 3})"), "i64[] cpu 6");
  EXPECT_EQ(run("return (xrun.tensor{1.5, 2} + 1):mul(2):mean():item()"), "5.5");
}

TEST_F(OpCall, AllOperatorsTakeTensorsAndNumbersOnEitherSide) {
  const std::string t = "local t = xrun.tensor{2.5, 4.5}; return ";
  EXPECT_EQ(run(t + "(t + 1)[0]:item(), (1 + t)[0]:item(), (t + t)[0]:item()"), "3.5, 3.5, 5");
  EXPECT_EQ(run(t + "(t - 1)[0]:item(), (1 - t)[0]:item(), (t - t)[0]:item()"), "1.5, -1.5, 0");
  EXPECT_EQ(run(t + "(t * 2)[0]:item(), (2 * t)[0]:item(), (t / 2)[0]:item()"), "5, 5, 1.25");
  EXPECT_EQ(run(t + "(5 / t)[0]:item(), (t ^ 2)[0]:item(), (-t)[0]:item()"), "2, 6.25, -2.5");
  EXPECT_EQ(run("local t = xrun.tensor{3, 4}; return (2 ^ t)[0]:item(), (t % 3)[1]:item(), #t"),
            "8, 1, 2");
  EXPECT_EQ(run("return 'is ' .. xrun.tensor{1.5}:sum()"), "is f32[] cpu 1.5");
  EXPECT_EQ(run("return #('a\\0b' .. xrun.tensor(1)) - #('ab' .. xrun.tensor(1))"), "1");
}

TEST_F(OpCall, KeywordArgumentsAreALastTableOfNames) {
  EXPECT_EQ(run("return xrun.ones{2, 3}:sum(-1, {keepdim = true})"),
            "f32[2,1] cpu\n [[3],\n  [3]]");
  EXPECT_EQ(run("return xrun.ones{2, 3}:sum{dim = 0, dtype = 'f64'}"), "f64[3] cpu\n [2, 2, 2]");
  EXPECT_EQ(run("return xrun.tensor{5., -1.5}:clamp{min = 0}:tolist()[2]"), "0");
}

TEST_F(OpCall, AnIntMayReplaceAListOfInts) {
  EXPECT_EQ(run("return xrun.ones{2, 3}:sum(1)"), "f32[2] cpu\n [3, 3]");
  EXPECT_EQ(run("return xrun.ones{2, 3}:view(3, 2).shape[1]"), "3");
  EXPECT_EQ(run("return xrun.ones{2, 3}:view(-1).shape[1]"), "6");
  EXPECT_EQ(run("return xrun.ones{2, 3}:permute(1, 0).shape[1]"), "3");
  EXPECT_EQ(run("return xrun.zeros(2, 3).shape[2], xrun.view(xrun.ones(4), 2, 2).shape[2]"),
            "3, 2");
}

TEST_F(OpCall, SeveralResultsAreSeveralValues) {
  EXPECT_EQ(run("local v, i = xrun.tensor{1.5, 7, 3}:topk(2); return v[0]:item(), i[0]:item()"),
            "7, 1");
  EXPECT_EQ(run("local v, i = xrun.tensor{1.5, 7, 3}:max(0); return v:item(), i:item()"), "7, 1");
  EXPECT_EQ(run("return #xrun.arange(6):split(2)"), "3");
}

TEST_F(OpCall, DimnameOverloadsAreNeverChosen) {
  error_has("return xrun.ones{2}:softmax('a')", "argument `dim` got \"a\", wanted int");
  error_has("return xrun.ones{2}:sum('a')", "no overload takes");
}

TEST_F(OpCall, DTypesAreNamesAndNeverNumbers) {
  EXPECT_EQ(run("return xrun.ones({2}, {dtype = xrun.bf16}).dtype"), "bf16");
  EXPECT_EQ(run("return xrun.ones({2}, {dtype = 'bfloat16'}).dtype"), "bf16");
  EXPECT_EQ(run("return xrun.ones{2}:to('bf16').dtype, xrun.ones{2}:to(xrun.i64).dtype"),
            "bf16, i64");
  EXPECT_EQ(run("return xrun.ones{2}:to('cpu').dtype"), "f32");
  error_has("return xrun.ones({2}, {dtype = 6})", "argument `dtype` got 6, wanted ScalarType?");
  EXPECT_EQ(run("return xrun.ones({1,2,2,2}):contiguous{memory_format = xrun.channels_last}"
                ":is_contiguous()"),
            "false");
}

TEST_F(OpCall, AGpuWithoutItsLibrariesIsRefusedWithTheFix) {
  for (const char* made : {"ones(2, {device = 'cuda:1'})", "tensor({1}, {device = 'cuda:1'})",
                           "ones(2):to('cuda:1')"}) {
    error_has(fmt::format("return xrun.{}", made), "device \"cuda:1\" is not available: this");
  }
}

TEST_F(OpCall, WholeNumbersMakeIntegerTensors) {
  EXPECT_EQ(run("return (xrun.tensor{1, 2} * 2).dtype"), "i64");
  EXPECT_EQ(run("return (xrun.tensor{1, 2} * 2.5).dtype"), "f32");
  EXPECT_EQ(run("return xrun.full({2}, 1).dtype, xrun.full({2}, xrun.f(1)).dtype"), "i64, f32");
  EXPECT_EQ(run("return xrun.tensor({1, 2}).dtype, xrun.tensor({1.5, 2}).dtype"), "i64, f32");
  EXPECT_EQ(run("return xrun.tensor{1., 2.}:dropout(0, false).dtype"), "i64");
  EXPECT_EQ(run("return xrun.quantile(xrun.tensor{1.5, 2.5}, 1):item()"), "2.5");
}

TEST_F(OpCall, Int64LiteralsKeepEveryBit) {
  EXPECT_EQ(run("return tostring(xrun.tensor{9007199254740993LL}:sub(9007199254740992LL):item())"),
            "1");
  EXPECT_EQ(run("return xrun.full({1}, 9007199254740993LL):remainder(10):item()"), "3");
}

TEST_F(OpCall, AnUnsignedLiteralBeyondInt64IsRefused) {
  EXPECT_EQ(run("return xrun.tensor{5ULL}:item()"), "5");
  error_has("return xrun.tensor{9223372036854775808ULL}", "wanted a number or a boolean");
}

TEST_F(OpCall, NumbersBecomeTensorsOnlyWherePyTorchAllowsIt) {
  EXPECT_EQ(run("return xrun.tensor{1.5}:add(2, {alpha = 2}):item()"), "5.5");
  error_has("return xrun.tensor{1.5}:maximum(2)", "argument `other` got 2, wanted Tensor");
}

TEST_F(OpCall, AZeroDimTensorIsANumberUnlessItWouldLoseItsGradient) {
  EXPECT_EQ(run("return xrun.ones{2}:add(xrun.ones{2}, {alpha = xrun.tensor(3)})[0]:item()"), "4");
  error_has(
      "local a = xrun.tensor(3.5, {requires_grad = true})\n"
      "return xrun.ones{2}:add(xrun.ones{2}, {alpha = a})",
      "would lose its gradient");
}

TEST_F(OpCall, NoneIsAllowedWhereNilIsNot) {
  EXPECT_EQ(run("local t = xrun.arange(6):view(2, 3)\n"
                "return xrun.index(t, {xrun.none, xrun.tensor{0, 2}})"),
            "i64[2,2] cpu\n [[0, 2],\n  [3, 5]]");
  EXPECT_EQ(run("return xrun.ones{4}:div(3, {rounding_mode = xrun.none})[0]:gt(0.3):item()"),
            "true");
  EXPECT_EQ(run("return xrun.ones{2, 2}:sum(nil, true).ndim"), "2");
}

TEST_F(OpCall, TheLastTableIsKeywordsOrAListButNotBoth) {
  EXPECT_EQ(run("return xrun.ones{2, 3}:sum({})"), "f32[] cpu 6");
  EXPECT_EQ(run("return xrun.zeros({}).ndim"), "0");
  error_has("return xrun.zeros{2, dtype = 'f32'}", "both numbered and named elements");
  for (const char* key : {"true", "{}", "print"}) {
    error_has(std::string("return xrun.ones{2}:add(1, {[") + key + "] = 2})",
              "no overload takes (");
  }
}

TEST_F(OpCall, AnUnknownKeywordIsNamedWithTheNearest) {
  error_has("return xrun.ones{2}:sum{keepdims = true}", "there is no keyword argument `keepdims`");
  error_has("return xrun.ones{2}:sum{keepdims = true}", "did you mean `keepdim`?");
}

TEST_F(OpCall, OnlyARoundedQuotientOfTheLowestIntegerIsRefused) {
  const std::string lowest = "local t = xrun.ones({1}, {dtype = 'i64'}):bitwise_left_shift(63)\n";
  EXPECT_EQ(run(lowest + "return (t / -1):gt(0):item()"), "true");
  error_has(lowest + "return t:div(-1, {rounding_mode = 'trunc'})",
            "divided by -1 is beyond the range of i64");
}

TEST_F(OpCall, TheMessageOnTooManyKeywordsNamesTheLimit) {
  const auto call = [](int count) {
    return fmt::format(
        "local named = {{}}\nfor i = 1, {} do named['key' .. i] = i end\n"
        "return xrun.ones{{2}}:sum(named)",
        count);
  };
  error_has(call(32), "there is no keyword argument `key");
  error_has(call(33), "got more than 32 keyword arguments, wanted at most 32");
}

TEST_F(OpCall, AnUnknownNameIsAnErrorWithTheNearest) {
  error_has("return xrun.ones{2}:log_sigmod()", "did you mean `log_sigmoid`?");
  error_has("return xrun.catt", "did you mean `xrun.cat`?");
  error_has("return xrun.ops.aten.sofmax", "did you mean `softmax`?");
}

TEST_F(OpCall, OperatorsThatReplaceStorageAreNotMethods) {
  for (const char* name : {"set_", "resize_", "resize_as_", "_softmax", "rename"}) {
    error_has(fmt::format("return xrun.ones(2).{}", name), "Tensor has no method or property");
  }
}

TEST_F(OpCall, OperatorsThatDoNotCheckArgumentsAreRefused) {
  for (const char* name :
       {"_sparse_coo_tensor_unsafe", "_softmax", "tanh_backward", "from_file", "fbgemm_pack"}) {
    EXPECT_EQ(find_op("aten", name), nullptr) << name;
  }
  error_has(
      "return xrun.ops.aten._sparse_coo_tensor_unsafe",
      "there is no operator aten::_sparse_coo_tensor_unsafe for recipes: it does not check its");
  error_has("return xrun.ops.quantized.add", "there is no xrun.ops.quantized");
}

TEST_F(OpCall, MethodsPassTheObjectAsTheSchemasSelf) {
  EXPECT_EQ(run("local x = xrun.tensor{1.5, 2.5}; return x:where(x:gt(2), 0)"),
            "f32[2] cpu\n [0, 2.5]");
  EXPECT_EQ(run("local x = xrun.tensor{1.5, 2.5}; return xrun.where(x:gt(2), x, -x)"),
            "f32[2] cpu\n [-1.5, 2.5]");
}

TEST_F(OpCall, InPlaceOperatorsReturnTheSameHandle) {
  EXPECT_EQ(run("local x = xrun.ones(2); return rawequal(x:add_(1), x), x[0]:item()"), "true, 2");
}

TEST_F(OpCall, EqualityIsNeverAWrongBoolean) {
  EXPECT_EQ(run("local x = xrun.ones(2); return x == x, x:eq(1):all():item()"), "true, true");
  EXPECT_EQ(run("return xrun.ones(2) == 1"),
            "false");  // Lua calls no metamethod here; luacheck warns
  error_has("return xrun.ones(2) == xrun.ones(2)", "a:eq(b) compares element by element");
  error_has("return xrun.ones(2) < xrun.zeros(2)", ":lt, :le, :gt, :ge compare element by element");
  error_has("return xrun.ones(2) < 1", "comparing tensors with < gives one boolean");
  EXPECT_EQ(run("return xrun.tensor(1) < xrun.tensor(2), xrun.tensor(1) >= xrun.tensor(2)"),
            "true, false");
  EXPECT_EQ(run("return xrun.equal(xrun.ones(2), xrun.ones(2))"), "true");
}

TEST_F(OpCall, WithoutAnOverloadTheBestCandidatesAndTheirFailuresAreShown) {
  EXPECT_EQ(error("local x = xrun.ones{2, 3}\nreturn x:matmul('w')"),
            "test.lua:3: Tensor:matmul: no overload takes (f32[2,3] cpu, \"w\")\n"
            "  matmul(Tensor self, Tensor other): argument `other` got \"w\", wanted Tensor\n"
            "     3 | return x:matmul('w')\n"
            "       |          ^^^^^^\n"
            "  operand 1 = f32[2,3] cpu");
}

TEST_F(OpCall, AGeneratedNamespaceReachesOurOwnLibraries) {
  error_has("return xrun.ops.xrun.no_such_operator", "there is no operator xrun::no_such_operator");
}

TEST_F(OpCall, ARenamedOperatorIsNamedByItsNewName) {
  error_has("xrun.ops.xrun.linear_logprob(1)", "hint: it is now xrun.ops.xrun.linear_head(");
}

TEST_F(OpCall, RandomFactoriesFollowTheSeed) {
  EXPECT_EQ(run("xrun.manual_seed(3); local a = xrun.randn{4}\n"
                "xrun.manual_seed(3); return xrun.equal(a, xrun.randn{4})"),
            "true");
}

TEST_F(OpCall, HeadReturnsEntropyAndTopK) {
  EXPECT_EQ(run("local x, w = xrun.ones({1, 2}, {requires_grad = true}), xrun.zeros{4, 2}\n"
                "local rows = xrun.zeros({1}, {dtype = 'i64'})\n"
                "local logprob, entropy, lse, top, id = xrun.ops.xrun.linear_head(\n"
                "  x, w, rows, rows, {columns = 3, entropy = true, top_k = 2})\n"
                "entropy:sum():backward()\n"
                "return math.abs(xrun.exp(logprob)[0]:item() * 3 - 1) < 1e-6, (entropy - "
                "lse)[0]:item(), id[0][1]:item(),\n"
                "  x.grad:abs():sum():item()"),
            "true, 0, 1, 0");
}

TEST_F(OpCall, AttentionReturnsLogSumExp) {
  EXPECT_EQ(run("local q = xrun.ones({2, 1, 4}, {requires_grad = true})\n"
                "local out, lse = xrun.ops.xrun.varlen_attention_lse(q, q, q, {0, 2}, 0.5)\n"
                "lse[0][1]:backward()\n"
                "return lse:size(0), lse[0][0]:item(), math.abs(lse[0][1]:item() - 2 - "
                "math.log(2)) < 1e-6,\n  out[1][0][0]:item(), q.grad[1][0][0]:item()"),
            "1, 2, true, 1, 0.75");
}

TEST_F(OpCall, OperatorsThatAutogradCallsAreRefused) {
  for (const char* name : {"rms_norm_backward", "swiglu_forward", "linear_head_backward",
                           "linear_head_forward", "varlen_attention_backward", "rope_rotate"}) {
    error_has("xrun.ops.xrun." + std::string(name) + "()",
              "there is no operator xrun::" + std::string(name));
  }
  EXPECT_EQ(run("return type(xrun.ops.xrun.rms_norm)"), "function");
}

TEST_F(OpCall, ABareNumberIsNotADType) {
  error_has("local y = xrun.ones(2):to(5)", "Tensor:to: no overload takes");
  EXPECT_EQ(run("return xrun.ones(2):to('i64').dtype, (xrun.ones(2) + 5)[0]:item()"), "i64, 6");
}

}  // namespace xrun::op_call_test
