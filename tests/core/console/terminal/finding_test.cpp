// A finding shows its location and its fix, wrapped to the terminal and without foreign control
// bytes.

#include "core/console/terminal/finding.h"

#include <gtest/gtest.h>

namespace xrun::finding_test {

namespace {

Console plain() {
  return Console([](std::string_view) {}, ConsoleTraits{});
}

Console terminal(int width) {
  ConsoleTraits traits;
  traits.terminal = true;
  traits.width = width;
  return Console([](std::string_view) {}, traits);
}

const Finding kMissing{Verdict::kMissing, "GPU", "no driver", "install one", "", false};

}  // namespace

TEST(Finding, ShowsItsFixBelow) {
  EXPECT_EQ(finding_text({Verdict::kOk, "memory", "22 GB"}, plain(), 6),
            "ok       memory  22 GB\n");
  EXPECT_EQ(finding_text(kMissing, plain(), 6),
            "missing  GPU     no driver\n                 -> install one\n");
}

TEST(Finding, ShowsItsLocation) {
  const Finding finding{Verdict::kWrong, "config", "bad", "good", "a.lua:24"};
  EXPECT_EQ(finding_text(finding, plain(), 6),
            "wrong    config  a.lua:24: bad\n                 -> good\n");
  const Json json = finding_json(finding);
  EXPECT_EQ(json.at("file").as_string(), "a.lua");
  EXPECT_EQ(json.at("line").as_int(), 24);
  EXPECT_EQ(json.at("remedy").as_string(), "good");
  EXPECT_EQ(finding_json({Verdict::kOk, "a", "b", "", "c:d"}).at("file").as_string(), "c:d");
}

TEST(Finding, EscapesForeignBytes) {
  const Finding finding{Verdict::kNote, "r\x07", "a\x1b[2J", "b\xff", "x\x07.jsonl:1"};
  EXPECT_EQ(finding_text(finding, plain(), 5),
            "note     r<07>  x<07>.jsonl:1: a<1B>[2J\n                -> b<FF>\n");
}

TEST(Finding, WrapsToATerminal) {
  const Finding finding{Verdict::kOk, "memory", "one two three four five six seven eight"};
  EXPECT_EQ(finding_text(finding, terminal(45), 6),
            "ok       memory  one two three four five six\n"
            "                 seven eight\n");
  EXPECT_EQ(finding_text({Verdict::kOk, "memory", "one      two"}, terminal(25), 6),
            "ok       memory\n  one      two\n");
  EXPECT_EQ(finding_text({Verdict::kOk, "memory", "onetwothreefour      five"}, terminal(22), 6),
            "ok       memory\n  onetwothreefour\n  five\n");
  // A path can be copied from one line.
  EXPECT_EQ(finding_text({Verdict::kOk, "memory", "all of them: a/long/path/of/a/file.jsonl; or"},
                         terminal(45), 6),
            "ok       memory  all of them:\n"
            "                 a/long/path/of/a/file.jsonl;\n"
            "                 or\n");
  EXPECT_EQ(finding_text({Verdict::kOk, "memory", "all of them: a/very/long/path/of/a/file.jsonl"},
                         terminal(42), 6),
            "ok       memory  all of them:\n"
            "                 a/very/long/path/of/a/file.jsonl\n");
  for (const int width : {1, 5, 20, 30}) {
    const std::string text = finding_text(finding, terminal(width), 6);
    EXPECT_NE(text.find("eight"), std::string::npos) << width;
  }
  EXPECT_EQ(finding_text(finding, terminal(20), 6),
            "ok       memory\n  one two three four\n  five six seven\n  eight\n");
}

TEST(Finding, OnlyMissingAndWrongAreTrouble) {
  EXPECT_FALSE(any_trouble({kMissing}));
  EXPECT_FALSE(any_trouble({{Verdict::kNote, "a", "b"}, {Verdict::kOk, "a", "b"}}));
  EXPECT_TRUE(any_trouble({kMissing, {Verdict::kWrong, "a", "b"}}));
}

}  // namespace xrun::finding_test
