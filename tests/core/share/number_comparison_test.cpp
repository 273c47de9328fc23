// Recipes and bundles compared with each other.

#include "core/share/number_comparison.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/sha256.h"
#include "core/bundle/bundle_file.h"
#include "tests/scoped_variable.h"
#include "tests/scratch_folder.h"

namespace xrun::number_comparison_test {
namespace {

class NumberComparison : public testing::Test {
 protected:
  NumberComparison() : cache_("XRUN_CACHE", (folder_ / "cache").string()) {
    rows_ = folder_.write("rows.jsonl", "{}\n");
  }
  std::string recipe(const std::string& name, const std::string& beta,
                     const std::string& code = "print(cfg.beta)") {
    return folder_.write(name, "local cfg = xrun.config { beta = " + beta +
                                   ", data = { { path = '" + rows_ + "' } } }\n" + code);
  }
  RunComparison compare(const std::string& a, const std::string& b) {
    notices_.clear();
    return compare_numbers(a, b, notices_);
  }

  ScratchFolder folder_;
  ScopedVariable cache_;
  std::string rows_;
  std::vector<std::string> notices_;
};

}  // namespace

TEST_F(NumberComparison, CommentsHaveNoEffect) {
  const RunComparison same =
      compare(recipe("a.lua", "0.1"), recipe("b.lua", "0.1", "print(cfg.beta) -- the same"));
  EXPECT_TRUE(same.same());
  EXPECT_FALSE(same.results_known);
  EXPECT_FALSE(same.rows_known);
  EXPECT_TRUE(notices_.empty());
}

TEST_F(NumberComparison, AnotherValueHas) {
  const RunComparison other = compare(recipe("a.lua", "0.1"), recipe("b.lua", "0.2"));
  ASSERT_EQ(other.settings.size(), 1u);
  EXPECT_EQ(other.settings[0].key, "beta");
  EXPECT_FALSE(other.same());
}

TEST_F(NumberComparison, ABundleComparesByTheBytesOfItsData) {
  const std::string file = recipe("a.lua", "0.1");
  BundleLock lock;
  lock.recipe = "recipe/a.lua";
  const std::string text = read_file(file);
  lock.config = Json(Json::Object{{"beta", 0.1}});
  lock.origins = lock.seeds = lock.binary = lock.operators = Json::object();
  lock.inputs = {{InputKind::kData,
                  rows_,
                  {{.name = "rows.jsonl",
                    .bytes = 3,
                    .sha256 = sha256_hex("{}\n"),
                    .xxh3 = hash_hex("{}\n")}}}};
  write_bundle(lock, {{.name = "recipe/a.lua", .file = {}, .text = text}}, folder_ / "a.xrb");
  EXPECT_FALSE(compare(file, (folder_ / "a.xrb").string()).data_differ());
  folder_.write("rows.jsonl", "{ }\n");
  EXPECT_TRUE(compare(file, (folder_ / "a.xrb").string()).data_differ());
  std::filesystem::remove(rows_);
  EXPECT_FALSE(compare(file, (folder_ / "a.xrb").string()).data_differ());
  ASSERT_EQ(notices_.size(), 1u);
  EXPECT_TRUE(notices_[0].starts_with("the data are not compared: ")) << notices_[0];
}

TEST_F(NumberComparison, TwoBundlesCompareByModelsTemplatesAndModules) {
  const auto bundle = [&](const std::string& name, const std::string& model,
                          const std::string& module) {
    BundleLock lock;
    lock.recipe = "recipe/a.lua";
    lock.config = lock.origins = lock.seeds = lock.binary = lock.operators = Json::object();
    lock.inputs = {{InputKind::kModel,
                    "tiny",
                    {{.name = "model.safetensors", .bytes = 3, .sha256 = sha256_hex(model)}}}};
    write_bundle(lock,
                 {{.name = "recipe/a.lua", .file = {}, .text = "return 1"},
                  {.name = "recipe/one/loss.lua", .file = {}, .text = module},
                  {.name = "recipe/two/loss.lua", .file = {}, .text = "return 2"}},
                 folder_ / name);
    return (folder_ / name).string();
  };
  const std::string first = bundle("a.xrb", "abc", "return 1");
  EXPECT_TRUE(compare(first, bundle("b.xrb", "abc", "return 1")).same());
  const RunComparison model = compare(first, bundle("c.xrb", "abd", "return 1"));
  ASSERT_EQ(model.data.size(), 1u);
  EXPECT_EQ(model.data[0].name, "model tiny");
  const RunComparison module = compare(first, bundle("d.xrb", "abc", "return 3"));
  EXPECT_TRUE(module.code_differs());
  EXPECT_FALSE(module.data_differ());
}

}  // namespace xrun::number_comparison_test
