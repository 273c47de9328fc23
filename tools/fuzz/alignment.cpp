// Aligns the tokens that two tokenizers make of any bytes, and arbitrary ids. The pairs partition
// both sides, ascend with the bytes, are the finest, and stay the same if the sides are exchanged.

#include <array>
#include <memory>
#include <set>

#include "core/align/alignment_quality.h"
#include "core/align/token_aligner.h"
#include "core/base/error.h"
#include "tools/fuzz/fuzz_target.h"

namespace xrun {

namespace {

constexpr std::array<const char*, 8> kFolders = {
    "tiny_tokenizer",         "tokenizers/llama2",    "tokenizers/llama3", "tokenizers/metaspace",
    "tokenizers/precompiled", "tokenizers/wordpiece", "tokenizers/smol",   "tokenizers/unigram"};

std::shared_ptr<const Tokenizer> tokenizer_of(char letter) {
  static std::array<std::shared_ptr<const Tokenizer>, kFolders.size()> loaded;
  const size_t k = static_cast<unsigned char>(letter) % kFolders.size();
  if (!loaded[k]) {
    loaded[k] = Tokenizer::load(std::string(XRUN_SOURCE_DIR "/tests/data/") + kFolders[k]);
  }
  return loaded[k];
}

const TokenAligner& aligner_of(char student, char teacher) {
  static std::array<std::unique_ptr<const TokenAligner>, kFolders.size() * kFolders.size()> made;
  const size_t s = static_cast<unsigned char>(student) % kFolders.size();
  const size_t t = static_cast<unsigned char>(teacher) % kFolders.size();
  auto& aligner = made[s * kFolders.size() + t];
  if (!aligner) {
    aligner = std::make_unique<const TokenAligner>(tokenizer_of(student), tokenizer_of(teacher));
  }
  return *aligner;
}

// Returns the pairs as a set, since the order of neighbouring orphans is arbitrary.
std::multiset<std::array<int32_t, 5>> as_set(const Alignment& pairs) {
  std::multiset<std::array<int32_t, 5>> out;
  for (const AlignedPair& p : pairs) {
    out.insert({p.s_begin, p.s_end, p.t_begin, p.t_end, int32_t(p.correct)});
  }
  return out;
}

void check(const AlignedTokens& forth, const AlignedTokens& back, const TokenAligner& aligner) {
  check_alignment(forth.pairs, int64_t(forth.student_ids.size()),
                  int64_t(forth.teacher_ids.size()));
  fuzz_check(as_set(exchanged(back.pairs)) == as_set(forth.pairs),
             "exchanging the sides gives other pairs");
  AlignmentQuality quality;
  quality.add({1, aligner.student(), forth.student_ids, aligner.teacher(), forth.teacher_ids,
               forth.pairs, forth.findings});
  fuzz_check(quality.coverage() >= 0 && quality.coverage() <= 1, "a coverage beyond 1");
  quality.text();
}

// Checks that correct pairs spell the same bytes, except for a space before the text.
void check_bytes(const AlignedTokens& aligned, const TokenAligner& aligner) {
  for (const AlignedPair& pair : aligned.pairs) {
    if (!pair.correct) continue;
    std::string s, t;
    for (int32_t k = pair.s_begin; k < pair.s_end; ++k) {
      s += aligner.student().bytes(aligned.student_ids[size_t(k)]);
    }
    for (int32_t k = pair.t_begin; k < pair.t_end; ++k) {
      t += aligner.teacher().bytes(aligned.teacher_ids[size_t(k)]);
    }
    fuzz_check(s == t || s == " " + t || t == " " + s || aligned.student_ids == aligned.teacher_ids,
               "the sides of a correct pair spell different bytes");
  }
}

}  // namespace

void fuzz_alignment(std::string_view input) {
  if (input.size() < 3) return;
  const TokenAligner& forth = aligner_of(input[0], input[1]);
  const TokenAligner& back = aligner_of(input[1], input[0]);
  const std::string_view text = input.substr(3);
  const bool specials = input[2] % 2 != 0;
  try {
    const AlignedTokens aligned = forth.text(text, specials);
    check(aligned, back.text(text, specials), forth);
    const AlignedTokens by_ids = forth.ids(aligned.student_ids, aligned.teacher_ids);
    check(by_ids, back.ids(aligned.teacher_ids, aligned.student_ids), forth);
    check_bytes(by_ids, forth);
    // Bytes as ids, some of them beyond every vocabulary.
    std::vector<int32_t> s, t;
    for (const char byte : text) {
      const auto value = static_cast<unsigned char>(byte);
      (value % 3 == 0 ? s : t).push_back(value > 250 ? INT32_MAX - value : int32_t{value} * 2);
    }
    const AlignedTokens any = forth.ids(s, t);
    check(any, back.ids(t, s), forth);
    check_bytes(any, forth);
  } catch (const Error&) {
  }
}

}  // namespace xrun
