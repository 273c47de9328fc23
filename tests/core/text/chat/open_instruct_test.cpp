// Tulu's chat template and its trained text against open-instruct's
// (tests/golden/make/open_instruct.py).

#include <gtest/gtest.h>

#include "tests/core/text/chat/template_fixture.h"

namespace xrun::open_instruct_chat_test {

TEST(OpenInstructChats, TuluRendersAndTrainsTheSameText) {
  const Json golden = read_json(source_path("tests/golden/open_instruct.json"));
  const auto tulu = builtin_of("tulu-3");
  ASSERT_GE(golden.at("chats").size(), 10u);
  for (const Json& chat : golden.at("chats").as_array()) {
    const Rendering rendering = tulu->render(chat.at("messages"), {});
    EXPECT_EQ(rendering.text, chat.at("text").as_string());
    EXPECT_EQ(dump_json(turns_in_points(rendering)), dump_json(chat.at("turns"))) << rendering.text;
  }
}

}  // namespace xrun::open_instruct_chat_test
