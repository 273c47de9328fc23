// Values that JSON cannot hold survive a save and a load; a failed save throws Error.

#include "core/run/checkpoint_files.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/scratch_folder.h"

namespace xrun::checkpoint_files_test {
namespace {

TEST(RunState, ValuesThatJsonCannotHoldRoundTrip) {
  const double infinity = std::numeric_limits<double>::infinity();
  Json state = Json::object();
  state.set("best", infinity);
  state.set("worst", Json(Json::Array{-infinity, 1, "inf", Json()}));
  state.set("mean", std::nan(""));
  const std::string text = dump_json(encode_state(state));
  EXPECT_EQ(text, R"({"best":{"$number":"inf"},"worst":[{"$number":"-inf"},1,"inf",null],)"
                  R"("mean":{"$number":"nan"}})");
  const Json back = decode_state(parse_json(text, "state"));
  EXPECT_EQ(back.at("best").as_double(), infinity);
  EXPECT_EQ(back.at("worst").as_array()[0].as_double(), -infinity);
  EXPECT_EQ(back.at("worst").as_array()[2].as_string(), "inf");
  EXPECT_TRUE(std::isnan(back.at("mean").as_double()));
}

TEST(RunState, AUsersOwnTableWithTheKeyOfASpecialNumberIsUnchanged) {
  for (const char* text :
       {R"({"$number":"inf"})", R"({"$number":"other"})", R"({"$number":7})", R"({"$number":null})",
        R"({"$number":["inf"]})", R"({"$number":[]})", R"({"$number":{"$number":"nan"}})",
        R"({"$number":"inf","x":1})", R"({"of":[{"$number":"-inf"}]})"}) {
    const std::string encoded = dump_json(encode_state(parse_json(text, "state")));
    EXPECT_EQ(dump_json(decode_state(parse_json(encoded, "state"))), text) << encoded;
  }
  const double infinity = std::numeric_limits<double>::infinity();
  const Json own(Json::Object{{"$number", infinity}});
  EXPECT_EQ(decode_state(encode_state(own)).at("$number").as_double(), infinity);
}

TEST(RunState, ASpecialNumberOfAnEarlierCheckpointIsRead) {
  EXPECT_TRUE(std::isnan(decode_state(parse_json(R"({"$number":"nan"})", "state")).as_double()));
  EXPECT_EQ(dump_json(decode_state(parse_json(R"({"$number":7})", "state"))), R"({"$number":7})");
}

TEST(CheckpointWriter, AFileThatIsGoneBeforeTheManifestIsAnError) {
  ScratchFolder folder;
  CheckpointWriter writer(folder.path());
  writer.add_json("run.json", Json::object());
  std::filesystem::remove(folder / "run.json");
  EXPECT_NE(error_of([&] { writer.finish(3); }).find("run.json: cannot be examined"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder / kCheckpointManifest));
}

}  // namespace
}  // namespace xrun::checkpoint_files_test
