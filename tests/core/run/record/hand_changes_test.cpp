#include "core/run/record/hand_changes.h"

#include <gtest/gtest.h>

namespace xrun::hand_changes_test {

std::string said(const char* record) { return hand_changes_text(parse_json(record, "run.json")); }

TEST(HandChanges, NameTheirSteps) {
  EXPECT_EQ(said(R"({"touched":true,"touched_steps":[3]})"), "at step 3");
  EXPECT_EQ(said(R"({"touched":true,"touched_steps":[3,7]})"), "at steps 3, 7");
  EXPECT_EQ(said(R"({"touched":true,"touched_steps":[0,1,2,3,4,5,6,7,8,9,10,11]})"),
            "at steps 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...");
}

TEST(HandChanges, OfAnUntouchedRunAreNothing) {
  EXPECT_EQ(said("{}"), "");
  EXPECT_EQ(said(R"({"touched":false,"touched_steps":[3]})"), "");
}

TEST(HandChanges, OfADamagedRecordAreAtSomeStep) {
  EXPECT_EQ(said(R"({"touched":true})"), "at a step");
  EXPECT_EQ(said(R"({"touched":true,"touched_steps":["\u001b[2J",null]})"), "at a step");
  EXPECT_EQ(said(R"({"touched":true,"touched_steps":7})"), "at a step");
}

}  // namespace xrun::hand_changes_test
