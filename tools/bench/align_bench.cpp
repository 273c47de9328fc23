// Times the alignment of two tokenisations of a text's lines on one thread, after checking that
// every pair spells the same bytes on both sides and that nothing is left over.
//   align_bench STUDENT_DIR TEACHER_DIR TEXT_FILE [DOCUMENT_BYTES]
// Lines are joined to documents of about DOCUMENT_BYTES, by default 8192. A pass goes from the ids
// of both sides to the pairs, including the look-up and comparison of bytes. The rate counts the
// tokens of both sides. The ratio compares with a plain pass that reads the same ids and the
// table's lengths.

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "core/align/token_aligner.h"
#include "core/base/error.h"
#include "tools/bench/spread.h"

namespace xrun {
namespace {

std::vector<std::string> documents_of(const std::string& path, size_t bytes) {
  std::ifstream file(path, std::ios::binary);
  XRUN_CHECK(bool(file), "{}: cannot be opened", path);
  std::vector<std::string> documents(1);
  for (std::string line; std::getline(file, line);) {
    if (documents.back().size() >= bytes) documents.emplace_back();
    documents.back() += line + "\n";
  }
  return documents;
}

std::string spelled(const TokenTable& table, const std::vector<int32_t>& ids, int32_t begin,
                    int32_t end) {
  std::string text;
  for (int32_t k = begin; k < end; ++k) text += table.bytes(ids[size_t(k)]);
  return text;
}

// Checks that the pairs partition both sides, are correct, and spell the document.
void check(const TokenAligner& aligner, const AlignedTokens& aligned, const std::string& text) {
  check_alignment(aligned.pairs, int64_t(aligned.student_ids.size()),
                  int64_t(aligned.teacher_ids.size()));
  std::string all;
  for (const AlignedPair& pair : aligned.pairs) {
    XRUN_CHECK(pair.correct, "a token has no partner, or a pair is not correct");
    std::string s = spelled(aligner.student(), aligned.student_ids, pair.s_begin, pair.s_end);
    std::string t = spelled(aligner.teacher(), aligned.teacher_ids, pair.t_begin, pair.t_end);
    // One side may put a space before the text.
    if (s.size() > t.size()) s.erase(0, s.size() - t.size());
    if (t.size() > s.size()) t.erase(0, t.size() - s.size());
    XRUN_CHECK(s == t, "a pair spells \"{}\" and \"{}\"", s, t);
    all += s;
  }
  XRUN_CHECK(all == text || all == " " + text, "the pairs do not spell the document");
}

void bench(const std::string& student, const std::string& teacher, const std::string& path,
           size_t document_bytes) {
  const std::vector<std::string> documents = documents_of(path, document_bytes);
  Stopwatch load;
  const TokenAligner aligner(Tokenizer::load(student), Tokenizer::load(teacher));
  const double load_ms = load.lap_ms();
  std::vector<AlignedTokens> encoded;
  size_t tokens = 0, pairs = 0;
  for (const std::string& text : documents) {
    AlignedTokens by_offsets = aligner.text(text);
    encoded.push_back(aligner.ids(by_offsets.student_ids, by_offsets.teacher_ids));
    check(aligner, encoded.back(), text);
    XRUN_CHECK(encoded.back().pairs == by_offsets.pairs, "offsets give other pairs than bytes");
    tokens += encoded.back().student_ids.size() + encoded.back().teacher_ids.size();
    pairs += encoded.back().pairs.size();
  }
  const size_t rounds = std::max<size_t>(1, 2'000'000 / std::max<size_t>(1, tokens));
  Walker walker;
  size_t walked = 0;
  int64_t bytes = 0;
  const auto walk = [&] {
    for (size_t round = 0; round < rounds; ++round) {
      for (const AlignedTokens& document : encoded) {
        walked += walker
                      .walk(aligner.student(), document.student_ids, aligner.teacher(),
                            document.teacher_ids)
                      .size();
      }
    }
  };
  const auto read = [&] {
    for (size_t round = 0; round < rounds; ++round) {
      for (const AlignedTokens& document : encoded) {
        for (const int32_t id : document.student_ids) {
          bytes += aligner.student().short_tokens()[id].length;
        }
        for (const int32_t id : document.teacher_ids) {
          bytes += aligner.teacher().short_tokens()[id].length;
        }
      }
    }
  };
  std::vector<double> rate, ratio;
  for (int run = -1; run < 15; ++run) {
    const double walk_s = thread_seconds(walk), read_s = thread_seconds(read);
    if (run < 0) continue;
    rate.push_back(double(tokens * rounds) / walk_s / 1e6);
    ratio.push_back(walk_s / read_s);
  }
  XRUN_CHECK(walked % pairs == 0 && bytes > 0, "a pass gave another number of pairs");
  print_note("{} documents, {} tokens of both sides, {} pairs\n", documents.size(), tokens, pairs);
  print_figure({"align", rate, "million tokens/s", ratio, "times the time of a plain pass"});
  print_figure({"loading both tokenizers and decoding their vocabularies", {load_ms}, "ms"});
}

}  // namespace
}  // namespace xrun

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) {
    fmt::print(stderr, "usage: align_bench STUDENT_DIR TEACHER_DIR TEXT_FILE [DOCUMENT_BYTES]\n");
    return 2;
  }
  try {
    xrun::bench(argv[1], argv[2], argv[3], argc == 5 ? std::strtoull(argv[4], nullptr, 10) : 8192);
  } catch (const std::exception& error) {
    fmt::print(stderr, "align_bench: {}\n", error.what());
    return 1;
  }
}
