// JSON values round-trip with their exact numbers, and a malformed text is refused at its line and
// column.

#include "core/base/json.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>

#include "core/base/error.h"
#include "tests/error_of.h"

namespace xrun::json_test {
namespace {

std::string parse_error(std::string_view text) {
  return error_of([&] { parse_json(text, "f.json"); });
}

TEST(Json, RoundTripsEveryKindInOneLine) {
  const std::string text = R"({"a":[1,-2.5,1e30,true,null,"x\n\"é"],"b":{}})";
  EXPECT_EQ(dump_json(parse_json(text, "t")), R"({"a":[1,-2.5,1e+30,true,null,"x\n\"é"],"b":{}})");
}

TEST(Json, ARepeatedKeyKeepsItsPositionAndTakesTheLastValue) {
  EXPECT_EQ(dump_json(parse_json(R"({"a":1,"b":2,"a":3})", "t")), R"({"a":3,"b":2})");
}

TEST(Json, NamesLineAndColumnOfTheFirstFault) {
  EXPECT_EQ(parse_error("{\"a\": 1,\n \"b\": tru}"),
            "f.json:2:7: is not valid JSON: expected a value");
  EXPECT_EQ(parse_error("{\"a\": 1"),
            "f.json:1:8: is not valid JSON: the text ends inside a value");
  EXPECT_EQ(parse_error("{\"a\": 1}, "),
            "f.json:1:9: is not valid JSON: a comma after the value; remove it");
  for (const std::string word : {"NaN", "Infinity", "-Infinity"}) {
    EXPECT_EQ(parse_error("{\"a\": " + word + "}"),
              "f.json:1:7: is not valid JSON: " + word + " is not JSON; write null");
  }
  EXPECT_EQ(parse_error("{\"a\" 1}"), "f.json:1:6: is not valid JSON: expected ':'");
  EXPECT_EQ(parse_error("[1,2] x"),
            "f.json:1:7: is not valid JSON: unexpected text after the value");
  EXPECT_EQ(parse_error("\"ab"),
            "f.json:1:1: is not valid JSON: a string without its closing quote");
}

TEST(Json, NamesThePositionOfFaultsInStringsAndNumbers) {
  const std::pair<const char*, const char*> faults[] = {
      {R"({"text":"\uZZZZ"})", "10: is not valid JSON: \\u without four hexadecimal digits"},
      {R"({"text":"\u12"})", "10: is not valid JSON: \\u without four hexadecimal digits"},
      {R"({"text":"\q"})", "10: is not valid JSON: an unknown escape in a string"},
      {R"({"text":"\ud800"})", "10: is not valid JSON: half of a surrogate pair"},
      {R"({"text":"\ud800\u0041"})", "10: is not valid JSON: half of a surrogate pair"},
      {R"({"text":"x\udc00"})", "11: is not valid JSON: half of a surrogate pair"},
      {R"({"text":"a","n":01})", "17: is not valid JSON: a number with a leading zero"},
      {R"({"text":"a","x":-1e400})", "17: is not valid JSON: a number out of range"},
      {"{\"text\":\"\xFF\"}", "10: is not valid JSON: a byte that is not UTF-8"},
  };
  for (const auto& [text, want] : faults) {
    EXPECT_EQ(parse_error(text), std::string("f.json:1:") + want);
  }
  EXPECT_EQ(parse_error(R"(["\ud83d\ude00", 0, -0.5, 1e-400])"), "");
  const std::string huge = "[1" + std::string(400, '0') + "]";
  EXPECT_EQ(parse_error(huge), "f.json:1:2: is not valid JSON: a number out of range");
}

TEST(Json, SkipsAByteOrderMarkAndNamesUtf16) {
  EXPECT_EQ(dump_json(parse_json("\xEF\xBB\xBF[1]", "t")), "[1]");
  EXPECT_EQ(parse_error(std::string_view("\xFF\xFE[\0", 4)),
            "f.json:1:1: is not valid JSON: it is UTF-16, wanted UTF-8; convert it with iconv -f "
            "UTF-16 -t UTF-8");
}

TEST(Json, RefusesNestingBeyondTheLimit) {
  EXPECT_NE(
      parse_error(std::string(600, '[') + std::string(600, ']')).find("nested deeper than 512"),
      std::string::npos);
  EXPECT_EQ(parse_error(std::string(400, '[') + std::string(400, ']')), "");
}

TEST(Json, AnIntegerBeyondInt64KeepsItsDigits) {
  const std::string text =
      "[9223372036854775807,9223372036854775808,18446744073709551615,\"18446744073709551616\","
      "-9223372036854775808,-9223372036854775809,[1.5,123456789012345678901234567890],-0,1e20]";
  const Json value = parse_json(text, "t");
  EXPECT_EQ(dump_json(value),
            "[9223372036854775807,9223372036854775808,18446744073709551615,"
            "\"18446744073709551616\",-9223372036854775808,-9223372036854775809,"
            "[1.5,123456789012345678901234567890],0,1e+20]");
  EXPECT_EQ(value.as_array()[0].as_int(), std::numeric_limits<int64_t>::max());
  const Json& large = value.as_array()[2];
  EXPECT_TRUE(large.is_number());
  EXPECT_FALSE(large.is_int());
  EXPECT_EQ(large.digits(), "18446744073709551615");
  EXPECT_EQ(large.as_double(), 0x1p64);
  EXPECT_EQ(value.as_array()[5].as_double(), -0x1p63);
  EXPECT_EQ(dump_json(Json(uint64_t{1} << 63)), "9223372036854775808");
  EXPECT_EQ(message_of<Error>([&] { large.as_int(); }),
            "is an integer beyond int64 (18446744073709551615), wanted an integer");
}

TEST(Json, LargeIntegersCompareByDigitsAndWithDoublesByValue) {
  const Json value = parse_json("[18446744073709551615, 18446744073709551614, 1]", "t");
  EXPECT_EQ(value.as_array()[0], Json::big_integer("18446744073709551615"));
  EXPECT_FALSE(value.as_array()[0] == value.as_array()[1]);
  EXPECT_EQ(value.as_array()[0], Json(0x1p64));
  EXPECT_FALSE(value.as_array()[0] == value.as_array()[2]);
}

TEST(Json, RefusesBigIntegersThatFitInt64OrAreMalformed) {
  for (const char* digits : {"", "-", "12", "1844674407370955161x", "018446744073709551616"}) {
    EXPECT_EQ(error_of([&] { Json::big_integer(digits); }),
              fmt::format("\"{}\" is not an integer beyond int64", digits));
  }
  EXPECT_EQ(error_of([] { Json::big_integer("1" + std::string(400, '0')); }),
            "an integer of 401 digits is beyond a double's range");
  for (const char* text : {"[018446744073709551616]", "[18446744073709551616-1]"}) {
    EXPECT_NE(parse_error(text), "") << text;
  }
}

TEST(Json, AWrongKindNamesBothKinds) {
  EXPECT_EQ(message_of<Error>([&] { Json("x").as_int(); }),
            "is a string (\"x\"), wanted an integer");
  // A long value is cut between two characters.
  const std::string text = std::string(58, 'a') + "éé";
  EXPECT_EQ(error_of([&] { Json(text).as_int(); }),
            "is a string (\"" + text.substr(0, 58) + "...), wanted an integer");
}

TEST(Json, NumbersOfTwoKindsAreEqualOnlyIfTheirValuesAre) {
  const int64_t exact = int64_t{1} << 53;
  EXPECT_EQ(Json(exact), Json(0x1p53));
  EXPECT_EQ(Json(-exact), Json(-0x1p53));
  EXPECT_FALSE(Json(exact + 1) == Json(0x1p53));
  EXPECT_FALSE(Json(0x1p53) == Json(exact + 1));
  EXPECT_FALSE(Json(std::numeric_limits<int64_t>::max()) == Json(0x1p63));
  EXPECT_EQ(Json(std::numeric_limits<int64_t>::min()), Json(-0x1p63));
  EXPECT_FALSE(Json(1) == Json(1.5));
}

TEST(Json, StyleFollowsPythonsDumps) {
  const Json value = parse_json(R"({"b":[1,{"c":"é"}],"a":[]})", "t");
  EXPECT_EQ(dump_json(value, {.ascii = true, .item_separator = ", ", .key_separator = ": "}),
            R"({"b": [1, {"c": "\u00e9"}], "a": []})");
  EXPECT_EQ(dump_json(Json("\x7f"), {.ascii = true}), R"("\u007f")");
  EXPECT_EQ(dump_json(Json("\x7f")), "\"\x7f\"");
  EXPECT_EQ(dump_json(value, {.indent = 2, .sort_keys = true, .key_separator = ": "}),
            "{\n  \"a\": [],\n  \"b\": [\n    1,\n    {\n      \"c\": \"é\"\n    }\n  ]\n}");
}

}  // namespace
}  // namespace xrun::json_test
