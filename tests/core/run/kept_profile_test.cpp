#include "core/run/kept_profile.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace xrun::kept_profile_test {
namespace {

std::string line(int number, const std::string& text, int n) {
  const std::string s = std::to_string(n);
  return R"({"file":"dpo.lua","line":)" + std::to_string(number) + R"(,"text":")" + text +
         R"(","calls":)" + s + R"(,"own_s":)" + s + R"(.5,"total_s":)" + s +
         R"(.5,"allocated_bytes":)" + s + R"(,"kept_bytes":)" + s + "}";
}

Json profile(const std::string& lines) {
  return parse_json(R"({"seconds":2.5,"lines":[)" + lines + "]}", "profile.json");
}

TEST(KeptProfile, AddsUpLinesThatReadTheSame) {
  const Json sum = joined_profiles(
      profile(line(3, "a()", 1) + "," + line(4, "b()", 2)),
      profile(line(3, "a()", 10) + "," + line(4, "c()", 20) + "," + line(1, "d()", 30)));
  EXPECT_EQ(sum.at("seconds").as_double(), 5);
  const Json::Array& lines = sum.at("lines").as_array();
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0].at("line").as_int(), 1);
  EXPECT_EQ(lines[1].at("calls").as_int(), 11);
  EXPECT_EQ(lines[1].at("own_s").as_double(), 12);
  EXPECT_EQ(lines[1].at("kept_bytes").as_int(), 11);
  EXPECT_EQ(dump_json(lines[2]), line(4, "b()", 2));
  EXPECT_EQ(dump_json(lines[3]), line(4, "c()", 20));
}

TEST(KeptProfile, RefusesWhatIsNone) {
  const Json good = profile(line(3, "a()", 1));
  for (const char* text :
       {"{}", "[]", "{\"lines\":7,\"seconds\":1}", "{\"lines\":[7],\"seconds\":1}",
        "{\"lines\":[],\"seconds\":\"x\"}", "{\"lines\":[],\"seconds\":-1}",
        "{\"seconds\":1,\"lines\":[{\"file\":\"a\",\"line\":1,\"text\":\"\",\"calls\":9e18,"
        "\"own_s\":0,\"total_s\":0,\"allocated_bytes\":0,\"kept_bytes\":0}]}"}) {
    EXPECT_THROW(joined_profiles(parse_json(text, "profile.json"), good), Error) << text;
  }
}

}  // namespace
}  // namespace xrun::kept_profile_test
