// Recipes run from their file to their end: config, errors as the user sees them, require, strict
// names.

#include "tests/error_of.h"
#include "tests/lua/bind/recipe_fixture.h"

namespace xrun::recipe_test {

using RecipeRun = RecipeTest;

constexpr const char* kHead = "local xrun = require 'xrun'\n";

TEST_F(RecipeRun, TheConfigHasDefaultsAndSets) {
  EXPECT_EQ(run(std::string(kHead) + R"(
local cfg = xrun.config { beta = 0.1, optim = { lr = 1e-4 }, data = { { path = "a" } } }
assert(cfg.beta == 0.2, cfg.beta)
assert(cfg.optim.lr == 1e-4 and cfg.optim.schedule == "linear" and cfg.optim.betas[2] == 0.999)
assert(cfg.valid.every == 0 and cfg.template == "auto" and cfg.max_length == nil)
assert(cfg.data[1].path == "b.jsonl" and cfg.data[1].weight == 1 and #cfg.data == 1)
local n = 0
for key in pairs(cfg) do n = n + 1 end
assert(n > 10)
)",
                {"beta=0.2", "data.1.path=b.jsonl"}),
            "");
}

TEST_F(RecipeRun, AMistypedKeyNamesBothLinesBeforeAnythingLoads) {
  const std::string text = std::string(kHead) + R"(
local cfg = xrun.config {
  betta = 0.1,
}
error("must not run")
print(cfg.beta)
)";
  EXPECT_EQ(run(text),
            "test.lua:4: `betta` is never read; line 7 reads `cfg.beta`\n"
            "     4 |   betta = 0.1,\n"
            "       |   ^^^^^");
  EXPECT_TRUE(usage_);
}

TEST_F(RecipeRun, ReadingAMissingConfigKeyIsAnError) {
  has(run(std::string(kHead) + "local cfg = xrun.config { own = { a = 1 } }\n"
                               "local t = cfg.own\nreturn t.b + 1"),
      "test.lua:4: the config has no `own.b`\n     4 | return t.b + 1");
  has(run(std::string(kHead) + "local cfg = xrun.config { beta = 1 }\ncfg.beat = 2\n"
                               "return cfg.beta"),
      "did you mean `cfg.beta`?");
}

TEST_F(RecipeRun, AnErrorShowsLineExcerptValuesAndHint) {
  EXPECT_EQ(
      run(std::string(kHead) + R"(local cfg = xrun.config { beta = 0.1 }
local x = xrun.ones(2, 3)
local function f(w)
  local y = cfg.beta * x:matmul(w)
  return y
end
local r = f(xrun.ones{4, 5})
)"),
      "test.lua:5: Tensor:matmul: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)\n"
      "     5 |   local y = cfg.beta * x:matmul(w)\n"
      "       |                          ^^^^^^\n"
      "  cfg.beta = 0.1\n"
      "  x = f32[2,3] cpu\n"
      "  w = f32[4,5] cpu\n"
      "  hint: matmul multiplies [n,k] by [k,m]; :t() or :transpose(-1, -2) swaps the last two "
      "dims\n"
      "  called from test.lua:8 in the main chunk");
}

TEST_F(RecipeRun, AnErrorOfLuaItselfIsShownTheSameWay) {
  EXPECT_EQ(run(std::string(kHead) + "local p = { chosen = xrun.ones(2) }\n"
                                     "local m = p.chosn + 1\n"),
            "test.lua:3: attempt to perform arithmetic on field 'chosn' (a nil value)\n"
            "     3 | local m = p.chosn + 1\n"
            "       |             ^^^^^\n"
            "  p.chosn = nil");
}

TEST_F(RecipeRun, AnOperatorsErrorMarksTheOperator) {
  EXPECT_EQ(run(std::string(kHead) + "local a, b = xrun.ones(2), xrun.ones(3)\nlocal c = a + b\n"),
            "test.lua:3: `+`: The size of tensor a (2) must match the size of tensor b (3) at "
            "non-singleton dimension 0\n"
            "     3 | local c = a + b\n"
            "       |             ^\n"
            "  a = f32[2] cpu\n"
            "  b = f32[3] cpu\n"
            "  hint: shapes broadcast from the right: sizes must be equal or 1; :unsqueeze(dim) "
            "adds a 1");
}

TEST_F(RecipeRun, ACallInTailPositionIsStillFound) {
  has(run(std::string(kHead) + "local function f(x)\n  return x:matmul(1)\nend\n"
                               "xrun.no_grad(f, xrun.ones(2))\n"),
      "test.lua:3: Tensor:matmul: no overload takes");
}

TEST_F(RecipeRun, ErrorsRaisedByTheRecipeKeepTheirText) {
  has(run("error('my words')"), "test.lua:1: my words");
  has(run("error('no position', 0)"), "no position");
  has(run("error({code = 3})"), "error with a table {code} as its value");
  has(run("local row = { b = 1, a = 2, f = 3, e = 4, d = 5, c = 6, g = 7 }\nlocal x = row + 1"),
      "row = a table {a, b, c, d, e, f, ...}");
  has(run("local function f() error('caller is to blame', 2) end\nf()\nlocal a = 1"),
      "test.lua:2: caller is to blame\n     2 | f()");
}

TEST_F(RecipeRun, PcallGivesAnErrorValueWithFields) {
  EXPECT_EQ(run(std::string(kHead) + R"(
local ok, e = pcall(function() local y = xrun.ones(2):matmul(1) end)
assert(not ok and e.line == 3 and e.file == "test.lua")
assert(e.message:find("no overload takes") and tostring(e):find("test.lua:3"))
assert(("x" .. e):find("xtest.lua:3"))
)"),
            "");
}

TEST_F(RecipeRun, AnErrorInsideACoroutineKeepsItsLine) {
  has(run("local f = coroutine.wrap(function()\n  local a = nil + 1\nend)\nf()\n"),
      "test.lua:2: attempt to perform arithmetic on a nil value\n     2 |   local a = nil + 1");
}

TEST_F(RecipeRun, ASyntaxErrorPointsAtItsLine) {
  const std::string text = run("local a = 1\nlocal b = = 2\n");
  EXPECT_EQ(text,
            "test.lua:2: unexpected symbol near '='\n     2 | local b = = 2\n"
            "       |         ^");
}

TEST_F(RecipeRun, HabitsOfOtherLanguagesAreExplained) {
  const std::vector<std::pair<std::string, std::string>> hints = {
      {"if 1 != 2 then print(1) end", "Lua writes ~= for not equal"},
      {"local x = 1\nx += 1", "Lua has no +=; write x = x + y"},
      {"def f(x):\n  return x", "a function in Lua: local function name(x) ... end"},
      {"import torch", "Lua loads a module by local xrun = require \"xrun\""},
      {"local x = None", "Lua writes nil"},
      {"local x = True", "Lua writes true"},
      {"local x = 1 if 2 else 3", "Lua writes `c and a or b` for a if c else b"},
      {"local x = f\"loss {x}\"", "Lua has no f\"...\""},
      {"local step = 1\nif step = 0 then print(1) end", "comparison is ==, as in step == 0"},
      {"local step = 1\nwhile step = 0 do end", "comparison is ==, as in step == 0"},
      {"local y = xrun.ones(2):sum(dim=-1)",
       "Lua has no named arguments; a method takes them in a table: x:sum({ dim = -1 })"},
      {"local x = 2 ** 3", "Lua writes x ^ y for a power"},
      {"local x = 7 // 2", "Lua has no //; write math.floor(x / y), of tensors (x / y):floor()"},
      {"if !print then end", "Lua writes `not x`"},
      {"for i = 1, 2 do if i == 1 then continue end end", "Lua has no continue; put the rest"},
      {"for i = 1, 2 do\n  continue\nend", "line 3: Lua has no continue"},
      {"local t = { \"margin\": 1 }", "Lua writes { key = value }"},
      {"local t = { margin: x, accuracy: 2 }", "Lua writes { key = value }"},
      {"for i in range(3): print(i)\nreturn 1", "line 2: Lua writes for i = 0, n - 1 do"},
      {"for i in range(3) do end", "Lua writes for i = 0, n - 1 do ... end"},
      {"try: x = 1", "Lua has no try; write local ok, e = pcall(function() ... end)"},
      {"with torch.no_grad(): x = 1", "write xrun.no_grad(function() ... end)"},
      {"local y = lambda x: x\nreturn y", "line 2: a function without a name in Lua"},
      {"local x = 1 if True else 0", "Lua writes `c and a or b` for a if c else b"},
      {"local h = xrun.ones(4)\nlocal y = h[0:2]", "Lua has no slices; x:slice(0, 0, 2)"},
      {"local y = '%d' % 3", "Lua formats with string.format(\"%d\", x)"},
      {"local n = len({ 1 })", "Lua writes #x; the tokens of each answer are a field"},
      {"local s = str(1)", "Lua writes tostring(x)"},
      {"print(f\"loss\")", "Lua has no f\"...\""},
      {"local h = xrun.ones(2)\nlocal y = torch.sign(h)",
       "here it is xrun.sign(x), or the method x:sign()"},
      {"local y = F.logsigmoid(xrun.ones(2))",
       "here it is xrun.log_sigmoid(x), or the method x:log_sigmoid()"},
      {"local y = torch.nn.functional.softmax(1)", "here it is xrun.softmax(x)"},
      {"local y = torch.no_grad(print)", "here it is xrun.no_grad"},
      {"local y = torch.nonsense_of_some_kind(1)", "there is no torch here; tensors have"},
      {"local h = xrun.ones(2)\nlocal y = h.shape[0] + 1",
       "the first element of a table is 1: x.shape[1], or x:size(0)"},
      {"local h = xrun.ones(2)\nlocal y = h:shape()",
       "it is a value, not a method: write .shape without ()"},
  };
  for (const auto& [line, hint] : hints) has(run(kHead + line), "\n  hint: " + hint);
  EXPECT_EQ(run("local a = '!= += def' = 2").find("hint"), std::string::npos);
}

TEST_F(RecipeRun, TheCodeThatHintsSuggestRuns) {
  EXPECT_EQ(run(std::string(kHead) + R"(
local x, sum, list = xrun.ones(4), 0, {}
for i = 0, 3 - 1 do sum = sum + i end
for i = 1, 3 do
  if i == 2 then goto next end
  local kept = i
  list[#list + 1] = kept
  ::next::
end
assert(sum == 3 and #list == 2 and list[2] == 3)
assert(x:slice(0, 0, 2):size(0) == 2 and x.shape[1] == x:size(0))
assert((x / 2):floor():sum():item() == 0 and math.floor(7 / 2) == 3 and 2 ^ 3 == 8)
assert(xrun.sign(x):equal(x:sign()) and xrun.log_sigmoid(x):equal(x:log_sigmoid()))
local ok, e = pcall(function() error("no") end)
assert(not ok and string.format("%d", 3) == "3" and ({ ["a key"] = 1 })["a key"] == 1)
xrun.no_grad(function() sum = 4 end)
assert(sum == 4)
)"),
            "");
}

TEST_F(RecipeRun, CallsThatATensorTakesAnotherWayAreExplained) {
  const std::string x = std::string(kHead) + "local x = xrun.ones(2)\n";
  has(run(x + "local y = x.log_sigmoid()"), "hint: call it with a colon: x:log_sigmoid()");
  has(run(x + "local y = x.sum(0)"), "hint: call it with a colon: x:sum(...)");
  has(run(x + "local y = math.exp(x)"), "hint: of a tensor it is a method: x:exp()");
  has(run(x + "print(string.format('%.2f', x))"),
      "hint: x:item() is the number of a tensor with one element");
}

TEST_F(RecipeRun, ANumberInQuotesIsNamedWithItsLine) {
  has(run(std::string(kHead) +
          "local cfg = xrun.config {\n  beta = \"0.1\",\n}\nlocal y = cfg.beta * xrun.ones(2)"),
      "hint: cfg.beta is text (line 3); write beta = 0.1");
}

// LuaJIT takes these characters as letters of a name.
TEST_F(RecipeRun, FullWidthSignsAreNamed) {
  has(run("print（1）\n"), "hint: line 1: `（` (U+FF08) is not ASCII; write (");
  has(run("print(1，2)"), "hint: `，` (U+FF0C) is not ASCII; write ,");
  has(run("local a ＝ 3"), "hint: `＝` (U+FF1D) is not ASCII; write =");
  has(run("local t = { x： 3 }"), "hint: `：` (U+FF1A) is not ASCII; write :");
  has(run("local x = “a”"), "hint: `“` (U+201C) is not ASCII; write \"");
  has(run("local function f(x)\n  return x；end\nf(1)\n"),
      "hint: line 2: `；` (U+FF1B) is not ASCII; write ;");
  const std::string inside = run("local a = '，' -- ，\nlocal b = = 2\n");
  EXPECT_EQ(inside.find("ASCII"), std::string::npos) << inside;
}

TEST_F(RecipeRun, ACommentThatBeginsWithANumberSignIsExplained) {
  has(run("local a = 1 # one\n"), "hint: a comment in Lua begins with --");
}

// A line that ends with an operator lets Lua complain about the next one.
TEST_F(RecipeRun, AnOpenBracketOfAnEarlierLineIsNamed) {
  has(run("local a = 1\nlocal b = (a +\nlocal c = 2\n"),
      "test.lua:3: unexpected symbol near 'local'\n     3 | local c = 2\n       | ^^^^^\n"
      "  hint: the ( of line 2 is not closed");
  const std::string inside = run("f(function()\n  local b = = 2\nend)\n");
  EXPECT_EQ(inside.find("is not closed"), std::string::npos) << inside;
}

TEST_F(RecipeRun, AnErrorWhoseTostringFailsHasAPosition) {
  has(run("local t = setmetatable({}, { __tostring = function() error 'no' end })\nerror(t)"),
      "test.lua:2: the error's __tostring failed");
}

TEST_F(RecipeRun, UndefinedNamesAreErrors) {
  has(run("local a = pirnt"),
      "test.lua:1: `pirnt` is not defined\n     1 | local a = pirnt\n"
      "       |           ^^^^^\n  hint: did you mean `print`?");
  has(run("a = 1"), "`a` is not declared\n");
  has(run("_G[{}] = 1"), "is not a valid name of a global");
  has(run("xrun.ones(2)"), "begin with local xrun = require \"xrun\"");
  has(run("local xrun = require 'xrun'\nxrun.beta = 2"), "the module xrun is read-only");
}

TEST_F(RecipeRun, AWrongOptionIsBadUsageAndAWrongArgumentAFailure) {
  has(run(std::string(kHead) + "xrun.tensor({ 1 }, { dtyp = 'f32' })"), "did you mean `dtype`?");
  EXPECT_TRUE(usage_);
  has(run(std::string(kHead) + "xrun.tensor(print)"), "test.lua:2: ");
  EXPECT_FALSE(usage_);
}

TEST_F(RecipeRun, NamesThatTheModuleLacksAreExplained) {
  const auto error = [&](const std::string& call) {
    RecipeOptions options;
    options.recipe = "test.lua";
    return error_of([&] {
      // All modules, so that the methods of every class are known.
      Recipe recipe(options, engine_modules(), kHead + call);
      while (recipe.resume()) ++yields_;
    });
  };
  has(error("xrun.reference()"), "hint: it is a method of Policy: policy:reference()");
  has(error("xrun.evaluate(1)"), "hint: it is a method of Run: run:evaluate(...)");
  has(error("xrun.teacher('t')"), "hint: xrun.frozen(cfg.teacher) opens a teacher");
  has(error("xrun.DPOTrainer()"), "hint: xrun recipes/dpo.lua trains with DPO");
  has(error("xrun.adamv()"), "hint: did you mean `xrun.adamw`?");
}

TEST_F(RecipeRun, AZeroByteIsShownInMessagesAndRefusedInPaths) {
  const auto error = [&](const std::string& call) {
    write("test.lua", kHead + call);
    RecipeOptions options;
    options.recipe = "test.lua";
    return error_of([&] {
      Recipe recipe(options, engine_modules());
      while (recipe.resume()) ++yields_;
    });
  };
  has(error("error('one\\0two')"), "test.lua:2: one\\0two\n     2 | error(");
  has(error("xrun.policy('./tiny\\0more')"),
      "test.lua:2: xrun.policy: ./tiny\\0more: got a path with a zero byte, wanted one without\n");
  has(error("xrun.tokenizer('./tiny\\0more')"),
      "test.lua:2: xrun.tokenizer: ./tiny\\0more: got a path with a zero byte, wanted one "
      "without\n");
  has(error("require './a\\0b'"), "./a\\0b.lua: got a path with a zero byte, wanted one without");
  has(error("require 'xrun\\0b'"), "xrun\\0b.lua: got a path with a zero byte, wanted one without");
  has(error("xrun.tensor({ 1 }, { ['dtype\\0s'] = 'f32' })"), "there is no option `dtype\\0s`");
}

TEST_F(RecipeRun, RequireSearchesBesideTheFileAndInTheRecipesFolder) {
  write("lib/a.lua", "local b = require './b'\nreturn { b = b, name = ... }");
  write("lib/b.lua", "return 7");
  write("b.lua", "return 8");
  EXPECT_EQ(run("local a = require 'lib.a'\nassert(a.b == 7)\nassert(require './b' == 8)\n"
                "assert(require 'lib.a' == a)\nassert(require './lib/a' == a)"),
            "");
  ASSERT_EQ(modules_.size(), 3u);
  EXPECT_EQ(modules_[0].path, "lib/a.lua");
  EXPECT_EQ(modules_[0].hash.size(), 32u);
  has(run("require 'no.such'"), "there is no module `no.such`; looked for no/such.lua");
  has(run("require 'xrun.sorted_pars'"), "did you mean `xrun.sorted_pairs`?");
}

TEST_F(RecipeRun, AnErrorInAModuleNamesTheModule) {
  write("broken.lua", "local a = {}\nlocal b = a.b.c\n");
  has(run("local x = require './broken'"), "broken.lua:2: attempt to index field 'b'");
}

TEST_F(RecipeRun, MayYieldBetweenSteps) {
  EXPECT_EQ(run("for i = 1, 3 do coroutine.yield(i) end"), "");
  EXPECT_EQ(yields_, 3);
}

TEST_F(RecipeRun, RandomNumbersAreTheSameInEveryRun) {
  const std::string draw = "local f = io.open('out', 'w'); f:write(math.random(1, 1e6)); f:close()";
  EXPECT_EQ(run(draw), "");
  const std::string first = read_file("out");
  EXPECT_EQ(run(draw), "");
  EXPECT_EQ(read_file("out"), first);
}

TEST_F(RecipeRun, SortedPairsGoesInOrder) {
  EXPECT_EQ(run(std::string(kHead) + "local s = ''\nfor k, v in xrun.sorted_pairs { b = 1, a = 2, "
                                     "[2] = 3 } do s = s .. k .. v end\nassert(s == '23a2b1', s)"),
            "");
}

TEST_F(RecipeRun, AMissingFileIsNamedWithTheCurrentFolder) {
  RecipeOptions options;
  options.recipe = "none.lua";
  EXPECT_EQ(error_of([&] { Recipe(options, {}); }),
            "none.lua: cannot be opened: there is no such file; the current folder is " +
                std::filesystem::current_path().string());
}

TEST_F(RecipeRun, LeavesTheStackOfTheStateBalanced) {
  write("test.lua", std::string(kHead) + "return xrun.ones(2)");
  RecipeOptions options;
  options.recipe = "test.lua";
  Recipe recipe(options, {open_tensor, open_config});
  EXPECT_EQ(lua_gettop(recipe.state()), 0);
}

}  // namespace xrun::recipe_test
