// The members of a bundle and their names.

#include "core/share/bundle_maker.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/scoped_variable.h"
#include "tests/scratch_folder.h"

namespace xrun::bundle_maker_test {

// The teacher of the same folder name gets a number, and so must not take the folder of model 2.
TEST(BundleMaker, EachModelHasAFolderOfItsOwn) {
  ScratchFolder folder;
  const ScopedVariable cache("XRUN_CACHE", (folder / "cache").string());
  std::string recipe = "local cfg = xrun.config { seed = 1 }\n";
  for (const std::string model : {"a/tiny", "b/tiny", "c/2"}) {
    make_dirs(folder / model);
    folder.write(model + "/config.json", "{}");
    recipe += "xrun.frozen('" + (folder / model).string() + "')\n";
  }
  BundleRequest request;
  request.recipe = folder.write("a.lua", recipe);
  request.models.folder = [](const std::string& name) { return std::filesystem::path(name); };
  request.operators = [](const std::string&) { return std::vector<std::string>(); };
  std::vector<BundleMember> members;
  std::vector<std::string> notices;
  lock_of_recipe(request, members, notices);
  std::vector<std::string> names;
  for (const BundleMember& member : members) names.push_back(member.name);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"model/2/config.json", "model/3/config.json",
                                             "model/tiny/config.json", "recipe/a.lua"}));
}

}  // namespace xrun::bundle_maker_test
