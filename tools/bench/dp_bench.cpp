// Times DpAligner on 2,048 tokens per side of prose, code, one phrase repeated, and arithmetic,
// after checking that the pairs cover both sides.
//   dp_bench STUDENT_DIR TEACHER_DIR PROSE_FILE CODE_FILE [RUNS [ROWS]]
// Prose and code give 8 sequences each, from different parts of the file; one aligner aligns them
// in turn. Its first round, in which all pieces are new to it, is printed separately. Each side is
// cut after 2,048 tokens, as in NeMo-RL, so the sides end at different characters; short files are
// repeated. ROWS gets a JSON object per sequence, with pieces, pairs and milliseconds, for
// dp_peer.py.

#include <fmt/core.h>

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

constexpr size_t kTokens = 2048;  // per side

struct BenchText {
  std::string name, text;
  size_t sequences = 1;
};

struct Sequence {
  std::vector<std::string_view> student, teacher;
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

// Returns the n-th of several excerpts of a text, repeated if it is short.
std::string excerpt_of(const BenchText& text, size_t n) {
  const size_t begin = n * text.text.size() / text.sequences;
  return repeated(text.text.substr(begin) + text.text.substr(0, begin));
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
  const std::vector<BenchText> texts = {{"prose", read_file(argv[3]), 8},
                                        {"code", read_file(argv[4]), 8},
                                        {"repetitive", "the cat sat on the mat. "},
                                        {"numerals", arithmetic()}};
  std::string rows;
  for (const BenchText& text : texts) {
    std::vector<Sequence> sequences;
    for (size_t n = 0; n < text.sequences; ++n) {
      const std::string excerpt = excerpt_of(text, n);
      sequences.push_back({first_pieces(*student, excerpt), first_pieces(*teacher, excerpt)});
    }
    DpAligner aligner;
    std::vector<Alignment> pairs;
    // Returns milliseconds per sequence.
    const auto round = [&] {
      pairs.clear();
      const double seconds = thread_seconds([&] {
        for (const Sequence& one : sequences)
          pairs.push_back(aligner.align(one.student, one.teacher));
      });
      return 1e3 * seconds / static_cast<double>(sequences.size());
    };
    const double first = round();
    std::vector<double> ms;
    for (int i = 0; i < runs; ++i) ms.push_back(round());
    print_figure({fmt::format("DpAligner, {}, {} of {} x {} tokens, the first round {:.2f} ms",
                              text.name, sequences.size(), kTokens, kTokens, first),
                  ms, "ms"});
    for (size_t n = 0; n < sequences.size(); ++n) {
      check_alignment(pairs[n], kTokens, kTokens);
      Json row = Json::object();
      row.set("name", text.name);
      row.set("ms", Spread(ms).median);
      row.set("student", strings_of(sequences[n].student));
      row.set("teacher", strings_of(sequences[n].teacher));
      row.set("pairs", pairs_of(pairs[n]));
      rows += dump_json(row) + "\n";
    }
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
