// Every metric of the sources is documented, in the program and in docs/.

#include "core/run/record/metric_docs.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <regex>

#include "core/base/file.h"
#include "tests/tree.h"

namespace xrun::metric_docs_test {
namespace {

TEST(MetricDocs, EveryMetricOfTheSourcesHasARow) {
  const std::regex metric("\"((train|rollout|perf|align|sample)/[a-z0-9_/]*[a-z])\",");
  size_t found = 0;
  for (const char* folder : {"core", "lua"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(source_path(folder))) {
      if (entry.path().extension() != ".cpp") continue;
      const std::string text = read_file(entry.path());
      for (std::sregex_iterator at(text.begin(), text.end(), metric), end; at != end; ++at) {
        EXPECT_NE(find_metric_doc((*at)[1].str()), nullptr) << (*at)[1] << " in " << entry.path();
        ++found;
      }
    }
  }
  EXPECT_GT(found, 30u);
}

TEST(MetricDocs, TheDocumentationHasEachRow) {
  const std::string pages =
      read_file(source_path("docs/runs.md")) + read_file(source_path("docs/rollout-metrics.md"));
  for (const MetricDoc& doc : metric_docs()) {
    const std::string names =
        std::regex_replace(std::string(doc.names), std::regex("[^ ,.][^ ,]*"), "`$&`");
    const std::string row = "| " + names + " | " + std::string(doc.meaning) + " |\n";
    EXPECT_NE(pages.find(row), std::string::npos) << row;
  }
}

TEST(MetricDocs, NamesAreFoundUnderTheirGroups) {
  EXPECT_EQ(metric_names({"rollout/length, length_p50, perf/sample_s, ...", ""}),
            (std::vector<std::string>{"rollout/length", "rollout/length_p50", "perf/sample_s"}));
  EXPECT_EQ(metric_names({"train/moe/idle, load_max", ""}).back(), "train/moe/load_max");
  const MetricDoc* loss = find_metric_doc("train/loss");
  ASSERT_NE(loss, nullptr);
  EXPECT_EQ(find_metric_doc("valid/other/loss"), loss);
  EXPECT_NE(find_metric_doc("valid/margin"), nullptr);
  EXPECT_NE(find_metric_doc("rollout/valid_groups"), nullptr);
  EXPECT_EQ(find_metric_doc("loss"), nullptr);
  EXPECT_EQ(find_metric_doc("rollout/margin"), nullptr);
  EXPECT_EQ(find_metric_doc("..."), nullptr);
}

TEST(MetricDocs, PlaceholdersStandForTheNamesOfARun) {
  EXPECT_EQ(find_metric_doc("rollout/pass_at_16"), find_metric_doc("rollout/pass_at_1"));
  EXPECT_EQ(find_metric_doc("rollout/pass_at_"), nullptr);
  EXPECT_EQ(find_metric_doc("rollout/pass_at_x"), nullptr);
  const MetricDoc* part = find_metric_doc("rollout/reward/format");
  ASSERT_NE(part, nullptr);
  EXPECT_EQ(part->names, "rollout/reward/NAME");
  EXPECT_EQ(find_metric_doc("rollout/reward/"), nullptr);
  for (const char* name : {"train/loss/pairs", "valid/loss/pairs", "train/margin/pairs"}) {
    const MetricDoc* source = find_metric_doc(name);
    ASSERT_NE(source, nullptr) << name;
    EXPECT_TRUE(source->names.starts_with("train/loss/SOURCE")) << name;
  }
  EXPECT_EQ(find_metric_doc("train/nothing/pairs"), nullptr);
}

}  // namespace
}  // namespace xrun::metric_docs_test
