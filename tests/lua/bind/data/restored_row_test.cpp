// A row that Lua did not change comes back exactly.

#include <gtest/gtest.h>

#include "lua/bind/data/data_functions.h"

namespace xrun::restored_row_test {
namespace {

struct Change {
  const char* name;
  const char* original;
  const char* value;  // as it comes out of Lua: keys sorted, 1 for 1.0, no nulls, [] for {}
  const char* wanted;
};

class RestoredRow : public testing::TestWithParam<Change> {};

TEST_P(RestoredRow, KeepsUnchangedFieldsExactly) {
  const Json original = parse_json(GetParam().original, "original");
  const Json value = parse_json(GetParam().value, "value");
  EXPECT_EQ(dump_json(restored_row(value, original)), GetParam().wanted);
}

const Change kChanges[] = {
    {"NothingChanged", R"({"b":1.0,"a":{},"n":null,"l":[]})", R"({"a":[],"b":1,"l":[]})",
     R"({"b":1.0,"a":{},"n":null,"l":[]})"},
    {"MemberChanged", R"({"b":1.0,"a":{"y":1,"x":2}})", R"({"a":{"x":3,"y":1},"b":1})",
     R"({"b":1.0,"a":{"y":1,"x":3}})"},
    {"FirstElementRemoved", R"([{"s":0},{"b":1,"a":2},{"z":{"d":1.0,"c":null},"y":4}])",
     R"([{"a":2,"b":1},{"y":4,"z":{"d":1}}])", R"([{"b":1,"a":2},{"z":{"d":1.0,"c":null},"y":4}])"},
    {"MiddleElementRemoved", R"([{"b":1,"a":2},{"s":0},{"d":1,"c":2}])",
     R"([{"a":2,"b":1},{"c":2,"d":1}])", R"([{"b":1,"a":2},{"d":1,"c":2}])"},
    {"OneRemovedAndOneChanged", R"([{"role":"s","n":0},{"role":"u","k":{"b":1,"a":2}}])",
     R"([{"k":{"a":2,"b":3},"role":"u"}])", R"([{"role":"u","k":{"b":3,"a":2}}])"},
    {"OneAddedInFront", R"([{"b":1,"a":2}])", R"([{"z":1},{"a":2,"b":1}])",
     R"([{"z":1},{"b":1,"a":2}])"},
    {"Reversed", R"([{"b":1,"a":2},{"d":1,"c":2.0}])", R"([{"c":2,"d":1},{"a":2,"b":1}])",
     R"([{"d":1,"c":2.0},{"b":1,"a":2}])"},
    {"EqualButForOrder", R"([{"s":0},{"b":1,"a":2},{"a":2,"b":1}])",
     R"([{"a":2,"b":1},{"a":2,"b":1}])", R"([{"b":1,"a":2},{"a":2,"b":1}])"},
    {"MovedToAnotherName", R"({"turns":[{"role":"u","content":"x"}]})",
     R"({"messages":[{"content":"x","role":"u"}]})",
     R"({"messages":[{"role":"u","content":"x"}]})"},
    {"NumbersOfAList", "[0,1.0,2,3.0]", "[1,2,3]", "[1.0,2,3.0]"},
    {"AnotherKind", R"({"a":[1]})", R"({"a":"x"})", R"({"a":"x"})"},
    {"AnotherRow", R"({"a":1})", R"(["x"])", R"(["x"])"},
};

INSTANTIATE_TEST_SUITE_P(Every, RestoredRow, testing::ValuesIn(kChanges),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace xrun::restored_row_test
