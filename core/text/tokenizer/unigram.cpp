// Viterbi from left to right over bytes. Shorter pieces are tried first, and the first of equal
// scores wins. Adjacent unknown characters are one token, or its bytes.

#include "core/text/tokenizer/unigram.h"

#include <algorithm>
#include <limits>

#include "core/base/error.h"
#include "core/text/unicode/utf8_cursor.h"

namespace xrun {

namespace {

constexpr double kUnknownPenalty = 10.0;  // below the lowest score, as in SentencePiece
constexpr uint32_t kUnreached = UINT32_MAX;

}  // namespace

struct Unigram::BestStep {
  double score;
  uint32_t begin;  // of the last token; kUnreached: no segmentation ends here
  int32_t id;
};

Unigram::Unigram(UnigramPieces pieces, std::optional<int32_t> unk_id, bool byte_fallback)
    : pieces_(std::move(pieces)), unk_id_(unk_id), serial_(PieceCache::next_serial()) {
  double lowest = std::numeric_limits<double>::infinity();
  for (const double score : pieces_.scores) lowest = std::min(lowest, score);
  // Below every piece: unknown characters are avoided where pieces cover them.
  unk_score_ = lowest - kUnknownPenalty;
  for (int32_t id = 0; id < vocabulary().size(); ++id) trie_.add(vocabulary().piece(id), id);
  for (int b = 0; b < 256; ++b) {
    fallback_ids_[size_t(b)] =
        byte_fallback ? vocabulary().find(fmt::format("<0x{:02X}>", b)).value_or(-1) : -1;
  }
}

void Unigram::describe(TextSpelling& spelling) const {
  const auto is_token = [](int32_t id) { return id >= 0; };
  spelling.byte_tokens = std::any_of(fallback_ids_.begin(), fallback_ids_.end(), is_token);
  // Without a token for each byte, unknown characters are lost.
  const bool has_bytes = std::all_of(fallback_ids_.begin(), fallback_ids_.end(), is_token);
  if (!has_bytes && !spelling.byte_level) spelling.exact = false;
}

bool Unigram::hash_rules(Hasher& hasher) const {
  const std::vector<double>& scores = pieces_.scores;
  hasher.field("scores",
               {reinterpret_cast<const char*>(scores.data()), scores.size() * sizeof(double)});
  return true;
}

void Unigram::tokenize(std::string_view text, std::span<const ByteRange> pieces,
                       std::vector<ModelToken>& out) const {
  PieceCache::of(serial_).tokenize(
      text, pieces, out,
      [this](std::string_view piece, std::vector<ModelToken>& tokens) { segment(piece, tokens); });
}

void Unigram::best_steps(std::string_view piece, std::vector<BestStep>& steps) const {
  steps.assign(piece.size() + 1, BestStep{0, kUnreached, -1});
  for (uint32_t at = 0; at < piece.size();) {
    // The best score of a segmentation that ends at `at`.
    const double so_far = steps[at].score;
    const uint32_t size = utf8_size(piece[at]);
    bool has_single = false;
    const auto offer = [&](size_t length, double score, int32_t id) {
      BestStep& step = steps[at + length];
      if (step.begin == kUnreached || score + so_far > step.score) step = {score + so_far, at, id};
    };
    // In all at most the bytes of the piece times the longest match.
    trie_.prefixes(piece.substr(at), [&](size_t length, int32_t id) {
      offer(length, pieces_.scores[size_t(id)], id);
      if (length == size) has_single = true;
    });
    // So the end of every character is reached, and segment() finds no kUnreached.
    if (!has_single) offer(size, unk_score_, unk_id_.value_or(-1));
    at += size;
  }
}

void Unigram::segment(std::string_view piece, std::vector<ModelToken>& out) const {
  thread_local std::vector<BestStep> steps;
  best_steps(piece, steps);
  thread_local std::vector<ModelToken> reversed;  // from right to left
  reversed.clear();
  // Back from the end along the best steps.
  for (auto end = uint32_t(piece.size()); end > 0; end = steps[end].begin) {
    const BestStep& step = steps[end];
    XRUN_CHECK(step.id >= 0, "the tokenizer has no unknown token, but a text needs it");
    // A run of unknown characters is one token.
    if (step.id == unk_id_ && !reversed.empty() && reversed.back().id == unk_id_) {
      reversed.back().begin = step.begin;
    } else {
      reversed.push_back({step.id, step.begin, end});
    }
  }
  for (auto token = reversed.rbegin(); token != reversed.rend(); ++token) {
    if (token->id == unk_id_) {
      add_unknown(piece, token->begin, token->end, out);
    } else {
      out.push_back(*token);
    }
  }
}

void Unigram::add_unknown(std::string_view piece, uint32_t begin, uint32_t end,
                          std::vector<ModelToken>& out) const {
  const std::string_view run = piece.substr(begin, end - begin);
  // A run of unknown characters may spell a piece as a whole.
  if (const auto id = vocabulary().find(run)) return out.push_back({*id, begin, end});
  const bool has_bytes = std::all_of(run.begin(), run.end(), [&](char c) {
    return fallback_ids_[static_cast<unsigned char>(c)] >= 0;
  });
  if (!has_bytes) return out.push_back({*unk_id_, begin, end});
  for (uint32_t at = begin; at < end; ++at) {
    out.push_back({fallback_ids_[static_cast<unsigned char>(piece[at])], at, at + 1});
  }
}

}  // namespace xrun
