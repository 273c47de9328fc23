#include "core/base/error.h"

#include <gtest/gtest.h>

#include "tests/error_of.h"

namespace xrun::error_test {

using namespace std::string_literals;

TEST(Error, AZeroByteDoesNotEndTheMessage) {
  const auto refuse = [](const std::string& name) {
    XRUN_CHECK(name.empty(), "{}: got a name, wanted none", name);
  };
  EXPECT_EQ(error_of([&] { refuse("a\0b\0"s); }), "a\\0b\\0: got a name, wanted none");
  EXPECT_EQ(error_of([] { throw UsageError("\0\0"s); }), "\\0\\0");
  EXPECT_EQ(error_of([] { throw MissingField("a\0b"s, "no `a\0b`"s); }), "no `a\\0b`");
}

}  // namespace xrun::error_test
