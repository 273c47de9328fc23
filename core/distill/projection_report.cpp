// A row is exact if it has one entry, of weight 1. exact_map() also takes a weight of 1 beside
// smaller ones, which an imported row in bf16 may have.

#include "core/distill/projection_report.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/text/tokenizer/byte_alphabet.h"
#include "core/text/tokenizer/token_bytes.h"

namespace xrun {

namespace {

bool is_exact_row(const Projection& p, int64_t row) {
  return p.row_size(row) == 1 && p.weight[size_t(p.begin[size_t(row)])] == 1.0f;
}

// The digits of a token that spells a number, alone or after a space; else "".
std::string numeral_of(std::string bytes) {
  if (bytes.starts_with(' ')) bytes.erase(0, 1);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return std::all_of(bytes.begin(), bytes.end(), is_digit) ? bytes : "";
}

// Returns the weights of a row by teacher token; those of a repeated token are added.
std::map<int32_t, double> row_weights(const Projection& p, int64_t row) {
  std::map<int32_t, double> weights;
  for (int64_t i = p.begin[size_t(row)]; i < p.begin[size_t(row) + 1]; ++i) {
    weights[p.id[size_t(i)]] += double(p.weight[size_t(i)]);
  }
  return weights;
}

// Returns a token's bytes in quotes; control characters and invalid bytes become <1B>, <E4>.
std::string quoted_token(const TokenBytes& bytes, int32_t id) {
  std::string out = "\"";
  const std::string token = bytes.of(id);
  for (size_t at = 0; at < token.size();) {
    const CodePoint point = read_utf8(token, at);
    if (!point.valid || point.value < 0x20) {
      out += point.value == '\n' ? "\\n" : fmt::format("<{:02X}>", uint8_t(token[at]));
    } else {
      out += token.substr(at, point.size);
    }
    at += point.size;
  }
  return out + "\"";
}

}  // namespace

ProjectionSummary summary_of(const Projection& projection) {
  ProjectionSummary summary;
  std::vector<bool> named(size_t(projection.teacher_vocab), false);
  for (const int32_t id : projection.id) named[size_t(id)] = true;
  summary.teacher_tokens = std::count(named.begin(), named.end(), true);
  for (int64_t row = 0; row < projection.student_vocab; ++row) {
    const int64_t size = projection.row_size(row);
    summary.longest = std::max(summary.longest, size);
    ++(size == 0 ? summary.empty : is_exact_row(projection, row) ? summary.exact : summary.several);
  }
  return summary;
}

std::array<NumeralRow, 4> numeral_rows(const Projection& projection, const Tokenizer& student) {
  std::array<NumeralRow, 4> rows;
  for (size_t i = 0; i < rows.size(); ++i) rows[i].digits = static_cast<int64_t>(i) + 1;
  const TokenBytes bytes(student);
  for (int32_t id = 0; id < projection.student_vocab; ++id) {
    // "<0x31>" stands for a byte, not for the digit 1.
    if (student.is_special(id) || spelled_byte(student.piece(id)) >= 0) continue;
    const size_t digits = numeral_of(bytes.of(id)).size();
    if (digits < 1 || digits > rows.size()) continue;
    NumeralRow& row = rows[digits - 1];
    ++row.tokens;
    const bool empty = projection.row_size(id) == 0, exact = is_exact_row(projection, id);
    ++(empty ? row.empty : exact ? row.exact : row.several);
    const bool shows_more = row.example < 0 || is_exact_row(projection, row.example);
    if (!empty && shows_more && (row.example < 0 || !exact)) row.example = id;
  }
  return rows;
}

std::vector<int32_t> example_rows(const Projection& projection, int64_t most) {
  std::vector<int32_t> rows;
  for (int32_t row = 0; row < projection.student_vocab; ++row) {
    if (projection.row_size(row) > 1) rows.push_back(row);
  }
  const auto count = static_cast<int64_t>(rows.size());
  if (count <= most) return rows;
  std::vector<int32_t> spread;
  for (int64_t i = 0; i < most; ++i)
    spread.push_back(rows[size_t((2 * i + 1) * count / (2 * most))]);
  return spread;
}

std::string row_text(const Projection& projection, int32_t row, const Tokenizer& student,
                     const Tokenizer& teacher) {
  const TokenBytes mine(student), theirs(teacher);
  std::string out = quoted_token(mine, row) + " -> ";
  const int64_t first = projection.begin[size_t(row)];
  if (projection.row_size(row) == 0) return out + "nothing";
  for (int64_t i = first; i < projection.begin[size_t(row) + 1]; ++i) {
    out +=
        fmt::format("{}{} {:.4g}", i == first ? "" : ", ",
                    quoted_token(theirs, projection.id[size_t(i)]), projection.weight[size_t(i)]);
  }
  return out;
}

Json row_json(const Projection& projection, int32_t row, const Tokenizer& student,
              const Tokenizer& teacher) {
  const TokenBytes mine(student), theirs(teacher);
  Json entries = Json::array();
  for (int64_t i = projection.begin[size_t(row)]; i < projection.begin[size_t(row) + 1]; ++i) {
    const int32_t id = projection.id[size_t(i)];
    entries.push_back(
        Json(Json::Array{id, repair_utf8(theirs.of(id)), double(projection.weight[size_t(i)])}));
  }
  return Json(Json::Object{
      {"id", row}, {"token", repair_utf8(mine.of(row))}, {"entries", std::move(entries)}});
}

ProjectionDifference difference_of(const Projection& a, const Projection& b) {
  XRUN_CHECK(a.student == b.student && a.teacher == b.teacher &&
                 a.student_vocab == b.student_vocab && a.teacher_vocab == b.teacher_vocab,
             "the projections are for different tokenizers: student {} and teacher {} against "
             "student {} and teacher {}",
             a.student, a.teacher, b.student, b.teacher);
  ProjectionDifference difference;
  for (int64_t row = 0; row < a.student_vocab; ++row) {
    std::map<int32_t, double> weights = row_weights(a, row);
    for (const auto& [id, weight] : row_weights(b, row)) weights[id] -= weight;
    double distance = 0;
    for (const auto& [id, weight] : weights) distance += std::fabs(weight) / 2;
    if (distance > 0) {
      difference.rows.push_back({static_cast<int32_t>(row), distance});
    } else {
      ++difference.same;
    }
  }
  std::stable_sort(
      difference.rows.begin(), difference.rows.end(),
      [](const RowDifference& x, const RowDifference& y) { return x.distance > y.distance; });
  return difference;
}

}  // namespace xrun
