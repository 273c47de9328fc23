// An inspected step shows the segments, labels, weights and origins that will train.

#include "core/console/inspect/inspected_pack.h"

#include "tests/core/console/inspect/inspect_fixture.h"

namespace xrun::inspected_pack_test {
namespace {

using InspectedPacks = InspectFixture;

// The text of tokens that `which` is true of.
template <typename Which>
std::string text_where(const InspectedSegment& segment, const Which& which) {
  std::string text;
  for (const InspectedToken& token : segment.tokens) {
    if (which(token)) text += token.bytes;
  }
  return text;
}

TEST_F(InspectedPacks, HaveTheSegmentsThatTrain) {
  const DataSet set = open(hard_pairs());
  const InspectedStep step = inspect(set);
  EXPECT_EQ(step.units, 3);
  EXPECT_EQ(step.unit_name, "pair");
  int64_t tokens = 0, targets = 0;
  for (const InspectedPack& pack : step.packs) {
    for (const InspectedSegment& segment : pack.segments) {
      tokens += std::ssize(segment.tokens);
      targets += segment.targets();
      const TokenStream stream = set.stream(segment.row, segment.side > 0 ? 0 : 1);
      for (size_t i = 0; i < stream.ids.size(); ++i) {
        EXPECT_EQ(segment.tokens[i].id, stream.ids[i]);
        EXPECT_EQ(segment.tokens[i].target, stream.trained[i] != 0);
        EXPECT_EQ(segment.tokens[i].weight, stream.trained[i] != 0 ? segment.weight : 0);
        EXPECT_EQ(segment.tokens[i].position, static_cast<int32_t>(i));
      }
    }
  }
  EXPECT_EQ(tokens, step.tokens);
  EXPECT_EQ(targets, step.targets);
}

TEST_F(InspectedPacks, KnowRolesFilesAndLines) {
  const InspectedStep step = inspect(hard_pairs());
  const InspectedSegment& segment = step.packs.at(0).segments.at(0);
  EXPECT_EQ(segment.file, "pairs.jsonl");
  EXPECT_EQ(segment.line, 1);
  EXPECT_EQ(segment.side, 1);
  ASSERT_EQ(segment.turns.size(), 2u);
  EXPECT_EQ(segment.turns[1].role, "assistant");
  EXPECT_EQ(text_where(segment,
                       [](const InspectedToken& t) { return t.origin == TokenOrigin::kMessage; }),
            "What is the capital of France?Paris.");
  EXPECT_EQ(text_where(segment, [](const InspectedToken& t) { return t.target; }),
            "Paris.<|im_end|>");
  EXPECT_EQ(text_where(segment, [](const InspectedToken& t) { return t.special; }),
            "<|im_start|><|im_end|><|im_start|><|im_end|>");
}

TEST_F(InspectedPacks, FeedbackShowsItsLabels) {
  const InspectedStep step = inspect(open(labelled_answers()));
  ASSERT_EQ(step.packs.size(), 1u);
  EXPECT_EQ(step.packs[0].segments.at(0).label, true);
  EXPECT_EQ(step.packs[0].segments.at(1).label, false);
  const std::string text = step_text(step, {ColorDepth::kNone, 80});
  EXPECT_NE(text.find(" trained · label true\n"), std::string::npos) << text;
  EXPECT_NE(text.find(" · label false\n"), std::string::npos) << text;
  EXPECT_NE(pack_page({step}).find("</b>, label false</summary>"), std::string::npos);
  const std::string json = dump_json(pack_json(step, step.packs[0]));
  EXPECT_NE(json.find("\"label\":false}"), std::string::npos) << json;
  EXPECT_FALSE(inspect(hard_pairs()).packs[0].segments[0].label);
}

TEST_F(InspectedPacks, LimitsRowsOnRequest) {
  const DataSet set = open(hard_pairs());
  const InspectedStep step = inspect(set, 400, 1);
  ASSERT_EQ(step.packs.size(), 1u);
  EXPECT_EQ(step.units_left_out, 2);
  ASSERT_EQ(step.packs[0].segments.size(), 2u);
  EXPECT_EQ(step.packs[0].segments[0].pair, 0);
  EXPECT_EQ(step.tokens, inspect(set).tokens);
  EXPECT_EQ(inspect(set, 400, 0).packs.size(), 0u);
}

TEST_F(InspectedPacks, AMissingFileLeavesTokensWithoutRoles) {
  const DataOptions asked = options(hard_pairs());
  const DataSet set = open(asked);
  std::filesystem::remove(asked.sources[0].path);
  const InspectedStep step = inspect(set);
  const InspectedSegment& segment = step.packs.at(0).segments.at(0);
  EXPECT_TRUE(segment.turns.empty());
  ASSERT_EQ(segment.remarks.size(), 1u);
  EXPECT_TRUE(segment.remarks[0].starts_with("roles are unknown: ")) << segment.remarks[0];
}

TEST_F(InspectedPacks, JsonHasThePacksTokensLabelsAndWeights) {
  const InspectedStep step = inspect(hard_pairs());
  const Json json = pack_json(step, step.packs.at(0));
  const size_t tokens = json.at("tokens").size();
  for (const char* field : {"labels", "position_ids", "weights"}) {
    EXPECT_EQ(json.at(field).size(), tokens) << field;
  }
  EXPECT_EQ(json.at("cu_seqlens").as_array().back().as_int(), static_cast<int64_t>(tokens));
  EXPECT_EQ(json.at("cu_seqlens").size(), json.at("rows").size() + 1);
  const Json& row = json.at("rows").as_array()[0];
  EXPECT_EQ(row.at("file").as_string(), "pairs.jsonl");
  EXPECT_EQ(row.at("line").as_int(), 1);
  EXPECT_EQ(row.at("side").as_string(), "chosen");
  EXPECT_EQ(row.at("pair").as_int(), 0);
  for (size_t t = 0; t < tokens; ++t) {
    const bool target = json.at("weights").as_array()[t].as_double() > 0;
    EXPECT_EQ(json.at("labels").as_array()[t].as_int(),
              target ? json.at("tokens").as_array()[t].as_int() : -100);
  }
}

TEST_F(InspectedPacks, TextRowsHaveNeitherTurnsNorRemarks) {
  DataOptions asked = options("One line.\n\nAnother one.\n", "notes.txt");
  asked.kind = RowKind::kText;
  const DataSet set = DataSet::open(asked, tokenizer(), nullptr);
  const InspectedStep step = inspect(set.in_windows(8), 32);
  ASSERT_FALSE(step.packs.empty());
  const InspectedSegment& segment = step.packs[0].segments.at(0);
  EXPECT_TRUE(segment.turns.empty());
  EXPECT_TRUE(segment.remarks.empty()) << segment.remarks[0];
  EXPECT_EQ(segment.pair, -1);
  EXPECT_TRUE(pack_json(step, step.packs[0]).at("rows").as_array()[0].at("side").is_null());
}

}  // namespace
}  // namespace xrun::inspected_pack_test
