// docs/lua-api.md and `explain` are made of the doc strings, and no public name lacks one.

#include "lua/api/api_text.h"

#include <cstdlib>
#include <set>

#include "core/base/file.h"
#include "core/config/config_field.h"
#include "lua/bind/modules.h"
#include "lua/prompt/prompt_verbs.h"
#include "tests/lua/bind/recipe_fixture.h"
#include "tests/tree.h"

namespace xrun::api_text_test {

// A state with every module of the engine, as a recipe sees it.
class LuaApi : public RecipeTest {
 protected:
  LuaApi() {
    write("test.lua", "return 1");
    RecipeOptions options;
    options.recipe = "test.lua";
    recipe_ = std::make_unique<Recipe>(options, engine_modules());
    register_docs();
  }
  std::unique_ptr<Recipe> recipe_;
};

TEST_F(LuaApi, EveryNameOfTheModuleHasADoc) {
  lua_State* L = recipe_->state();
  const StackGuard guard(L);
  recipe_->state().push_module(L);
  std::set<std::string> found;
  lua_pushnil(L);
  while (lua_next(L, -2) != 0) {
    const std::string name = "xrun." + std::string(lua_tostring(L, -2));
    lua_pop(L, 1);
    const DocEntry* entry = find_doc(name);
    EXPECT_TRUE(entry != nullptr && entry->doc.size() > 3) << name << " has no doc";
    found.insert(name);
  }
  for (const char* name : {"xrun.tensor", "xrun.config", "xrun.sorted_pairs", "xrun.policy"}) {
    EXPECT_TRUE(found.contains(name)) << name;
  }
}

TEST_F(LuaApi, ThePageInDocsIsGeneratedFromTheDocStrings) {
  std::vector<DocEntry> entries = doc_entries();  // of the process: other tests add the names below
  std::erase_if(entries, [](const DocEntry& entry) {
    return entry.name.starts_with("Counter") || entry.name == "xrun.counter" ||
           entry.name == "xrun.described" || entry.name == "xrun.twice" ||
           entry.name == "repl.beta" || entry.name == "repl.count_up" || entry.name == "repl.leap";
  });
  const std::string page = source_path("docs/lua-api.md");
  const std::string wanted = lua_api_markdown(entries);
  if (std::getenv("XRUN_WRITE_DOCS") != nullptr) write_file_atomic(page, wanted);
  const bool same = std::filesystem::exists(page) && read_file(page) == wanted;
  EXPECT_TRUE(same) << page
                    << " is stale; XRUN_WRITE_DOCS=1 in the environment of this test writes it";
}

TEST_F(LuaApi, ExplainsKeysAndNames) {
  has(explain("optim.lr"), "The learning rate after warmup.\n  value: a number above 0; required");
  has(explain("data.1.weight"), "share of rows");
  has(explain("tensor"), "xrun.tensor(values: table|number|boolean, {dtype?, ");
  has(explain("Tensor:item"), "Tensor:item() -> number|boolean: The value");
  EXPECT_EQ(explain("no such name"), "");
}

TEST_F(LuaApi, ExplainsOperatorsByTheirSchemas) {
  has(explain("log_sigmoid"), "log_sigmoid(Tensor self)");
  EXPECT_EQ(explain("Tensor:log_sigmoid"), explain("log_sigmoid"));
  has(explain("xrun.ops.xrun.linear_head"), "linear_head(Tensor");
  EXPECT_EQ(explain("xrun.ops.aten"), "");
  EXPECT_EQ(explain("xrun.ops.none.such"), "");
  EXPECT_EQ(explain(""), "");
}

TEST_F(LuaApi, EveryVerbAndColonCommandHasASentence) {
  int verbs = 0, commands = 0;
  for (const DocEntry& entry : doc_entries()) {
    const bool verb = entry.name.starts_with("repl."), command = entry.name.starts_with(':');
    if (!verb && !command) continue;
    ++(verb ? verbs : commands);
    EXPECT_TRUE(entry.doc.size() > 8 && entry.doc.ends_with('.')) << entry.name;
  }
  EXPECT_GE(verbs, 7);
  EXPECT_GE(commands, 10);
  has(explain(":time"), ":time CHUNK: ");
  has(explain("gradcheck"), "gradcheck(f?: function) -> table: ");
}

TEST_F(LuaApi, EveryConfigKeyHasASentence) {
  for (const ConfigField& field : config_fields()) {
    EXPECT_GT(field.doc.size(), 8u) << field.path;
    EXPECT_TRUE(field.doc.ends_with('.') || field.doc.ends_with('}')) << field.path;
    EXPECT_FALSE(explain(field.path).empty()) << field.path;
  }
}

}  // namespace xrun::api_text_test
