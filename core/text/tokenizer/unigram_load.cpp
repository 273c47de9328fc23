// Reads unigram models: {"vocab": [["piece", score], ...], "unk_id": 0, "byte_fallback": false}.

#include <fmt/core.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "core/base/error.h"
#include "core/text/tokenizer/unigram.h"

namespace xrun {

namespace {

constexpr int64_t kMostPower = 308;  // the largest power of ten that is a double
constexpr int64_t kMostExponent = int64_t{1} << 31;

double power_of_ten(int64_t exponent) {
  static const std::vector<double> kPowers = [] {
    std::vector<double> powers;
    for (int64_t e = 0; e <= kMostPower; ++e) {
      // strtod rounds correctly, which repeated products would not.
      powers.push_back(std::strtod(fmt::format("1e{}", e).c_str(), nullptr));
    }
    return powers;
  }();
  return kPowers[static_cast<size_t>(exponent)];
}

bool is_json_digit(char c) { return c >= '0' && c <= '9'; }

// Returns the exponent of "e-5"; 0 for an empty text.
int64_t read_exponent(std::string_view text) {
  if (text.empty() || (text[0] != 'e' && text[0] != 'E')) return 0;
  text.remove_prefix(1);
  const bool negative = text.starts_with('-');
  int64_t exponent = 0;
  for (const char c : text) {
    if (is_json_digit(c)) exponent = std::min(10 * exponent + (c - '0'), kMostExponent);
  }
  return negative ? -exponent : exponent;
}

// Returns value * 10^exponent with serde_json's roundings: a score that differs in its last bit
// could change a segmentation.
double scaled(double value, int64_t exponent) {
  // In steps of the largest power that is a double, as serde_json does.
  for (; exponent < -kMostPower && value > 0; exponent += kMostPower) {
    value /= power_of_ten(kMostPower);
  }
  if (exponent < 0) return value > 0 ? value / power_of_ten(-exponent) : value;
  for (; exponent > kMostPower && value > 0 && std::isfinite(value); exponent -= kMostPower) {
    value *= power_of_ten(kMostPower);
  }
  return value > 0 ? value * power_of_ten(std::min(exponent, kMostPower)) : value;
}

UnigramPieces read_pieces(std::string_view json, const std::string& where) {
  UnigramPieces out;
  // About 24 bytes per entry: ["piece", -12.3456789012345],
  out.vocabulary.reserve(json.size() / 24, json.size());
  simdjson::ondemand::parser parser;
  simdjson::ondemand::document document = parser.iterate(padded(json));
  for (auto item : document.get_array()) {
    const size_t id = out.scores.size();
    XRUN_CHECK(id <= size_t(Vocabulary::kMaxId), "{}: more than {} pieces", where,
               Vocabulary::kMaxId + 1);
    size_t sides = 0;
    for (auto side : item.get_array()) {
      if (sides == 0) {
        out.vocabulary.add(side.get_string(), int32_t(id));
      } else {
        XRUN_CHECK(sides == 1, "{}[{}]: more than a piece and its score", where, id);
        const std::string_view number = side.raw_json_token();
        (void)double(side.get_double());  // throws if it is not a number
        out.scores.push_back(serde_number(number));
      }
      ++sides;
    }
    XRUN_CHECK(sides == 2, "{}[{}]: wanted a piece and its score", where, id);
  }
  out.vocabulary.finish(where, Repeats::kLastOneWins);
  return out;
}

std::optional<int32_t> read_unk_id(const ModelSource& source, const UnigramPieces& pieces) {
  const Json json = source.option("unk_id");
  if (json.is_null()) return {};
  XRUN_CHECK(json.is_int() && json.as_int() >= 0 && json.as_int() < pieces.vocabulary.size(),
             "{}.unk_id: got {}, wanted an id of the {} pieces", source.where, dump_json(json),
             pieces.vocabulary.size());
  return int32_t(json.as_int());
}

}  // namespace

std::unique_ptr<const TokenModel> read_unigram(const ModelSource& source) {
  UnigramPieces pieces = read_pieces(source.member("vocab"), source.where + ".vocab");
  const std::optional<int32_t> unk_id = read_unk_id(source, pieces);
  return std::make_unique<Unigram>(std::move(pieces), unk_id, source.flag("byte_fallback"));
}

double serde_number(std::string_view number) {
  const bool negative = number.starts_with('-');
  uint64_t digits = 0;
  int64_t exponent = 0;
  bool is_fraction = false, is_full = false;
  size_t at = negative ? 1 : 0;
  for (; at < number.size() && (number[at] == '.' || is_json_digit(number[at])); ++at) {
    if (number[at] == '.') {
      is_fraction = true;
      continue;
    }
    const auto digit = static_cast<uint64_t>(number[at] - '0');
    // A digit that does not fit only raises the exponent, a digit of the fraction that fits lowers
    // it; a fraction's digit that does not fit does neither.
    is_full = is_full || digits > (UINT64_MAX - digit) / 10;
    if (!is_full) digits = 10 * digits + digit;
    if (is_full != is_fraction) exponent += is_full ? 1 : -1;
  }
  const double value =
      scaled(static_cast<double>(digits), exponent + read_exponent(number.substr(at)));
  return negative ? -value : value;
}

}  // namespace xrun
