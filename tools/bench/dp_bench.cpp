// Times dp_align on 2,048 tokens a side of prose, code, one phrase repeated, and arithmetic, after
// checking that the pairs cover both sides.
//   dp_bench STUDENT_DIR TEACHER_DIR PROSE_FILE CODE_FILE [RUNS [ROWS]]
// Each side is cut after 2,048 tokens, as NeMo-RL cuts, so the sides end at different characters;
// short files are repeated. ROWS gets one JSON object for each sequence, with pieces, pairs and
// milliseconds, for dp_peer.py.

#include <fmt/core.h>

#include <memory>
#include <string>
#include <vector>

#include "core/align/dp_align.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/text/tokenizer/tokenizer.h"
#include "tools/bench/spread.h"

namespace xrun {
namespace {

constexpr size_t kTokens = 2048;  // a side

struct BenchText {
  std::string name, text;
};

// Sums and products of numbers from a linear congruence: few anchors, many combinations.
std::string arithmetic() {
  std::string text;
  uint32_t state = 1;
  const auto below = [&](uint32_t limit) {
    return ((state = state * 1664525 + 1013904223) >> 8) % limit;
  };
  while (text.size() < 16 * kTokens) {
    const uint32_t a = below(1000), b = below(1000);
    text += fmt::format("{} + {} = {}\n{} * {} = {}\n", a, b, a + b, a, b, a * b);
  }
  return text;
}

std::string repeated(const std::string& phrase) {
  XRUN_CHECK(!phrase.empty(), "an empty text");
  std::string text;
  while (text.size() < 16 * kTokens) text += phrase;
  return text;
}

std::vector<std::string_view> first_pieces(const Tokenizer& tokenizer, const std::string& text) {
  const std::vector<int32_t> ids = tokenizer.encode(text).ids;
  XRUN_CHECK(ids.size() >= kTokens, "only {} tokens", ids.size());
  std::vector<std::string_view> pieces;
  for (size_t i = 0; i < kTokens; ++i) pieces.push_back(tokenizer.piece(ids[i]));
  return pieces;
}

Json strings_of(const std::vector<std::string_view>& pieces) {
  Json out = Json::array();
  for (const std::string_view piece : pieces) out.push_back(piece);
  return out;
}

Json pairs_of(const Alignment& alignment) {
  Json out = Json::array();
  for (const AlignedPair& pair : alignment) {
    out.push_back(Json::Array{pair.s_begin, pair.s_end, pair.t_begin, pair.t_end, pair.correct});
  }
  return out;
}

void bench(int argc, char** argv) {
  XRUN_CHECK(argc >= 5,
             "usage: dp_bench STUDENT_DIR TEACHER_DIR PROSE_FILE CODE_FILE [RUNS [ROWS]]");
  const auto student = Tokenizer::load(argv[1]), teacher = Tokenizer::load(argv[2]);
  const int runs = argc > 5 ? std::stoi(argv[5]) : 11;
  const std::vector<BenchText> texts = {{"prose", repeated(read_file(argv[3]))},
                                        {"code", repeated(read_file(argv[4]))},
                                        {"repetitive", repeated("the cat sat on the mat. ")},
                                        {"numerals", arithmetic()}};
  std::string rows;
  for (const BenchText& text : texts) {
    const auto s = first_pieces(*student, text.text), t = first_pieces(*teacher, text.text);
    const Alignment pairs = dp_align(s, t);
    check_alignment(pairs, kTokens, kTokens);
    std::vector<double> ms;
    for (int i = 0; i < runs; ++i) {
      Stopwatch watch;
      XRUN_CHECK(dp_align(s, t).size() == pairs.size(), "another number of pairs");
      ms.push_back(watch.lap_ms());
    }
    print_figure({fmt::format("dp_align, {}, {} x {} tokens, {} pairs", text.name, kTokens, kTokens,
                              pairs.size()),
                  ms, "ms"});
    Json row = Json::object();
    row.set("name", text.name);
    row.set("ms", Spread(ms).median);
    row.set("student", strings_of(s));
    row.set("teacher", strings_of(t));
    row.set("pairs", pairs_of(pairs));
    rows += dump_json(row) + "\n";
  }
  if (argc > 6) write_file_atomic(argv[6], rows);
}

}  // namespace
}  // namespace xrun

int main(int argc, char** argv) {
  try {
    xrun::bench(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "dp_bench: {}\n", error.what());
    return 1;
  }
}
