// The stubs for editors, parsed as an editor parses them.

#include <set>

#include "core/config/config_field.h"
#include "lua/api/api_text.h"
#include "lua/prompt/prompt_verbs.h"
#include "tests/lua/state/lua_fixture.h"

namespace xrun::editor_stubs_test {

class EditorStubs : public testing::Test {
 protected:
  EditorStubs() {
    register_docs();
    std::vector<DocEntry> entries = doc_entries();  // of the process: other tests add names
    std::erase_if(entries, [](const DocEntry& entry) {
      return entry.name.starts_with("Counter") || entry.name == "xrun.counter";
    });
    text_ = editor_stubs(entries);
  }
  bool holds(const std::string& piece) { return text_.find(piece) != std::string::npos; }
  std::string text_;
};

TEST_F(EditorStubs, AreALuaFileThatEditorsLoad) {
  LuaState state;
  EXPECT_EQ(luaL_loadstring(state, text_.c_str()), 0) << lua_tostring(state.get(), -1);
  EXPECT_TRUE(text_.starts_with("---@meta xrun\n"));
  EXPECT_LT(text_.size(), 500'000u);  // LuaLS leaves larger files out
}

TEST_F(EditorStubs, GiveFunctionsParametersAndResults) {
  EXPECT_TRUE(
      holds("---@param policy Policy\n---@param options? DataSetOptions\n---@return DataSet\n"
            "function xrun.preference(data, policy, options) end\n"));
  EXPECT_TRUE(holds("---@return Tensor\nfunction Policy:logprob(view) end\n"));
  EXPECT_TRUE(
      holds("---@param batch xrun.Config.batch\n---@return fun(): integer, Batch\n"
            "function Run:steps(data, batch) end\n"));
  EXPECT_TRUE(holds("---@param config xrun.Config\n---@return xrun.Resolved\n"));
}

TEST_F(EditorStubs, KnowEveryConfigKeyAndItsChoices) {
  for (const ConfigField& field : config_fields()) {
    const std::string last = field.path.substr(field.path.rfind('.') + 1);
    EXPECT_TRUE(holds("---@field " + last + " ") || holds("---@field " + last + "? "))
        << field.path;
  }
  EXPECT_TRUE(holds("---@field over_length? \"raise\"|\"drop\"|\"cut\""));
  EXPECT_TRUE(holds("---@field optim? xrun.Config.optim "));
  EXPECT_TRUE(holds("---@field data? xrun.Config.data[] "));
}

// Otherwise an editor objects to cfg.valid.every and to xrun.adamw(policy, cfg.optim).
TEST_F(EditorStubs, KnowTheFieldsThatAResolvedConfigAlwaysHas) {
  EXPECT_TRUE(holds("---@class xrun.Resolved.valid : xrun.Config.valid\n"));
  EXPECT_TRUE(holds("---@field valid xrun.Resolved.valid "));
  EXPECT_TRUE(holds("---@field optim xrun.Resolved.optim "));
  EXPECT_TRUE(holds("---@field every integer "));
  EXPECT_TRUE(holds("---@field lora? xrun.Resolved.lora "));
}

TEST_F(EditorStubs, KnowOperatorsAsMethodsAndFunctions) {
  EXPECT_TRUE(holds("---log_sigmoid(Tensor self)"));
  EXPECT_TRUE(holds("---@return Tensor\nfunction Tensor:log_sigmoid(...) end\n"));
  EXPECT_TRUE(holds("function xrun.cat(...) end\n"));
}

TEST_F(EditorStubs, DefineNoNameTwice) {
  std::set<std::string> names;
  for (size_t at = 0; (at = text_.find("\nfunction ", at)) != std::string::npos; ++at) {
    const std::string name = text_.substr(at + 10, text_.find('(', at) - at - 10);
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_GT(names.size(), 1000u);
}

}  // namespace xrun::editor_stubs_test
