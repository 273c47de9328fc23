// For each token s of a side without a twin of equal bytes on the other side: write its bytes with
// the other side's tokens t_0 .. t_n, add 0.9 * 0.1^i / sum to (s, t_i). The reverse pass adds the
// teacher's tokens to the same cells. Rows are normalised, sorted, cut and normalised again.

#include "core/distill/projection_build.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "core/base/utf8.h"
#include "core/distill/projection_nemo.h"
#include "core/text/tokenizer/byte_alphabet.h"
#include "core/text/tokenizer/token_bytes.h"
#include "core/text/tokenizer/vocabulary_fingerprint.h"

namespace xrun {

namespace {

// The sum of a row whose only token does not spell its bytes: below 1, so that it is not exact, and
// above the 0.6 of the relaxed map.
constexpr double kInexactSum = 0.9;

// One tokenizer's tokens as bytes.
class SpelledVocabulary {
 public:
  explicit SpelledVocabulary(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
    const TokenBytes bytes(tokenizer);
    const auto size = static_cast<int32_t>(tokenizer.vocab_size());
    bytes_.resize(size_t(size));
    next_.assign(size_t(size), -1);
    for (int32_t id = 0; id < size; ++id) {
      // A special token spells no text, so it pairs by role (pair_specials).
      if (tokenizer.is_special(id)) {
        specials_.push_back(id);
      } else {
        bytes_[size_t(id)] = bytes.of(id);
        longest_ = std::max(longest_, bytes_[size_t(id)].size());
      }
    }
    // The token that the tokenizer writes comes first: a byte token <0x41> is for bytes without a
    // piece of their own.
    for (const bool byte_token : {false, true}) {
      for (int32_t id = 0; id < size; ++id) {
        if (bytes_[size_t(id)].empty()) continue;
        if ((spelled_byte(tokenizer.piece(id)) >= 0) == byte_token) insert(id);
      }
    }
  }

  const Tokenizer& tokenizer() const { return tokenizer_; }
  int32_t size() const { return static_cast<int32_t>(bytes_.size()); }
  const std::string& bytes(int32_t id) const { return bytes_[size_t(id)]; }  // "": special or none
  const std::vector<int32_t>& specials() const { return specials_; }
  // Returns the first token of these bytes or -1; next() gives its twins.
  int32_t first(std::string_view bytes) const {
    const auto found = first_.find(bytes);
    return found == first_.end() ? -1 : found->second;
  }
  int32_t next(int32_t id) const { return next_[size_t(id)]; }

  bool spells(std::span<const int32_t> ids, std::string_view bytes) const {
    for (const int32_t id : ids) {
      const std::string& piece = bytes_[size_t(id)];
      if (piece.empty() || !bytes.starts_with(piece)) return false;
      bytes.remove_prefix(piece.size());
    }
    return bytes.empty();
  }

  size_t longest() const { return longest_; }

 private:
  void insert(int32_t id) {
    const auto [found, added] = first_.try_emplace(bytes_[size_t(id)], id);
    if (added) return;
    int32_t last = found->second;
    while (next_[size_t(last)] >= 0) last = next_[size_t(last)];
    next_[size_t(last)] = id;
  }

  const Tokenizer& tokenizer_;
  std::vector<std::string> bytes_;
  std::vector<int32_t> next_, specials_;
  std::unordered_map<std::string_view, int32_t> first_;
  size_t longest_ = 0;
};

// The partner of each token of a vocabulary in the other one: of the tokens that spell the same
// bytes, the first goes with the first, the second with the second. -1: none.
std::vector<int32_t> twins(const SpelledVocabulary& from, const SpelledVocabulary& to) {
  std::vector<int32_t> twin(size_t(from.size()), -1);
  for (int32_t id = 0; id < from.size(); ++id) {
    if (from.bytes(id).empty() || from.first(from.bytes(id)) != id) continue;
    int32_t mine = id, other = to.first(from.bytes(id));
    while (mine >= 0 && other >= 0) {
      twin[size_t(mine)] = other;
      // The side with more twins has some without a partner.
      mine = from.next(mine);
      other = to.next(other);
    }
  }
  return twin;
}

// Writes bytes with a vocabulary, as its tokenizer does in the middle of a text.
class Speller {
 public:
  explicit Speller(const SpelledVocabulary& vocabulary)
      : vocabulary_(vocabulary), after_newline_(encode("\n").ids) {}

  struct Spelling {
    std::vector<int32_t> ids;
    bool exact = true;  // they spell the same bytes
  };

  // Empty if the vocabulary cannot write the bytes.
  Spelling spell(const std::string& bytes) const {
    const Encoding plain = encode(bytes);
    // Checked by bytes, since a normaliser or an unknown token loses some.
    if (vocabulary_.spells(plain.ids, bytes)) return {plain.ids};
    // A tokenizer that puts a space before a text: that one replaces the space of the bytes.
    if (bytes.size() > 1 && bytes[0] == ' ') {
      Encoding rest = encode(bytes.substr(1));
      if (vocabulary_.spells(rest.ids, bytes)) return {std::move(rest.ids)};
    }
    // The same tokenizer, for bytes without a space: it puts none after a line end.
    const Encoding line = encode("\n" + bytes);
    if (line.ids.size() > after_newline_.size() &&
        std::equal(after_newline_.begin(), after_newline_.end(), line.ids.begin())) {
      const std::span<const int32_t> rest = std::span(line.ids).subspan(after_newline_.size());
      if (vocabulary_.spells(rest, bytes)) return {{rest.begin(), rest.end()}};
    }
    // A fragment of a character is not text; the tokenizer would write U+FFFD.
    if (std::optional<std::vector<int32_t>> ids = by_longest_piece(bytes)) return {*ids};
    // A tokenizer that changes the text ("The" to "the").
    Spelling changed{{}, false};
    const std::optional<int32_t> unknown =
        vocabulary_.tokenizer().id_of(vocabulary_.tokenizer().unk_token());
    // The tokens of U+FFFD say nothing about the bytes that it replaced.
    if (plain.replaced > 0) return changed;
    for (const int32_t id : plain.ids) {
      if (id != unknown && !vocabulary_.bytes(id).empty()) changed.ids.push_back(id);
    }
    return changed;
  }

 private:
  Encoding encode(const std::string& text) const { return vocabulary_.tokenizer().encode(text); }

  std::optional<std::vector<int32_t>> by_longest_piece(std::string_view bytes) const {
    std::vector<int32_t> ids;
    while (!bytes.empty()) {
      int32_t id = -1;
      for (size_t n = std::min(bytes.size(), vocabulary_.longest()); n > 0 && id < 0; --n) {
        id = vocabulary_.first(bytes.substr(0, n));
      }
      if (id < 0) return std::nullopt;
      ids.push_back(id);
      bytes.remove_prefix(vocabulary_.bytes(id).size());
    }
    return ids;
  }

  const SpelledVocabulary& vocabulary_;
  std::vector<int32_t> after_newline_;
};

// Calls add(id of `from`, id of `to`, weight) for each token without a twin.
template <class Add>
void spell_all(const SpelledVocabulary& from, const SpelledVocabulary& to,
               const std::vector<int32_t>& twin, const ProjectionOptions& options, const Add& add) {
  const Speller speller(to);
  for (int32_t id = 0; id < from.size(); ++id) {
    const std::string& bytes = from.bytes(id);
    // Not a twin's shadow either: a tokenizer never writes the second token of the same bytes.
    if (bytes.empty() || from.first(bytes) != id) continue;
    if (options.exact && twin[size_t(id)] >= 0) continue;
    std::vector<int32_t> ids = speller.spell(bytes).ids;
    if (std::cmp_greater(ids.size(), options.tokens_to_cut))
      ids.resize(size_t(options.tokens_to_cut));
    const std::vector<double> weights = spelling_weights(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) add(id, ids[i], weights[i]);
  }
}

std::array<std::optional<int32_t>, 4> special_roles(const Tokenizer& tokenizer) {
  // The end of a text first: where one token has several roles, that one is trained.
  return {tokenizer.eos_id(), tokenizer.bos_id(), tokenizer.pad_id(),
          tokenizer.unk_token().empty() ? std::nullopt : tokenizer.id_of(tokenizer.unk_token())};
}

// Sets the twins of the student's special tokens: of equal spelling, else of equal role.
void pair_specials(const SpelledVocabulary& student, const SpelledVocabulary& teacher,
                   std::vector<int32_t>& twin) {
  const auto mine = special_roles(student.tokenizer()), theirs = special_roles(teacher.tokenizer());
  for (const int32_t id : student.specials()) {
    const std::optional<int32_t> same = teacher.tokenizer().id_of(student.tokenizer().piece(id));
    if (same && teacher.tokenizer().is_special(*same)) {
      twin[size_t(id)] = *same;
      continue;
    }
    for (size_t role = 0; role < mine.size() && twin[size_t(id)] < 0; ++role) {
      if (mine[role] == id && theirs[role]) twin[size_t(id)] = *theirs[role];
    }
  }
}

// One row from its summed counts, of the largest top_k shares. `twin` is the token of equal bytes.
void add_row(std::span<const ProjectionCount> counts, int32_t twin, int64_t top_k,
             ProjectionRows& rows) {
  // Among equal counts the lower teacher id stays first, as summed_counts ordered them.
  std::vector<ProjectionCount> row(counts.begin(), counts.end());
  std::stable_sort(row.begin(), row.end(), [](const ProjectionCount& a, const ProjectionCount& b) {
    return a.weight > b.weight;
  });
  if (std::cmp_greater(row.size(), top_k)) row.resize(size_t(top_k));
  double sum = 0;
  for (const ProjectionCount& count : row) sum += count.weight;
  // Readers take a weight of 1 for a token of the same bytes (exact_map).
  const bool inexact = row.size() == 1 && row[0].teacher != twin;
  const double scale = (inexact ? kInexactSum : 1) / sum;
  for (const ProjectionCount& count : row) {
    rows.add(count.teacher, static_cast<float>(count.weight * scale));
  }
}

Projection build_by_bytes(const Tokenizer& student_tokenizer, const Tokenizer& teacher_tokenizer,
                          const ProjectionOptions& options) {
  const SpelledVocabulary student(student_tokenizer), teacher(teacher_tokenizer);
  std::vector<int32_t> twin = twins(student, teacher);
  std::vector<ProjectionCount> counts;
  spell_all(student, teacher, twin, options, [&](int32_t s, int32_t t, double weight) {
    counts.push_back({s, t, weight});
  });
  if (options.reverse) {
    spell_all(teacher, student, twins(teacher, student), options,
              [&](int32_t t, int32_t s, double weight) {
                // A row with a twin has nothing else.
                if (!options.exact || twin[size_t(s)] < 0) counts.push_back({s, t, weight});
              });
  }
  if (options.specials) pair_specials(student, teacher, twin);
  // Both directions may name one pair of tokens; its counts add up.
  counts = summed_counts(std::move(counts));
  Projection projection;
  ProjectionRows rows(projection);
  size_t at = 0;
  for (int32_t s = 0; s < student.size(); ++s) {
    const size_t first = at;
    while (at < counts.size() && counts[at].student == s) ++at;
    const bool alone = twin[size_t(s)] >= 0 && (options.exact || student.bytes(s).empty());
    if (alone) {
      rows.add(twin[size_t(s)], 1.0f);
    } else if (at > first) {
      add_row(std::span(counts).subspan(first, at - first), twin[size_t(s)], options.top_k, rows);
    }
    rows.end_row();
  }
  return projection;
}

}  // namespace

Projection build_projection(const Tokenizer& student, const Tokenizer& teacher,
                            const ProjectionOptions& options) {
  student.finish_loading();
  teacher.finish_loading();
  Projection projection = options.nemo ? projection_of(nemo_projection(student, teacher, options))
                                       : build_by_bytes(student, teacher, options);
  projection.student_vocab = student.vocab_size();
  projection.teacher_vocab = teacher.vocab_size();
  projection.student = vocabulary_fingerprint(student);
  projection.teacher = vocabulary_fingerprint(teacher);
  projection.made_by =
      Json(Json::Object{{"command", "build"}, {"settings", projection_options_json(options)}});
  return projection;
}

Json projection_options_json(const ProjectionOptions& options) {
  Json json(Json::Object{{"top_k", options.top_k},
                         {"tokens_to_cut", options.tokens_to_cut},
                         {"reverse", options.reverse},
                         {"specials", options.specials},
                         {"exact", options.exact},
                         {"nemo", options.nemo}});
  if (options.nemo) {
    json.set("canonical", options.canonical);
    json.set("prep_top_k", options.prep_top_k);
    json.set("scale_trick", options.scale_trick);
  }
  return json;
}

std::vector<double> spelling_weights(size_t tokens) {
  std::vector<double> weights;
  double sum = 0;
  for (size_t i = 0; i < tokens; ++i) {
    weights.push_back(i == 0 ? 0.9 : 0.9 * std::pow(0.1, double(i)));
    sum += weights.back();
  }
  // The weights of one spelling add up to 1, however many tokens it has.
  for (double& weight : weights) weight /= sum;
  return weights;
}

std::vector<ProjectionCount> summed_counts(std::vector<ProjectionCount> counts) {
  std::stable_sort(counts.begin(), counts.end(),
                   [](const ProjectionCount& a, const ProjectionCount& b) {
                     return std::pair(a.student, a.teacher) < std::pair(b.student, b.teacher);
                   });
  size_t size = 0;
  for (const ProjectionCount& count : counts) {
    if (size > 0 && counts[size - 1].student == count.student &&
        counts[size - 1].teacher == count.teacher) {
      counts[size - 1].weight += count.weight;
    } else {
      counts[size++] = count;
    }
  }
  counts.resize(size);
  return counts;
}

}  // namespace xrun
