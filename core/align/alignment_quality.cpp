// Only correct pairs give supervision. A lost run is a stretch of neighbouring pairs of which none
// is correct.

#include "core/align/alignment_quality.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/base/utf8.h"

namespace xrun {

namespace {

constexpr size_t kMostExamples = 5;
constexpr size_t kMostPieces = 24;  // shown of each side
constexpr int64_t kLongPair = 4;    // tokens of both sides together; shorter ones are ordinary

// Returns a span's tokens: 0 for [-1, -1), the empty side of an orphan.
int64_t span_of(int32_t begin, int32_t end) { return int64_t{end} - begin; }

// The tokens of one side in the pairs [begin, end) of a document.
struct TokenSpan {
  int32_t begin = -1, end = -1;
  void add(int32_t from, int32_t to) {
    if (from < 0) return;
    if (begin < 0) begin = from;
    end = to;
  }
  int64_t size() const { return span_of(begin, end); }
};

// Returns a token's text, or a substitute: <0xE4 0xB8> for a part of a character, <50300> for an id
// without a piece.
std::string shown_bytes(const TokenTable& table, int32_t id) {
  const std::string_view bytes = table.bytes(id);
  if (bytes.empty()) return fmt::format("<{}>", id);
  if (is_valid_utf8(bytes)) return std::string(bytes);
  std::string out;
  for (const char byte : bytes) {
    out += fmt::format("{}0x{:02X}", out.empty() ? "<" : " ", static_cast<uint8_t>(byte));
  }
  return out + ">";
}

std::string shown_token(const TokenTable& table, int32_t id) {
  const SpecialRoles* roles = table.roles(id);
  // The last role is the token's spelling.
  if (roles != nullptr) return special_role_name(roles->back()).substr(kSpelledRole.size());
  return shown_bytes(table, id);
}

// Returns at most kMostPieces tokens, and "..." for the rest.
std::vector<std::string> shown_tokens(const TokenTable& table, std::span<const int32_t> ids,
                                      TokenSpan range) {
  std::vector<std::string> shown;
  for (int32_t k = range.begin; k >= 0 && k < range.end && shown.size() < kMostPieces; ++k) {
    shown.push_back(shown_token(table, ids[size_t(k)]));
  }
  if (size_t(range.size()) > shown.size()) shown.emplace_back("...");
  return shown;
}

std::string spelled_text(const TokenTable& table, std::span<const int32_t> ids, TokenSpan range) {
  std::string text;
  constexpr size_t kMostBytes = 120;
  for (int32_t k = range.begin; k >= 0 && k < range.end && text.size() < kMostBytes; ++k) {
    text += table.bytes(ids[size_t(k)]);
  }
  // Special tokens and ids without a piece spell nothing.
  for (int32_t k = range.begin; text.empty() && k >= 0 && k < range.end; ++k) {
    text += shown_token(table, ids[size_t(k)]);
  }
  return shortened(repair_utf8(text), kMostBytes);
}

// Returns true if an example belongs before another: losses before long pairs, longer ones first.
bool is_worse(bool lost, int64_t tokens, const AlignmentQuality::Example& other) {
  return lost != other.lost ? lost : tokens > other.tokens;
}

// Returns `"ab" "c"`.
std::string quoted(const std::vector<std::string>& pieces) {
  std::string out;
  for (const std::string& piece : pieces) {
    if (!out.empty()) out += ' ';
    append_json_string(out, piece);
  }
  return out;
}

std::string percent(double share) { return fmt::format("{:.2f} %", 100 * share); }

std::string share_line(const char* name, int64_t count, int64_t all) {
  return fmt::format("  {:12} {:>12}  {:>9}\n", name, count_text(count),
                     percent(all == 0 ? 0.0 : double(count) / double(all)));
}

Json json_list(const std::vector<std::string>& items) {
  Json list = Json::array();
  for (const std::string& item : items) list.push_back(item);
  return list;
}

}  // namespace

void AlignmentQuality::count(const AlignedPair& pair) {
  const int64_t s = span_of(pair.s_begin, pair.s_end), t = span_of(pair.t_begin, pair.t_end);
  if (s == 0 || t == 0) {
    // An orphan is on one side, so one of the two is 0.
    student_.orphans += s;
    teacher_.orphans += t;
    return;
  }
  if (!pair.correct) {
    ++wrong_;
    return;
  }
  student_.in_correct_pairs += s;
  teacher_.in_correct_pairs += t;
  student_.longest = std::max(student_.longest, s);
  teacher_.longest = std::max(teacher_.longest, t);
  ++(s == 1 ? (t == 1 ? one_one_ : one_many_) : (t == 1 ? many_one_ : many_many_));
}

// A run of neighbours that are not correct is one example; each correct pair is one.
void AlignmentQuality::add(const QualityDocument& document) {
  ++documents_;
  differing_ += document.findings.differs_at >= 0;
  long_pairs_ += document.findings.long_pairs;
  student_.tokens += int64_t(document.student_ids.size());
  teacher_.tokens += int64_t(document.teacher_ids.size());
  const auto& pairs = document.pairs;
  for (size_t begin = 0; begin < pairs.size();) {
    size_t end = begin;
    for (; end < pairs.size() && pairs[end].correct == pairs[begin].correct; ++end) {
      count(pairs[end]);
      if (pairs[end].correct) offer(document, end, end + 1, false);
    }
    if (!pairs[begin].correct) offer(document, begin, end, true);
    begin = end;
  }
}

void AlignmentQuality::offer(const QualityDocument& document, size_t begin, size_t end, bool lost) {
  TokenSpan s, t;
  for (size_t k = begin; k < end; ++k) {
    s.add(document.pairs[k].s_begin, document.pairs[k].s_end);
    t.add(document.pairs[k].t_begin, document.pairs[k].t_end);
  }
  // Orphans of the teacher cost no supervision.
  const int64_t tokens = lost ? s.size() : s.size() + t.size();
  if (tokens < (lost ? 1 : kLongPair)) return;
  // Examples are few, so the text is spelled only for one that enters the list.
  if (worst_.size() == kMostExamples && !is_worse(lost, tokens, worst_.back())) return;
  Example example{document.row,
                  lost,
                  tokens,
                  spelled_text(document.student, document.student_ids, s),
                  shown_tokens(document.student, document.student_ids, s),
                  shown_tokens(document.teacher, document.teacher_ids, t)};
  const auto before = std::find_if(worst_.begin(), worst_.end(), [&](const Example& known) {
    return is_worse(lost, tokens, known);
  });
  worst_.insert(before, std::move(example));
  if (worst_.size() > kMostExamples) worst_.pop_back();
}

std::optional<std::string> AlignmentQuality::warning(const std::string& file) const {
  // Some loss is normal, at the border of a window for example.
  if (coverage() >= kLeastCoverage) return {};
  std::string out = fmt::format(
      "only {} of {} student tokens are in correct pairs, wanted at least {}; the others get no "
      "supervision from the teacher",
      percent(coverage()), count_text(student_.tokens), percent(kLeastCoverage));
  if (!worst_.empty() && worst_.front().lost) {
    out += fmt::format(". The longest loss: {} of {}:{}, ", counted(worst_.front().tokens, "token"),
                       file, worst_.front().row);
    append_json_string(out, worst_.front().text);
  }
  return out;
}

std::string AlignmentQuality::text() const {
  const int64_t pairs = one_one_ + one_many_ + many_one_ + many_many_;
  const int64_t lost = student_.tokens - student_.in_correct_pairs;
  std::string out = fmt::format(
      "{}: {} student tokens, {} teacher tokens\n"
      "coverage {:.4f} of the student, {:.4f} of the teacher; {} {} supervision\n",
      counted(documents_, "document"), count_text(student_.tokens), count_text(teacher_.tokens),
      coverage(), teacher_coverage(), counted(lost, "student token"), lost == 1 ? "loses" : "lose");
  out += fmt::format("correct pairs, student to teacher tokens: {}\n", count_text(pairs));
  out += share_line("1 to 1", one_one_, pairs) + share_line("1 to many", one_many_, pairs) +
         share_line("many to 1", many_one_, pairs) + share_line("many to many", many_many_, pairs);
  out += fmt::format(
      "longest span {} student tokens, {} teacher tokens\n"
      "not correct: {}, {} student orphans, {} teacher orphans\n",
      student_.longest, teacher_.longest, counted(wrong_, "pair"), count_text(student_.orphans),
      count_text(teacher_.orphans));
  if (differing_ > 0) {
    out += fmt::format("{} in which the two sides spell different texts\n",
                       counted(differing_, "document"));
  }
  if (long_pairs_ > 0) {
    out += fmt::format("{} longer than the limit\n", counted(long_pairs_, "pair"));
  }
  for (const Example& example : worst_) {
    out += fmt::format("{} of row {}: ", example.lost ? "lost tokens" : "long pair", example.row);
    append_json_string(out, example.text);
    out += fmt::format("\n  student  {}\n  teacher  {}\n", quoted(example.student),
                       quoted(example.teacher));
  }
  return out;
}

Json AlignmentQuality::json() const {
  Json worst = Json::array();
  for (const Example& example : worst_) {
    worst.push_back(Json(Json::Object{{"row", example.row},
                                      {"lost", example.lost},
                                      {"tokens", example.tokens},
                                      {"text", example.text},
                                      {"student", json_list(example.student)},
                                      {"teacher", json_list(example.teacher)}}));
  }
  const Json shapes(Json::Object{{"one_to_one", one_one_},
                                 {"one_to_many", one_many_},
                                 {"many_to_one", many_one_},
                                 {"many_to_many", many_many_}});
  return Json(Json::Object{
      {"documents", documents_},
      {"student_tokens", student_.tokens},
      {"teacher_tokens", teacher_.tokens},
      {"coverage", student_.tokens > 0 ? Json(coverage()) : Json()},
      {"teacher_coverage", teacher_.tokens > 0 ? Json(teacher_coverage()) : Json()},
      {"lost_tokens", student_.tokens - student_.in_correct_pairs},
      {"correct_pairs", shapes},
      {"longest_span",
       Json(Json::Object{{"student", student_.longest}, {"teacher", teacher_.longest}})},
      {"wrong_pairs", wrong_},
      {"student_orphans", student_.orphans},
      {"teacher_orphans", teacher_.orphans},
      {"differing_documents", differing_},
      {"long_pairs", long_pairs_},
      {"worst", worst}});
}

}  // namespace xrun
