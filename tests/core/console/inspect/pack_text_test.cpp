// The text of a step's packs matches a golden file, fits the terminal and shows every token once.

#include "core/base/utf8.h"
#include "core/console/inspect/inspected_pack.h"
#include "core/console/terminal/text_width.h"
#include "tests/core/console/inspect/inspect_fixture.h"
#include "tests/golden_file.h"

namespace xrun::pack_text_test {
namespace {

class PackText : public InspectFixture {
 protected:
  // With a row that is cut, one that is dropped and log-probs if they are wanted.
  InspectedStep hard_step(bool scores = false) {
    DataOptions asked = weighted(hard_pairs() + pair_row("Count.",
                                                         "one two three four five six "
                                                         "seven eight nine ten eleven",
                                                         "No."));
    asked.settings.max_length = 48;
    asked.settings.over_length = OverLength::kCut;
    InspectedStep step = inspect(open(asked), 200);
    if (!scores) return step;
    for (InspectedPack& pack : step.packs) {
      for (InspectedSegment& segment : pack.segments) {
        for (InspectedToken& token : segment.tokens) {
          if (token.position == 0) continue;
          token.policy = -0.37F * static_cast<float>(token.position % 40);
          token.reference = -0.5F;
        }
      }
    }
    return step;
  }
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

TEST_F(PackText, MatchesTheGoldenFile) {
  const InspectedStep step = hard_step();
  expect_golden("inspect/plain_80.txt", step_text(step, {ColorDepth::kNone, 80}));
  expect_golden("inspect/plain_20.txt", step_text(step, {ColorDepth::kNone, 20}));
  expect_golden("inspect/plain_120.txt", step_text(step, {ColorDepth::kNone, 120}));
  expect_golden("inspect/colors_16.txt", step_text(step, {ColorDepth::k16, 80}));
  expect_golden("inspect/colors_256.txt", step_text(step, {ColorDepth::k256, 120}));
  expect_golden("inspect/scores.txt", step_text(hard_step(true), {ColorDepth::kNone, 100}));
  std::string json;
  for (const InspectedPack& pack : step.packs) json += dump_json(pack_json(step, pack)) + "\n";
  expect_golden("inspect/packs.jsonl", json);
}

TEST_F(PackText, NoLineIsWiderThanTheTerminal) {
  const InspectedStep step = hard_step(true);
  for (const ColorDepth colors : {ColorDepth::kNone, ColorDepth::k256}) {
    for (int width = 1; width <= 180; width += width < 30 ? 1 : 7) {
      for (const std::string& line : lines_of(step_text(step, {colors, width}))) {
        // One column has no room for a wide character.
        EXPECT_LE(text_width(line), std::max(2, width)) << width << ": " << line;
      }
    }
  }
}

TEST_F(PackText, EscapesForeignText) {
  for (const std::string& line : lines_of(step_text(hard_step(), {ColorDepth::kNone, 80}))) {
    EXPECT_TRUE(is_valid_utf8(line));
    for (const char c : line) EXPECT_GE(static_cast<unsigned char>(c), 0x20) << line;
    EXPECT_EQ(line.find("\u202e"), std::string::npos);
  }
}

// The right side begins in the same column on each line, whatever the left one holds.
TEST_F(PackText, WideCharactersKeepTheColumns) {
  InspectedStep step = hard_step();
  const char* wide[] = {"日本", "e\u0301", "😀", "한", "x"};
  for (InspectedPack& pack : step.packs) {
    for (InspectedSegment& segment : pack.segments) {
      for (size_t i = 0; i < segment.tokens.size(); ++i) segment.tokens[i].shown = wide[i % 5];
    }
  }
  int seen = 0;
  for (const std::string& line : lines_of(step_text(step, {ColorDepth::k256, 120}))) {
    const size_t bar = line.find("│");
    if (bar == std::string::npos) continue;
    EXPECT_EQ(text_width(std::string_view(line).substr(0, bar)), 59) << line;
    ++seen;
  }
  EXPECT_GT(seen, 8);
}

TEST_F(PackText, HasEveryTokenOnce) {
  const InspectedStep step = hard_step();
  const std::string text = step_text(step, {ColorDepth::kNone, 4000});
  for (const InspectedPack& pack : step.packs) {
    for (const InspectedSegment& segment : pack.segments) {
      for (const InspectedToken& token : segment.tokens) {
        EXPECT_NE(text.find(token.shown), std::string::npos) << token.shown;
      }
    }
  }
}

TEST_F(PackText, ShowsTheWeightsOfEveryStep) {
  InspectedStep step = hard_step();
  const float weights[] = {0, 0.1F, 0.4F, 0.7F, 1, 2, -0.5F, -2};
  std::vector<InspectedToken>& tokens = step.packs[0].segments[0].tokens;
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i].weight = weights[i % 8];
  const std::string plain = step_text(step, {ColorDepth::kNone, 200});
  for (const char* name : {"weight up to 1/4", "weight up to 1/2", "weight below 1", "weight 1",
                           "weight above 1", "weight negative", "weight -1 and below"}) {
    EXPECT_NE(plain.find(name), std::string::npos) << name;
  }
}

TEST_F(PackText, RemarksOnPrefixesThatAreNotSharedAreYellow) {
  InspectedStep step = inspect(hard_pairs());
  InspectedBreak shown;
  shown.sentence = "rows a.jsonl:1 and a.jsonl:2 share 3 tokens, too few to fold";
  step.packs[0].breaks = {shown};
  step.packs[0].unfolded = "folding would compute 30 of 31 tokens";
  const std::string plain = step_text(step, {ColorDepth::kNone, 120});
  EXPECT_NE(plain.find("\n! " + shown.sentence + "\n"), std::string::npos) << plain;
  EXPECT_EQ(plain.find('\x1b'), std::string::npos);
  const std::string colored = step_text(step, {ColorDepth::k16, 120});
  EXPECT_NE(colored.find("\n\x1b[33m! " + shown.sentence + "\x1b[0m\n"), std::string::npos);
  EXPECT_NE(colored.find("\nnot folded: " + step.packs[0].unfolded + "\n"), std::string::npos);
}

TEST_F(PackText, ReportsAnEmptyStep) {
  const InspectedStep step = inspect(open(hard_pairs()), 400, 0);
  const std::string text = step_text(step, {ColorDepth::kNone, 80});
  EXPECT_NE(text.find("0 shown"), std::string::npos) << text;
}

}  // namespace
}  // namespace xrun::pack_text_test
