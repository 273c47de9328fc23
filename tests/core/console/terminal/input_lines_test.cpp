// Input that is not from a terminal is read line by line until it is complete.

#include "core/console/terminal/input_lines.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

namespace xrun::input_lines_test {
namespace {

// Inputs that PlainLines reads from bytes in a pipe, each with its first line number.
std::vector<std::pair<int, std::string>> inputs_of(std::string_view bytes) {
  std::array<int, 2> ends{};
  EXPECT_EQ(pipe(ends.data()), 0);
  EXPECT_EQ(write(ends[1], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  close(ends[1]);
  PlainLines lines(ends[0], [](std::string_view text) { return text.ends_with("+"); });
  std::vector<std::pair<int, std::string>> inputs;
  for (std::string input; lines.next(input) == InputLines::Outcome::kInput;) {
    inputs.emplace_back(lines.first_line(), input);
  }
  close(ends[0]);
  return inputs;
}

TEST(PlainLines, AnInputTakesLinesUntilItIsComplete) {
  EXPECT_EQ(inputs_of("a\nb +\nc\n\nd"),
            (std::vector<std::pair<int, std::string>>{{1, "a"}, {2, "b +\nc"}, {4, ""}, {5, "d"}}));
}

TEST(PlainLines, TheEndOfTheFileEndsTheLastInput) {
  EXPECT_EQ(inputs_of("a +\r\nb +"), (std::vector<std::pair<int, std::string>>{{1, "a +\nb +"}}));
  EXPECT_TRUE(inputs_of("").empty());
}

}  // namespace
}  // namespace xrun::input_lines_test
