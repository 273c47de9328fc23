#include "core/config/prompt_chunk.h"

#include <gtest/gtest.h>

namespace xrun::prompt_chunk_test {
namespace {

TEST(PromptChunk, TopLevelLocalsBecomeNamesOfTheEnvironment) {
  EXPECT_EQ(with_lasting_locals("local x = 1"), "      x = 1");
  EXPECT_EQ(with_lasting_locals("local x, y"), "      x, y = nil");
  EXPECT_EQ(with_lasting_locals("local a local b = 2"), "      a = nil       b = 2");
  EXPECT_EQ(with_lasting_locals("local function f(p) return p end"),
            "      function f(p) return p end");
}

TEST(PromptChunk, LocalsOfBlocksStay) {
  for (const char* chunk : {
           "do local x = 1 end",
           "function f() local x end",
           "for i = 1, 2 do local x = i end",
           "if a then local x elseif b then local y else local z end",
           "repeat local x = f() until x",
           "while true do local x end",
           "f(function() local x = 1 end)",
       }) {
    EXPECT_EQ(with_lasting_locals(chunk), chunk);
  }
  EXPECT_EQ(with_lasting_locals("do local x end local y"), "do local x end       y = nil");
}

TEST(PromptChunk, TextAndCommentsAreNoCode) {
  for (const char* chunk :
       {"x = 'local y'", "x = [[\nlocal y]]", "-- local y\nx = 1", "x.local_y = 1"}) {
    EXPECT_EQ(with_lasting_locals(chunk), chunk);
  }
}

TEST(PromptChunk, LinesStayWhereTheyAre) {
  EXPECT_EQ(with_lasting_locals("local a,\n  b\nlocal c = {\n 1 }"),
            "      a,\n  b = nil\n      c = {\n 1 }");
}

}  // namespace
}  // namespace xrun::prompt_chunk_test
