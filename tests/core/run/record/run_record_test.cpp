// A run's settings are flattened in their order, and profiles of the same lines are added up.

#include "core/run/record/run_record.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/error_of.h"

namespace xrun::run_record_test {
namespace {

TEST(Settings, AreFlatInTheOrderOfTheConfig) {
  const Json config = parse_json(
      R"({"beta":0.1,"optim":{"lr":1e-5,"betas":[0.9,0.999]},"data":[{"path":"a","keep":["x"]}],
          "laws":{}})",
      "config");
  const Json origins = parse_json(
      R"({"beta":"--set","optim":"r.lua:3","optim.lr":"r.lua:4","data.1.keep.1":"r.lua:5"})",
      "origins");
  const auto settings = flat_settings(config, origins);
  ASSERT_EQ(settings.size(), 6u);
  EXPECT_EQ(settings[0].key, "beta");
  EXPECT_EQ(settings[0].origin, "--set");
  EXPECT_EQ(settings[1].key, "optim.lr");
  EXPECT_EQ(settings[1].origin, "r.lua:4");
  EXPECT_EQ(settings[2].key, "optim.betas");
  EXPECT_EQ(dump_json(settings[2].value), "[0.9,0.999]");
  EXPECT_EQ(settings[2].origin, "r.lua:3") << "from further up";
  EXPECT_EQ(settings[3].key, "data.1.path");
  EXPECT_EQ(settings[3].origin, "");
  EXPECT_EQ(settings[4].key, "data.1.keep");
  EXPECT_EQ(settings[4].origin, "r.lua:5") << "of the first element";
  EXPECT_EQ(settings[5].key, "laws");
}

TEST(Settings, AreEmptyForANonObject) {
  EXPECT_TRUE(flat_settings(Json(), Json()).empty());
  EXPECT_TRUE(flat_settings(Json::object(), Json("x")).empty());
}

TEST(RunRecord, IsInteractiveOncePromptsWereOpened) {
  const auto marked = [](const char* record) {
    return is_interactive(parse_json(record, "run.json"));
  };
  EXPECT_TRUE(marked(R"({"interactive":true})"));
  EXPECT_FALSE(marked("{}"));
  EXPECT_FALSE(marked(R"({"interactive":"\u001b[2J"})"));
}

std::string line(int number, const std::string& text, int n) {
  const std::string s = std::to_string(n);
  return R"({"file":"dpo.lua","line":)" + std::to_string(number) + R"(,"text":")" + text +
         R"(","calls":)" + s + R"(,"own_s":)" + s + R"(.5,"total_s":)" + s +
         R"(.5,"allocated_bytes":)" + s + R"(,"kept_bytes":)" + s + "}";
}

Json profile(const std::string& lines) {
  return parse_json(R"({"seconds":2.5,"lines":[)" + lines + "]}", "profile.json");
}

TEST(ProfileSum, AddsUpLinesThatReadTheSame) {
  const Json sum = add_profiles(
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

TEST(ProfileSum, RefusesANonProfile) {
  const Json good = profile(line(3, "a()", 1));
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{}", "has no key \"lines\""},
      {"[]", "has no key \"lines\""},
      {"{\"lines\":7,\"seconds\":1}", "is an integer (7), wanted an array"},
      {"{\"lines\":[7],\"seconds\":1}", "has no key \"file\""},
      {"{\"lines\":[],\"seconds\":\"x\"}", "is a string (\"x\"), wanted a number"},
      {"{\"lines\":[],\"seconds\":-1}", "seconds is -1, wanted seconds"},
      {"{\"seconds\":1,\"lines\":[{\"file\":\"a\",\"line\":1,\"text\":\"\",\"calls\":9e18,"
       "\"own_s\":0,\"total_s\":0,\"allocated_bytes\":0,\"kept_bytes\":0}]}",
       "is a number (9e+18), wanted an integer"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_EQ(error_of([&, &text = text] { add_profiles(parse_json(text, "profile.json"), good); }),
              message)
        << text;
  }
}

}  // namespace
// The steps before a start from the beginning are gone, and with them their settings.
TEST(RunRecord, AStartFromTheBeginningForgetsEarlierChanges) {
  const Json record = parse_json(R"({"resumes":[{"at":"t1","step":2,"changed":["config.beta"]},
      {"at":"t2","step":0,"changed":[]}, 7, {"at":"t3","step":4,"changed":[]}]})",
                                 "run.json");
  EXPECT_TRUE(changed_resumes(record).empty());
  EXPECT_TRUE(changed_resumes(Json::object()).empty());
}

}  // namespace xrun::run_record_test
