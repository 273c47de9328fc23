// A student's tokens are runs of content between special tokens. Special tokens map by role. The
// bytes of a run are encoded by the teacher, and both token lists are walked over these bytes:
//
//   student   <s>      Hel lo Ġ world   </s>
//   teacher   <bos>    Hello Ġworld     <eos>
//
// A run is split where its bytes are not UTF-8: the teacher would read U+FFFD there instead of the
// student's bytes, and nothing after it could be aligned. In a document such tokens have no
// partner. In a sampled answer they become the teacher's tokens of single bytes, or a student could
// answer with bytes that no loss reads.

#include "core/align/retokenizer.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/text/tokenizer/vocabulary_fingerprint.h"

namespace xrun {

namespace {

constexpr int64_t kAlignerVersion = 4;  // to be raised when cached results change
constexpr int32_t kContent = -1;        // TokenTable::role

// Returns true if the tokenizer adds a space before the first word of a text.
bool has_prefix(const TokenTable& table) { return table.spelling().prefix != PrefixSpace::kNone; }

const std::shared_ptr<const Tokenizer>& loaded(const std::shared_ptr<const Tokenizer>& tokenizer) {
  XRUN_CHECK(tokenizer != nullptr, "an alignment needs the tokenizers of student and teacher");
  tokenizer->finish_loading();
  return tokenizer;
}

// Returns true if the teacher has every token of the student, with the same id.
bool has_all_tokens(const Tokenizer& student, const Tokenizer& teacher) {
  return student.vocab_size() <= teacher.vocab_size() &&
         compare_vocabularies(student, teacher) != VocabularyMatch::kDifferent;
}

// Returns the first byte of text[begin, end) that is not UTF-8, or `end`.
size_t first_invalid(std::string_view text, size_t begin, size_t end) {
  const std::string_view part = text.substr(0, end);
  for (size_t at = begin; at < end;) {
    const CodePoint point = read_utf8(part, at);
    if (!point.valid) return at;
    at += point.size;
  }
  return end;
}

// Returns true if the bytes from `at` to the end are an incomplete character, which the next token
// would have completed.
bool begins_character(std::string_view text, size_t at) {
  const auto lead = static_cast<uint8_t>(text[at]);
  const size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC2 ? 2 : 0;
  const std::string_view more = text.substr(at + 1);
  return size > more.size() + 1 && std::all_of(more.begin(), more.end(), [](char byte) {
           return (static_cast<uint8_t>(byte) & 0xC0) == 0x80;
         });
}

}  // namespace

Retokenizer::Retokenizer(std::shared_ptr<const Tokenizer> student,
                         std::shared_ptr<const Tokenizer> teacher,
                         const RetokenizerOptions& options)
    : student_(loaded(student)),
      teacher_(loaded(teacher)),
      table_s_(*student_),
      table_t_(*teacher_),
      fingerprint_s_(vocabulary_fingerprint(*student_)),
      fingerprint_t_(vocabulary_fingerprint(*teacher_)),
      same_vocabulary_(fingerprint_s_ == fingerprint_t_ || has_all_tokens(*student_, *teacher_)),
      options_(options),
      leading_(teacher_->leading_bos()) {
  byte_token_.fill(-1);
  for (int64_t id = 0; id < teacher_->vocab_size(); ++id) {
    const auto token = static_cast<int32_t>(id);
    const std::string_view bytes = table_t_.bytes(token);
    if (bytes.size() == 1) byte_token_[static_cast<uint8_t>(bytes.front())] = token;
    const SpecialRoles* roles = table_t_.roles(token);
    if (roles == nullptr) continue;
    for (const int32_t role : *roles) teacher_special_.emplace(role, token);
  }
}

// Builds the alignment of one document token by token.
class Retokenizer::Builder {
 public:
  Builder(const Retokenizer& retokenizer, std::span<const int32_t> ids)
      : retokenizer_(retokenizer),
        student_table_(retokenizer.table_s_),
        teacher_table_(retokenizer.table_t_),
        ids_(ids) {}

  AlignedDocument document() {
    add_bos();
    add_rest();
    cut_document(out_, std::ssize(ids_), retokenizer_.options_.limit);
    return std::move(out_);
  }

  AlignedDocument answer(std::optional<int32_t> turn_end) {
    is_answer_ = true;
    turn_end_ = turn_end;
    fresh_ = has_prefix(student_table_);  // the space before an answer belongs to the template
    add_rest();
    return std::move(out_);
  }

 private:
  void add_rest() {
    while (at_ < size()) {
      if (!is_content(at_)) {
        add_special();
        continue;
      }
      size_t end = at_ + 1;
      while (end < size() && is_content(end)) ++end;
      add_run(end);
    }
  }

  size_t size() const { return ids_.size(); }
  bool pairs_specials() const { return retokenizer_.options_.walk.pair_specials; }
  bool is_content(size_t i) const { return student_table_.role(ids_[i]) == kContent; }
  int32_t teacher_end() const { return static_cast<int32_t>(out_.teacher_ids.size()); }

  // Adds the teacher's BOS, paired with the student's if it has one.
  void add_bos() {
    fresh_ = has_prefix(student_table_);
    const SpecialRoles* first = ids_.empty() ? nullptr : student_table_.roles(ids_[0]);
    if (first != nullptr && retokenizer_.leading_.size() == 1 && pairs_specials()) {
      const SpecialRoles* bos = teacher_table_.roles(retokenizer_.leading_[0]);
      if (bos != nullptr && share_role(*first, *bos)) return pair_one(retokenizer_.leading_[0]);
    }
    for (const int32_t id : retokenizer_.leading_) {
      out_.pairs.push_back({-1, -1, teacher_end(), teacher_end() + 1, false});
      out_.teacher_ids.push_back(id);
    }
  }

  // Pairs the student's next token, a special one, with a token of the teacher.
  void pair_one(int32_t teacher_id) {
    pass_special();
    const auto s = static_cast<int32_t>(at_++);
    out_.pairs.push_back({s, s + 1, teacher_end(), teacher_end() + 1, true});
    out_.teacher_ids.push_back(teacher_id);
  }

  // Leaves the student's tokens [at_, end) without a partner; the teacher does not see their text.
  void add_orphans(size_t end) {
    for (; at_ < end; ++at_) {
      const auto s = static_cast<int32_t>(at_);
      out_.pairs.push_back({s, s + 1, -1, -1, false});
    }
  }

  // Pairs the next token, a special one, by the first of its roles that the teacher has.
  void add_special() {
    const SpecialRoles* const roles = student_table_.roles(ids_[at_]);
    if (turn_end_ && at_ + 1 == size() && pairs_specials()) return pair_one(*turn_end_);
    if (roles != nullptr && pairs_specials()) {
      for (const int32_t role : *roles) {
        const auto known = retokenizer_.teacher_special_.find(role);
        if (known != retokenizer_.teacher_special_.end()) return pair_one(known->second);
      }
    }
    pass_special();
    add_orphans(at_ + 1);
  }

  // Updates fresh_: a tokenizer may add the space before a text again after a special token.
  void pass_special() {
    const int32_t id = ids_[at_];
    fresh_ = student_table_.restarts(id) || (fresh_ && student_table_.is_leading(id));
  }

  // Adds the content tokens [at_, end).
  void add_run(size_t end) {
    const size_t first = at_;
    std::string text;
    std::vector<size_t> offset = {0};  // of each token in the text, and the end of the last
    const bool begins = fresh_;
    for (size_t i = first; i < end; ++i) {
      std::string_view bytes = student_table_.bytes(ids_[i]);
      if (fresh_ && bytes.starts_with(' ')) bytes.remove_prefix(1);
      fresh_ = student_table_.restarts(ids_[i]);
      text += bytes;
      offset.push_back(text.size());
    }
    const auto byte_of = [&](size_t token) { return offset[token - first]; };
    while (at_ < end) {
      const size_t bad = first_invalid(text, byte_of(at_), byte_of(end));
      size_t stop = at_;  // the token with the first invalid byte, or `end`
      while (stop < end && byte_of(stop + 1) <= bad) ++stop;
      // A character that extends into that token also makes the tokens before it invalid.
      size_t good = stop;
      while (good > at_ && first_invalid(text, byte_of(at_), byte_of(good)) < byte_of(good)) --good;
      const std::string_view piece =
          std::string_view(text).substr(byte_of(at_), byte_of(good) - byte_of(at_));
      walk(good, piece, std::span(offset).subspan(at_ - first, good - at_ + 1),
           begins && at_ == first);
      if (stop == end) continue;
      if (!is_answer_) {
        add_orphans(stop + 1);
      } else if (end == size() && begins_character(text, bad)) {
        add_orphans(end);
      } else {
        add_raw_bytes(stop + 1, std::string_view(text).substr(byte_of(at_),
                                                              byte_of(stop + 1) - byte_of(at_)));
      }
    }
  }

  // Adds the content tokens [at_, end) of an answer, whose bytes are not UTF-8. Every sampled token
  // gets a loss, so the teacher reads them byte by byte.
  void add_raw_bytes(size_t end, std::string_view bytes) {
    std::vector<int32_t> teacher;
    for (const char byte : bytes) {
      teacher.push_back(retokenizer_.byte_token_[static_cast<uint8_t>(byte)]);
      if (teacher.back() < 0) return add_orphans(end);
    }
    const std::span<const int32_t> ids = ids_.subspan(at_, end - at_);
    WalkOptions options = retokenizer_.options_.walk;
    options.begins_text = false;
    append(end, teacher, walk_tokens(student_table_, ids, teacher_table_, teacher, options));
  }

  // Aligns the content tokens [at_, end), which spell `text` in UTF-8.
  //   offset  the first byte of each token, and the end of the last
  //   fresh   the space that the student adds before a text is not in `text`
  void walk(size_t end, std::string_view text, std::span<const size_t> offset, bool fresh) {
    if (text.empty()) return add_orphans(end);
    WalkOptions options = retokenizer_.options_.walk;
    // The walk must not take a space of the text for the one that the student adds.
    options.begins_text = fresh || !has_prefix(student_table_) || !text.starts_with(' ');
    if (!options.begins_text && has_prefix(teacher_table_)) {
      text.remove_prefix(1);  // the teacher adds it again
      if (text.empty()) return add_orphans(end);
    }
    const std::span<const int32_t> ids = ids_.subspan(at_, end - at_);
    const Encoding teacher = retokenizer_.teacher_->encode(text);
    if (student_table_.exact() && teacher_table_.exact()) {
      Alignment pairs = walk_tokens(student_table_, ids, teacher_table_, teacher.ids, options);
      // Even an exact tokenizer loses what it has no token for, and takes U+2581 for a space.
      if (all_paired(pairs)) return append(end, teacher.ids, std::move(pairs));
    }
    if (student_table_.exact() || retokenizer_.student_->decode(ids) == text) {
      const Encoding own{{ids.begin(), ids.end()}, ranges(offset, text.size())};
      return append(end, teacher.ids,
                    walk_tokens(text, {student_table_, own}, {teacher_table_, teacher}, options));
    }
    // The student's pieces do not spell its text (WordPiece), so its encoding finds their ranges.
    const std::string plain = retokenizer_.student_->decode(ids);
    const Encoding own = retokenizer_.student_->encode(plain);
    // Tokens that the student would not choose for this text have no known ranges.
    if (!std::ranges::equal(ids, own.ids)) return add_orphans(end);
    const Encoding read = retokenizer_.teacher_->encode(plain);
    append(end, read.ids,
           walk_tokens(plain, {student_table_, own}, {teacher_table_, read},
                       retokenizer_.options_.walk));
  }

  static bool all_paired(const Alignment& pairs) {
    return std::none_of(pairs.begin(), pairs.end(), [](const AlignedPair& pair) {
      return pair.s_begin < 0 || pair.t_begin < 0;
    });
  }

  // Returns the ranges of the tokens in the last `size` bytes of their text: a space before these
  // may have been removed.
  static std::vector<ByteRange> ranges(std::span<const size_t> offset, size_t size) {
    const size_t first = offset.back() - size;
    const auto at = [&](size_t i) { return uint32_t(std::max(offset[i], first) - first); };
    std::vector<ByteRange> out;
    for (size_t i = 0; i + 1 < offset.size(); ++i) out.push_back({at(i), at(i + 1)});
    return out;
  }

  // Appends the student's tokens [at_, end), the teacher's, and their pairs, numbered from 0.
  void append(size_t end, const std::vector<int32_t>& teacher, Alignment pairs) {
    const auto s = static_cast<int32_t>(at_);
    const int32_t t = teacher_end();
    for (AlignedPair& pair : pairs) {
      if (pair.s_begin >= 0) {
        pair.s_begin += s;
        pair.s_end += s;
      }
      if (pair.t_begin >= 0) {
        pair.t_begin += t;
        pair.t_end += t;
      }
      out_.pairs.push_back(pair);
    }
    out_.teacher_ids.insert(out_.teacher_ids.end(), teacher.begin(), teacher.end());
    at_ = end;
  }

  const Retokenizer& retokenizer_;
  const TokenTable &student_table_, &teacher_table_;
  std::span<const int32_t> ids_;
  size_t at_ = 0;       // the student's next token
  bool fresh_ = false;  // it begins a text, before which the student's tokenizer adds a space
  bool is_answer_ = false;
  std::optional<int32_t> turn_end_;
  AlignedDocument out_;
};

void cut_document(AlignedDocument& document, int64_t student, int64_t teacher) {
  const auto fits = [&](const AlignedPair& pair) {
    return pair.s_end <= student && (teacher <= 0 || pair.t_end <= teacher);
  };
  size_t pairs = 0;
  int32_t tokens = 0, own = 0;
  for (; pairs < document.pairs.size() && fits(document.pairs[pairs]); ++pairs) {
    if (document.pairs[pairs].t_begin >= 0) tokens = document.pairs[pairs].t_end;
    if (document.pairs[pairs].s_begin >= 0) own = document.pairs[pairs].s_end;
  }
  // Only the teacher's limit counts as a cut, not a pair across the student's own end.
  const bool over = pairs < document.pairs.size() && document.pairs[pairs].s_end <= student;
  if (over) document.covered = own;
  document.pairs.resize(pairs);
  document.teacher_ids.resize(static_cast<size_t>(tokens));
}

AlignedDocument Retokenizer::align(std::span<const int32_t> ids) const {
  for (size_t i = 0; i < ids.size(); ++i) {  // before any table is indexed by an id
    XRUN_CHECK(ids[i] >= 0 && ids[i] < student_->vocab_size(),
               "align: token {} of the student is {}, its tokenizer has {} ids", i, ids[i],
               student_->vocab_size());
  }
  return Builder(*this, ids).document();
}

AlignedDocument Retokenizer::align_answer(std::span<const int32_t> ids,
                                          std::optional<int32_t> turn_end) const {
  return Builder(*this, ids).answer(turn_end);
}

Json Retokenizer::made_by() const {
  Json made_by = Json::object();
  made_by.set("aligner", "bytes");
  made_by.set("version", kAlignerVersion);
  made_by.set("student", fingerprint_s_);
  made_by.set("teacher", fingerprint_t_);
  // The fingerprints cover the vocabularies; normaliser and splitter decide ids too.
  made_by.set("student_tokenizer", student_->digest());
  made_by.set("teacher_tokenizer", teacher_->digest());
  made_by.set("limit", options_.limit);
  if (options_.walk.max_span > 0) made_by.set("max_span", options_.walk.max_span);
  if (!options_.walk.pair_specials) made_by.set("pair_specials", false);
  return made_by;
}

}  // namespace xrun
