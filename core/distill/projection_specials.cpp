// Ratcliff and Obershelp: the longest common block, then the same to its left and to its right;
// the ratio is 2 * matched / (length of both). Of equally long blocks the first one in `a` counts,
// then the first one in `b`, as in difflib (whose rule for texts of 200 characters is left out).

#include "core/distill/projection_specials.h"

#include <algorithm>
#include <set>
#include <string>

#include "core/base/utf8.h"
#include "core/text/unicode/letter_case.h"

namespace xrun {

namespace {

using CodePoints = std::u32string;

CodePoints code_points(std::string_view text) {
  CodePoints points;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point = read_utf8(text, at);
    points.push_back(point.value);
    at += point.size;
  }
  return points;
}

size_t matched(std::u32string_view a, std::u32string_view b) {
  if (a.empty() || b.empty()) return 0;
  // length[j + 1] is that of the common block that ends at a[i] and b[j].
  std::vector<size_t> length(b.size() + 1, 0);
  size_t longest = 0, in_a = 0, in_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = b.size(); j-- > 0;) {
      length[j + 1] = a[i] == b[j] ? length[j] + 1 : 0;
    }
    for (size_t j = 0; j < b.size(); ++j) {
      if (length[j + 1] > longest) {
        longest = length[j + 1];
        in_a = i + 1 - longest;
        in_b = j + 1 - longest;
      }
    }
  }
  if (longest == 0) return 0;
  return longest + matched(a.substr(0, in_a), b.substr(0, in_b)) +
         matched(a.substr(in_a + longest), b.substr(in_b + longest));
}

std::set<CodePoints> special_words(std::string_view piece) {
  std::string lower;
  for (const char32_t point : code_points(piece)) append_lower(lower, point);
  std::set<CodePoints> words;
  CodePoints word;
  for (const char32_t point : code_points(lower + " ")) {
    // Specials are spelled without other blanks.
    if (std::u32string_view(U"<>|_ \t\n\r").find(point) == std::u32string_view::npos) {
      word.push_back(point);
      continue;
    }
    if (word.size() > 2) words.insert(word);
    word.clear();
  }
  return words;
}

struct SpecialPiece {
  int32_t id;
  CodePoints points;
  std::set<CodePoints> words;
};

SpecialPiece special_piece(int32_t id, std::string_view piece) {
  return {id, code_points(piece), special_words(piece)};
}

std::vector<SpecialPiece> special_pieces(const Tokenizer& tokenizer) {
  std::vector<SpecialPiece> pieces;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string_view piece = tokenizer.piece(id);
    if (piece.starts_with('<') && piece.ends_with('>')) pieces.push_back(special_piece(id, piece));
  }
  return pieces;
}

double similarity_of(const SpecialPiece& a, const SpecialPiece& b) {
  const size_t length = a.points.size() + b.points.size();
  const double ratio = length == 0 ? 1 : 2.0 * double(matched(a.points, b.points)) / double(length);
  size_t both = 0;
  for (const CodePoints& word : a.words) both += b.words.count(word);
  const size_t all = a.words.size() + b.words.size() - both;
  const double words = all == 0 ? 0 : double(both) / double(all);
  return 0.6 * ratio + 0.4 * words;
}

}  // namespace

std::vector<SimilarSpecials> similar_specials(const Tokenizer& student, const Tokenizer& teacher,
                                              double least, int64_t most) {
  const std::vector<SpecialPiece> mine = special_pieces(student), theirs = special_pieces(teacher);
  std::vector<SimilarSpecials> all, found;
  for (const SpecialPiece& piece : mine) {
    found.clear();
    for (const SpecialPiece& other : theirs) {
      const double similarity = similarity_of(piece, other);
      if (similarity >= least) found.push_back({piece.id, other.id, similarity});
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const SimilarSpecials& a, const SimilarSpecials& b) {
                       return a.similarity > b.similarity;
                     });
    if (std::cmp_greater(found.size(), most)) found.resize(size_t(most));
    all.insert(all.end(), found.begin(), found.end());
  }
  return all;
}

double special_similarity(std::string_view a, std::string_view b) {
  return similarity_of(special_piece(0, a), special_piece(1, b));
}

}  // namespace xrun
