// Rows of a report, out of a token cache that a data set built.

#include <gtest/gtest.h>

#include "core/console/report/report.h"
#include "core/run/record/run_files.h"
#include "core/run/record/source_sample.h"
#include "tests/core/console/inspect/inspect_fixture.h"

namespace xrun::report_rows_test {
namespace {

class ReportRows : public InspectFixture {
 protected:
  // A run that trained the set with the tokenizer in a folder.
  RunFiles run_over(const DataSet& set, const std::string& model) {
    RunFiles run;
    run.name = "a";
    Json input = Json::object(), data = Json::object(), inputs = Json::object();
    input.set("keys", set.key_documents());
    data.set("1", input);
    inputs.set("data", data);
    run.record = Json::object();
    run.record.set("inputs", inputs);
    run.config = Json::object();
    run.config.set("model", model);
    const auto store = set.cache_dirs().front().parent_path();
    run.sources = sample_sources(run.record, run.config, folder_.path() / "run", store);
    return run;
  }
  static std::string smol() { return source_path("tests/data/tokenizers/smol"); }
};

TEST_F(ReportRows, HaveTheTextsLocationsAndLengthsThatTrained) {
  const DataSet set = open(hard_pairs());
  const RunFiles run = run_over(set, smol());
  ASSERT_EQ(run.sources.size(), 1U);
  const SourceSample& source = run.sources[0];
  EXPECT_EQ(source.gap, "");
  EXPECT_EQ(source.streams, (std::vector<std::string>{"chosen", "rejected"}));
  ASSERT_EQ(source.rows.size(), 3U);
  EXPECT_TRUE(source.rows[0].location.ends_with("pairs.jsonl:1")) << source.rows[0].location;
  EXPECT_TRUE(source.rows[1].location.ends_with("pairs.jsonl:2")) << source.rows[1].location;
  const auto trained = [](const std::vector<RowPiece>& pieces) {
    std::string text;
    for (const RowPiece& piece : pieces)
      text += piece.trained ? "[" + piece.text + "]" : piece.text;
    return text;
  };
  ASSERT_EQ(source.rows[0].streams.size(), 2U);
  EXPECT_EQ(trained(source.rows[0].streams[0]),
            "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
            "[Paris.<|im_end|>]\n");
  EXPECT_EQ(trained(source.rows[1].streams[1]),
            "<|im_start|>user\n日本の首都は?<|im_end|>\n<|im_start|>assistant\n"
            "[東京じゃない\ttab<|im_end|>]\n");
  ASSERT_EQ(source.lengths.size(), 2U);
  for (size_t stream = 0; stream < 2; ++stream) {
    ASSERT_EQ(std::ssize(source.lengths[stream]), set.size());
    for (int64_t row = 0; row < set.size(); ++row) {
      EXPECT_EQ(source.lengths[stream][static_cast<size_t>(row)],
                static_cast<double>(set.stream(row, stream).ids.size()));
    }
  }
}

TEST_F(ReportRows, MarkTrainedTextOnThePage) {
  const RunFiles run = run_over(open(hard_pairs()), smol());
  const std::string page = report_page({&run, 1});
  for (const char* part :
       {"<h2>Rows as they trained</h2>", "<b class=\"trained\">Paris.&lt;|im_end|&gt;</b>",
        "pairs.jsonl:1: chosen, rejected</div>", "tokens per row"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part;
  }
}

TEST_F(ReportRows, OfFeedbackNameTheirLabels) {
  const RunFiles run = run_over(open(labelled_answers()), smol());
  ASSERT_EQ(run.sources.size(), 1U);
  ASSERT_EQ(run.sources[0].rows.size(), 2U);
  EXPECT_TRUE(run.sources[0].rows[0].location.ends_with(":1, label true"));
  EXPECT_TRUE(run.sources[0].rows[1].location.ends_with(":2, label false"));
}

// `model` of the config may be a name from `xrun models`.
TEST_F(ReportRows, TakeTheTokenizerFromTheRecordedModelFolder) {
  const DataSet set = open(hard_pairs());
  RunFiles run = run_over(set, "a-name");
  EXPECT_TRUE(run.sources.at(0).rows.empty());
  run.record.set("model_folder", smol());
  run.sources = sample_sources(run.record, run.config, folder_.path() / "run",
                               set.cache_dirs().front().parent_path());
  EXPECT_EQ(run.sources.at(0).rows.size(), 3U);
}

TEST_F(ReportRows, OfTwoTokenizersAreAllShown) {
  const DataOptions asked = options(hard_pairs());
  const DataSet ours = open(asked), other = PairFixture::open(asked);
  RunFiles run = run_over(other, source_path("tests/data/tiny_tokenizer"));
  Json keys = Json::array(), input = Json::object(), data = Json::object(), inputs = Json::object();
  const Json first = other.key_documents(), second = ours.key_documents();
  keys.push_back(first.as_array().front());
  keys.push_back(second.as_array().front());
  input.set("keys", keys);
  data.set("1", input);
  inputs.set("data", data);
  run.record.set("inputs", inputs);
  run.record.set("model_folder", smol());
  run.sources = sample_sources(run.record, run.config, folder_.path() / "run",
                               ours.cache_dirs().front().parent_path());
  ASSERT_EQ(run.sources.size(), 2U);
  for (const SourceSample& source : run.sources) {
    EXPECT_EQ(source.gap, "");
    EXPECT_EQ(source.rows.size(), 3U);
  }
}

TEST_F(ReportRows, HaveOnlyLengthsWithoutTheTokenizer) {
  const RunFiles run = run_over(open(hard_pairs()), source_path("tests/data/tiny_tokenizer"));
  ASSERT_EQ(run.sources.size(), 1U);
  EXPECT_TRUE(run.sources[0].rows.empty());
  EXPECT_EQ(run.sources[0].lengths.size(), 2U);
  EXPECT_EQ(run.sources[0].gap,
            "the run's tokenizer is neither in its hf/ nor in a folder that `model` names");
}

}  // namespace
}  // namespace xrun::report_rows_test
