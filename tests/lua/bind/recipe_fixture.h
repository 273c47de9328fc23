#pragma once
// Recipes written to a fresh folder and run as the command does.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/base/error.h"
#include "core/base/file.h"
#include "lua/bind/modules.h"
#include "lua/bind/recipe.h"

namespace xrun {

class RecipeTest : public testing::Test {
 protected:
  RecipeTest() {
    std::string name = std::filesystem::temp_directory_path() / "xrun_recipe_XXXXXX";
    XRUN_CHECK(mkdtemp(name.data()) != nullptr, "{}: cannot be made", name);
    folder_ = name;
    before_ = std::filesystem::current_path();
    std::filesystem::current_path(folder_);  // so that messages show the name as given
  }
  ~RecipeTest() override {
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(folder_);
  }

  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    write_file_atomic(folder_ / name, text);
  }

  // Runs test.lua with this text; returns "" or the whole text of its error.
  std::string run(const std::string& text, std::vector<std::string> sets = {}) {
    write("test.lua", text);
    RecipeOptions options;
    options.recipe = "test.lua";
    options.sets = std::move(sets);
    usage_ = false;
    try {
      Recipe recipe(options, {open_tensor, open_config});
      while (recipe.resume()) ++yields_;
      modules_ = recipe.context().modules;
    } catch (const UsageError& error) {
      usage_ = true;
      return error.what();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  bool has(const std::string& text, const std::string& piece) {
    if (text.find(piece) != std::string::npos) return true;
    ADD_FAILURE() << text << "\n  lacks: " << piece;
    return false;
  }

  std::filesystem::path folder_, before_;
  std::vector<LoadedModule> modules_;
  bool usage_ = false;
  int yields_ = 0;
};

}  // namespace xrun
