// The profile charges time and bytes to the line that made the call, and to no other.

#include "lua/state/line_profile.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/model/ops/allocator.h"
#include "tests/error_of.h"
#include "tests/lua/state/lua_fixture.h"

namespace xrun::line_profile_test {
namespace {

class LineProfiles : public LuaTest {
 protected:
  LineProfiles() { install_memory_count(); }
};

TEST_F(LineProfiles, ChargesTimeAndBytesToTheLineThatCalled) {
  const LineProfile profile(state_);
  run("local a = xrun.ones(512, 512)\n"  // line 2
      "local s = 0\n"
      "for i = 1, 3 do s = s + a:matmul(a):sum():item() end\n"
      "return s");
  const ProfiledLine& made = profile.lines().at({"test.lua", 2});
  const ProfiledLine& used = profile.lines().at({"test.lua", 4});
  EXPECT_EQ(made.calls, 2);  // reading xrun.ones, calling it
  EXPECT_GE(made.allocated, 512 * 512 * 4);
  EXPECT_GE(used.allocated, 3 * 512 * 512 * 4);
  EXPECT_GT(used.own_s, 0);
  EXPECT_EQ(profile.lines().count({"test.lua", 3}), 0u);
  double own = 0;
  for (const auto& [key, line] : profile.lines()) own += line.own_s;
  EXPECT_LE(own, profile.elapsed_s());
}

TEST_F(LineProfiles, TheTimeOfAnInnerLineIsNotChargedToTheOuterOne) {
  const LineProfile profile(state_);
  run("local function heavy()\n"
      "  local a = xrun.ones(700, 700)\n"  // line 3
      "  return a:matmul(a)\n"
      "end\n"
      "return xrun.no_grad(heavy):sum():item()");  // line 6
  const ProfiledLine& inner = profile.lines().at({"test.lua", 4});
  const ProfiledLine& outer = profile.lines().at({"test.lua", 6});
  EXPECT_GT(outer.total_s, inner.own_s);
  EXPECT_LT(outer.own_s, outer.total_s);
}

TEST_F(LineProfiles, AnErrorClosesTheCallsThatItEnds) {
  const LineProfile profile(state_);
  EXPECT_TRUE(error_has("xrun.no_grad(function() xrun.ones(2):matmul(3) end)", "matmul"));
  run("return xrun.ones(2)");
  const Json json = profile.to_json();
  EXPECT_GT(json.at("seconds").as_double(), 0);
  for (const Json& line : json.at("lines").as_array()) {
    EXPECT_GE(line.at("own_s").as_double(), 0) << dump_json(line);
  }
}

TEST_F(LineProfiles, TheTableIsInTheOrderOfTheLines) {
  const LineProfile profile(state_);
  run("local a = xrun.ones(4)\nlocal b = a + a\nreturn b:sum()");
  const std::string text = profile.text(100);
  EXPECT_NE(text.find("  test.lua:\n"), std::string::npos) << text;
  EXPECT_LT(text.find("2    local a = xrun.ones(4)"), text.find("3    local b = a + a")) << text;
  EXPECT_NE(text.find("of it in Lua itself"), std::string::npos) << text;
}

TEST_F(LineProfiles, ASecondProfileIsAnError) {
  const LineProfile profile(state_);
  EXPECT_EQ(message_of<Error>([&] { LineProfile another(state_); }),
            "a profile is being taken already");
}

// A step makes tens of calls, so a microsecond each is negligible.
TEST_F(LineProfiles, ACallCostsAboutAMicrosecond) {
  const std::string loop = "local t = xrun.ones(1) for i = 1, 40000 do local d = t:dim() end";
  const auto call_us = [&] {  // the least of several: others compute on this machine too
    double least = INFINITY;
    for (int i = 0; i < 7; ++i) {
      const auto began = std::chrono::steady_clock::now();
      run(loop);
      const auto taken = std::chrono::steady_clock::now() - began;
      least = std::min(least, std::chrono::duration<double, std::micro>(taken).count() / 40000);
    }
    return least;
  };
  const double plain = call_us();
  const LineProfile profile(state_);
  const double profiled = call_us();
  std::printf("a binding call: %.2f us, profiled %.2f us\n", plain, profiled);
  EXPECT_LT(profiled - plain, 2);
}

}  // namespace
}  // namespace xrun::line_profile_test
