// Classes and arguments of bindings.

#include "tests/error_of.h"
#include "tests/lua/state/lua_fixture.h"

namespace xrun::class_test {
namespace {

struct Counter {
  int64_t count = 0;
  static inline int alive = 0;
  Counter() { ++alive; }
  ~Counter() { --alive; }
};

void open_counter(lua_State* L) {
  Class<Counter>(L, "Counter", "Counts, for tests.")
      .method("add", {{"number", "integer"}, {"options?", "table", {{"twice", "boolean", false}}}},
              {"integer"}, "Adds and returns the count.",
              [](Counter& self, lua_State* L) {
                const Options options(L, 3);
                const int64_t n = arg<int64_t>(L, 2, "number");
                self.count += options.get<bool>("twice") ? 2 * n : n;
                push(L, self.count);
                return 1;
              })
      .method("fail", {}, {}, "Throws.",
              [](Counter&, lua_State*) -> int {
                const std::string text(100, 'x');  // a local that must be destroyed
                throw Error("pairs.jsonl:17: " + text + "\nhint: shorten it");
              })
      .property(
          "count", "number", "The count.",
          [](Counter& self, lua_State* L) { return push(L, self.count), 1; },
          [](Counter& self, lua_State* L) {
            self.count = arg<int64_t>(L, 3, "count");
            return 0;
          })
      .fallback([](Counter&, const std::string& name, lua_State* L) {
        if (name != "column") return 0;
        push(L, 5);
        return 1;
      })
      .tostring([](const Counter& self) { return fmt::format("Counter at {}", self.count); });
}

}  // namespace

class ClassBinding : public LuaTest {
 protected:
  ClassBinding() {
    open_counter(state_);
    state_.function("counter", {}, {"Counter"}, "Makes a Counter, for tests.", [](lua_State* L) {
      push(L, std::make_shared<Counter>());
      return 1;
    });
  }
};

TEST_F(ClassBinding, MethodsPropertiesAndFallbacksWork) {
  EXPECT_EQ(
      run("local c = xrun.counter(); c:add(2); c:add(3, {twice = true}); c.count = c.count + 1\n"
          "return c.count, c.column, tostring(c)"),
      "9, 5, Counter at 9");
  error_has("return xrun.counter()['column\\0x']", "Counter has no method or property `column");
  error_has("return xrun.counter().cuont", "Counter has no method or property `cuont`");
  error_has("return xrun.counter().cuont", "did you mean `count`?");
  error_has("xrun.counter().other = 1", "Counter has no property that can be set: `other`");
}

TEST_F(ClassBinding, ArgumentErrorsNameGotAndWanted) {
  error_has("xrun.counter():add('2')", "argument 2 (number): got \"2\", wanted a whole number");
  error_has("xrun.counter():add(1.5)", "got 1.5, wanted a whole number");
  error_has("xrun.counter():add()", "got nothing, wanted a whole number");
  error_has("xrun.counter():add(1, {twise = true})", "there is no option `twise`");
  error_has("xrun.counter():add(1, {twise = true})", "did you mean `twice`?");
  error_has("xrun.counter():add(1, {twice = 1})",
            "Counter:add: option `twice`: got 1, wanted true or false");
  error_has("xrun.counter().add(xrun.ones(2), 1)", "got f32[2] cpu, wanted a Counter");
}

TEST_F(ClassBinding, AnErrorShowsATextAsOneShortLine) {
  error_has("xrun.counter():add('a\\n\\27[2Jb')", "got \"a⏎<1B>[2Jb\", wanted a whole number");
  error_has("local s = ('\\n'):rep(3) return s.none.x", "\n  s = \"⏎⏎⏎\"");
  // A letter of several bytes is not divided.
  error_has("xrun.counter():add(('x'):rep(36) .. ('é'):rep(9))",
            "got \"" + std::string(36, 'x') + "...\", wanted a whole number");
}

TEST_F(ClassBinding, AThrownErrorReachesLuaWithItsHint) {
  EXPECT_EQ(run("local ok, e = pcall(function() xrun.counter():fail() end); return ok, e.hint"),
            "false, shorten it");
  error_has("xrun.counter():fail()", "Counter:fail: pairs.jsonl:17: xxx");
}

TEST_F(ClassBinding, AnObjectIsFreedWithItsLastHandle) {
  EXPECT_EQ(Counter::alive, 0);
  run("local c = xrun.counter(); c = nil; collectgarbage(); collectgarbage()");
  EXPECT_EQ(Counter::alive, 0);
}

TEST_F(ClassBinding, MetatablesCannotBeReadOrForged) {
  EXPECT_EQ(run("return getmetatable(xrun.counter())"), "Counter");
  error_has("local x = newproxy(); xrun.sum(x)", "no overload takes");
}

TEST_F(ClassBinding, EveryPublicNameHasADoc) {
  // Walks what a recipe can reach and demands an entry for it.
  lua_State* L = state_;
  const StackGuard guard(L);
  state_.push_module(L);
  lua_pushnil(L);
  while (lua_next(L, -2) != 0) {
    const std::string name = "xrun." + std::string(lua_tostring(L, -2));
    EXPECT_NE(find_doc(name), nullptr) << name;
    lua_pop(L, 1);
  }
  for (const DocEntry& entry : doc_entries()) {
    EXPECT_FALSE(entry.doc.empty()) << entry.name;
    const bool read = entry.kind == DocKind::kProperty || entry.kind == DocKind::kValue;
    EXPECT_TRUE(!read || entry.results.size() == 1) << entry.name;
  }
  EXPECT_EQ(error_of([] { register_doc({.name = "xrun.bare", .doc = ""}); }),
            "xrun.bare has no doc string");
}

TEST(DocSignature, IsWrittenFromParametersAndResults) {
  DocEntry entry{.name = "X:f",
                 .kind = DocKind::kMethod,
                 .parameters = {{"view", "View|Batch"}, {"f?", "any"}, {"...", "any"}},
                 .results = {{"Tensor", "[n]"}, "integer|nil"}};
  EXPECT_EQ(signature_text(entry), "(view: View|Batch, f?, ...) -> Tensor [n], integer|nil");
  entry.parameters = {{"options?", "table", {{"lora", "table"}, {"recompute", "boolean", false}}}};
  entry.results = {};
  EXPECT_EQ(signature_text(entry), "({lora?, recompute? = false})");
  EXPECT_TRUE(entry.parameters[0].optional);
  EXPECT_EQ(entry.parameters[0].name, "options");
}

TEST_F(ClassBinding, ANameIsNotBoundToTwoFunctions) {
  const auto bind = [](int (*invoke)(lua_State*, void*)) {
    return register_binding({.entry = {.name = "xrun.twice", .doc = "A test's."},
                             .function = nullptr,
                             .invoke = invoke});
  };
  register_doc({.name = "xrun.described", .doc = "A test's."});
  EXPECT_EQ(error_of([&] {
              push_function(state_, {.name = "xrun.described", .doc = "Same."},
                            [](lua_State*) { return 0; });
            }),
            "xrun.described is registered already, without a function; give this one another name");
  const auto first = [](lua_State*, void*) { return 0; };
  const auto second = [](lua_State*, void*) { return 1; };
  EXPECT_EQ(bind(first), bind(first));
  EXPECT_EQ(error_of([&] { bind(second); }),
            "xrun.twice is registered already, with another function; give this one another name");
}

TEST_F(ClassBinding, JsonRoundTripsThroughLua) {
  lua_State* L = state_;
  const Json value = parse_json(R"({"a":[1,2.5,"x",true],"b":{"c":[]}})", "test");
  push(L, value);
  EXPECT_EQ(dump_json(to_json(L, -1)), R"({"a":[1,2.5,"x",true],"b":{"c":[]}})");
  lua_settop(L, 0);
  run("return 1");
  const auto refusal = [&](const char* code) {
    luaL_dostring(L, code);
    return error_of([&] { to_json(L, -1); });
  };
  EXPECT_TRUE(refusal("local t = {}; t.t = t; return t")
                  .ends_with("t.t: nested too deep, or a table that contains itself"));
  EXPECT_EQ(refusal("return {1, 2, a = 3}"),
            "the value: a table has both named and numbered keys, or gaps in its numbers");
  EXPECT_EQ(refusal("return {f = print}"),
            "f: got function, wanted text, a number, true, false or a table of them");
}

}  // namespace xrun::class_test
