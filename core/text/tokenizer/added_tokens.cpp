// Each pass finds the longest allowed token at every byte, then drops overlaps from left to right.

#include "core/text/tokenizer/added_tokens.h"

#include <algorithm>
#include <unordered_set>

#include "core/base/error.h"
#include "core/text/tokenizer/tokenizer_component.h"
#include "core/text/unicode/unicode.h"
#include "core/text/unicode/utf8_cursor.h"

namespace xrun {

namespace {

constexpr size_t kRetainedMatches = size_t{1} << 16;  // capacity that a thread keeps

bool is_space_at(std::string_view text, size_t at) {
  return char_kind(utf8_character(text, at)) == CharKind::kSpace;
}

// Returns true if a word character is adjacent to [begin, end).
bool touches_word(std::string_view text, size_t begin, size_t end) {
  const bool before = begin > 0 && is_word(utf8_character(text, utf8_before(text, begin)));
  const bool after = end < text.size() && is_word(utf8_character(text, end));
  return before || after;
}

// Returns true if the text has both spaces (or U+2581) and other characters: it may match across a
// split point.
bool mixes_spaces(std::string_view text) {
  bool spaces = false, others = false;
  for (size_t at = 0; at < text.size(); at += utf8_size(text[at])) {
    const bool space = is_space_at(text, at) || utf8_character(text, at) == 0x2581;
    (space ? spaces : others) = true;
  }
  return spaces && others;
}

// Returns the match with the spaces that its token strips, but not beyond the previous match, which
// ended at `done`.
AddedMatch with_spaces(std::string_view text, const AddedToken& token, AddedMatch match,
                       uint32_t done) {
  if (token.lstrip) {
    while (match.begin > done && is_space_at(text, utf8_before(text, match.begin))) {
      match.begin = uint32_t(utf8_before(text, match.begin));
    }
    match.begin = std::max(match.begin, done);
  }
  // A token of blanks may be in the spaces that the previous match took.
  if (token.rstrip) match.end = std::max(match.end, done);
  while (token.rstrip && match.end < text.size() && is_space_at(text, match.end)) {
    match.end += utf8_size(text[match.end]);
  }
  return match;
}

}  // namespace

SpecialRanges::SpecialRanges(const EncodeOptions& options) : all_(options.all_special) {
  for (const ByteRange range : options.special_ok) {
    if (range.begin >= range.end) continue;
    // Adjacent ranges join, since a token may span two of them. They are sorted by their begin.
    if (!runs_.empty() && range.begin <= runs_.back().end) {
      runs_.back().end = std::max(runs_.back().end, range.end);
    } else {
      runs_.push_back(range);
    }
  }
}

bool SpecialRanges::allow(ByteRange range) const {
  if (all_) return true;
  const auto after =
      std::upper_bound(runs_.begin(), runs_.end(), range.begin,
                       [](uint32_t begin, const ByteRange& run) { return begin < run.begin; });
  return after != runs_.begin() && range.end <= std::prev(after)->end;
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Normalizer* normalizer)
    : tokens_(std::move(tokens)) {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const AddedToken& token = tokens_[i];
    by_id_.emplace(token.id, i);
    by_content_.emplace(token.content, i);
    AlignedText form(token.content, 0);
    if (token.normalized && normalizer != nullptr) normalizer->apply(form);
    normal_forms_.emplace_back(form.text());
    // Pass 0 matches the input, pass 1 its normal form.
    insert(passes_[token.normalized], normal_forms_.back(), int32_t(i));
    if (!token.normalized) continue;
    // Such a token depends on text around it, so a cut beside it could change a match.
    crosses_splits_ = crosses_splits_ || token.lstrip || token.rstrip || token.single_word ||
                      mixes_spaces(normal_forms_.back());
  }
  for (TokenPass& pass : passes_) pass.finder.finish();
}

void AddedTokens::insert(TokenPass& pass, std::string_view form, int32_t token) {
  const AddedToken& added = tokens_[size_t(token)];
  // The package would find an empty token between any two characters.
  XRUN_CHECK(!form.empty(),
             "the added token \"{}\" is empty once it is normalised; set its \"normalized\" to "
             "false",
             added.content);
  if (!added.special) pass.has_plain = true;
  // If two tokens normalise to the same text, the package finds the first.
  pass.finder.add(form, token);
}

const AddedToken* AddedTokens::find(int32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto found = by_content_.find(content);
  return found == by_content_.end() ? nullptr : &tokens_[found->second];
}

const std::string& AddedTokens::decoded(const AddedToken& token) const {
  return normal_forms_[size_t(&token - tokens_.data())];
}

void AddedTokens::find_all(const AlignedText& text, bool normalized, const SpecialRanges& special,
                           std::vector<AddedMatch>& out) const {
  const TokenPass& pass = passes_[normalized];
  // Nothing can match if the pass has only special tokens and the text allows none.
  if (pass.finder.empty() || (special.none() && !pass.has_plain)) return;
  const std::string_view bytes = text.text();
  // The longest allowed token at each byte, from back to front.
  struct Found {
    uint32_t begin;
    uint32_t end;
    int32_t token;
  };
  thread_local std::vector<Found> found;
  found.clear();
  pass.finder.find(bytes, [&](uint32_t begin, uint32_t end, int32_t token) {
    const bool allowed = !tokens_[size_t(token)].special || special.allow(text.origin(begin, end));
    if (allowed) found.push_back({begin, end, token});
    return allowed;
  });
  uint32_t from = 0;  // the next token begins here or later
  uint32_t done = 0;  // the end of the last match, with its spaces
  // Found from back to front, so this goes from left to right: the first match wins, later ones
  // that overlap it are dropped.
  for (auto here = found.rbegin(); here != found.rend(); ++here) {
    if (here->begin < from) continue;
    // Even if the token is refused below, no shorter one is tried there.
    from = here->end;
    const AddedToken& token = tokens_[size_t(here->token)];
    if (token.single_word && touches_word(bytes, here->begin, here->end)) continue;
    const AddedMatch match = with_spaces(bytes, token, {here->begin, here->end, token.id}, done);
    if (match.begin >= match.end) continue;  // the previous match took this blank
    out.push_back(match);
    done = match.end;
  }
  if (found.capacity() > kRetainedMatches) found = {};
}

AddedToken read_added_token(const Json& json, const std::string& where) {
  AddedToken token;
  XRUN_CHECK(json.is_string() || json.is_object(),
             "{}: got {}, wanted a token's text or an object with \"content\"", where,
             json.kind_name());
  if (json.is_string()) {
    token.content = json.as_string();
  } else {
    const ComponentSpec spec(json, where);
    token.content = spec.text("content");
    token.special = spec.boolean("special", false);
    // As in the package: special tokens match the input, the others its normal form.
    token.normalized = spec.boolean("normalized", !token.special);
    token.single_word = spec.boolean("single_word", false);
    token.lstrip = spec.boolean("lstrip", false);
    token.rstrip = spec.boolean("rstrip", false);
  }
  XRUN_CHECK(!token.content.empty(), "{}: the content is empty", where);
  return token;
}

std::string package_numbering(const std::vector<AddedToken>& added, const Vocabulary& vocabulary) {
  const int64_t pieces = vocabulary.count();
  int64_t last = -1;  // the largest id given so far
  size_t others = 0;
  std::string first;
  std::unordered_set<std::string_view> seen;
  for (const AddedToken& token : added) {
    // A repeated token keeps its first id.
    if (!seen.insert(token.content).second) continue;
    const std::optional<int32_t> known = vocabulary.find(token.content);
    // The rule of the package's add_tokens.
    const int64_t id = known ? *known : std::max(last + 1, pieces);
    last = std::max(last, id);
    if (id == token.id) continue;
    ++others;
    if (first.empty()) {
      first = fmt::format(
          "the added token \"{}\" has the id {} in tokenizer.json, which is kept; "
          "transformers gives it {}",
          token.content, token.id, id);
    }
  }
  return others > 1 ? fmt::format("{} (and {} more)", first, others - 1) : first;
}

}  // namespace xrun
