// The objective of kto.lua against TRL's losses for the same 64 labelled answers of given log-probs
// (tests/golden/make/feedback_losses.py), with the baseline that the recipe's own loop computes.

#include "tests/lua/bind/train/given_logprobs.h"

namespace xrun::feedback_losses_test {

class FeedbackLosses : public GivenLogprobs {
 protected:
  const Json golden_ = read_json(source_path("tests/golden/feedback_losses.json"));
};

TEST_F(FeedbackLosses, KtoMatchesTrl) {
  for (const Json& wanted : golden_.at("kto").as_array()) {
    SCOPED_TRACE(dump_json(wanted.at("baseline")));
    // One mismatched answer whose log-ratio is the baseline; below 0 it counts as 0.
    const Json mismatched(Json::Object{{"length", Json::Array{1}},
                                       {"policy", Json::Array{wanted.at("baseline")}},
                                       {"reference", Json::Array{0}}});
    const Json given(Json::Object{{"answers", golden_.at("answers")}, {"mismatched", mismatched}});
    expect_near(losses("kto", golden_.at("settings"), given), wanted.at("loss"));
  }
}

}  // namespace xrun::feedback_losses_test
