#include "core/console/console.h"

#include <gtest/gtest.h>

namespace xrun {
namespace {

TEST(Console, APrintedLineClearsTheStatusAndDrawsItAgain) {
  std::string out;
  Console console([&](std::string_view text) { out += text; }, {true, false, 20});
  console.set_status("step 1");
  console.print("hello");
  console.set_status("");
  console.print("bye\n");
  EXPECT_EQ(out, "\r\x1b[Kstep 1\r\x1b[Khello\nstep 1\r\x1b[Kbye\n");
}

TEST(Console, AStatusNeverFillsTheLastColumn) {
  std::string out;
  Console console([&](std::string_view text) { out += text; }, {true, false, 8});
  console.set_status("0123456789");
  EXPECT_EQ(out, "\r\x1b[K012345…");
}

TEST(Console, WhatIsNoTerminalGetsNeitherStatusNorColour) {
  std::string out;
  Console console([&](std::string_view text) { out += text; }, {false, false, 80});
  console.set_status("step 1");
  console.print(console.red("hello"));
  EXPECT_EQ(out, "hello\n");
}

TEST(Console, PaintsOnlyWhereColoursAreShown) {
  const Console console([](std::string_view) {}, {true, true, 80});
  EXPECT_EQ(console.bold("a"), "\x1b[1ma\x1b[0m");
  EXPECT_EQ(console.bold(""), "");
}

}  // namespace
}  // namespace xrun
