#include "core/text/added_tokens.h"

#include "core/text/unicode.h"
#include "core/text/utf8_cursor.h"

#include <algorithm>

namespace xrun {

namespace {

bool is_space_at(std::string_view text, size_t at) {
  return char_kind(utf8_character(text, at)) == CharKind::kSpace;
}

// Whether a word character touches [begin, end) of the text.
bool touches_word(std::string_view text, size_t begin, size_t end) {
  const bool before = begin > 0 && is_word(utf8_character(text, utf8_before(text, begin)));
  const bool after = end < text.size() && is_word(utf8_character(text, end));
  return before || after;
}

// Extends a match over the spaces that its token takes; not over an earlier match.
AddedMatch with_spaces(std::string_view text, const AddedToken& token, AddedMatch match,
                       uint32_t done) {
  if (token.lstrip) {
    size_t begin = match.begin;
    while (begin > 0 && is_space_at(text, utf8_before(text, begin))) {
      begin = utf8_before(text, begin);
    }
    match.begin = std::max(uint32_t(begin), done);
  }
  while (token.rstrip && match.end < text.size() && is_space_at(text, match.end)) {
    match.end += utf8_size(text[match.end]);
  }
  return match;
}

}  // namespace

SpecialRanges::SpecialRanges(const EncodeOptions& options) : all_(options.all_special) {
  for (const ByteRange range : options.special_ok) {
    if (range.begin >= range.end) continue;
    if (!runs_.empty() && range.begin <= runs_.back().end) {
      runs_.back().end = std::max(runs_.back().end, range.end);
    } else {
      runs_.push_back(range);
    }
  }
}

bool SpecialRanges::allow(ByteRange range) const {
  if (all_) return true;
  const auto after = std::upper_bound(
      runs_.begin(), runs_.end(), range.begin,
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
    insert(tries_[token.normalized], normal_forms_.back(), int32_t(i));
  }
}

void AddedTokens::insert(Trie& trie, std::string_view content, int32_t token) {
  if (content.empty()) return;
  if (trie.nodes.empty()) trie.nodes.emplace_back();
  trie.begins[static_cast<unsigned char>(content[0])] = true;
  if (!tokens_[size_t(token)].special) trie.has_plain = true;
  size_t node = 0;
  for (const char c : content) {
    const auto byte = static_cast<unsigned char>(c);
    auto& next = trie.nodes[node].next;
    const auto edge = std::find_if(next.begin(), next.end(),
                                   [&](const auto& e) { return e.first == byte; });
    if (edge != next.end()) {
      node = size_t(edge->second);
      continue;
    }
    next.emplace_back(byte, int32_t(trie.nodes.size()));
    node = trie.nodes.size();
    trie.nodes.emplace_back();
  }
  // Of two tokens that become the same text the package knows the first.
  int32_t& here = trie.nodes[node].token;
  const bool taken = here >= 0 && tokens_[size_t(here)].content != tokens_[size_t(token)].content;
  if (!taken) here = token;
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

uint32_t AddedTokens::longest(const Trie& trie, const AlignedText& text, uint32_t at,
                              const SpecialRanges& special, int32_t& token) const {
  const std::string_view bytes = text.text();
  uint32_t end = 0;
  size_t node = 0;
  for (uint32_t i = at; i < bytes.size(); ++i) {
    const auto& next = trie.nodes[node].next;
    const auto edge = std::find_if(next.begin(), next.end(), [&](const auto& e) {
      return e.first == static_cast<unsigned char>(bytes[i]);
    });
    if (edge == next.end()) break;
    node = size_t(edge->second);
    const int32_t found = trie.nodes[node].token;
    if (found < 0) continue;
    if (tokens_[size_t(found)].special && !special.allow(text.origin(at, i + 1))) continue;
    token = found;
    end = i + 1;
  }
  return end;
}

void AddedTokens::find_all(const AlignedText& text, bool normalized, const SpecialRanges& special,
                           std::vector<AddedMatch>& out) const {
  const Trie& trie = tries_[normalized];
  if (trie.nodes.empty() || (special.none() && !trie.has_plain)) return;
  const std::string_view bytes = text.text();
  uint32_t done = 0;  // the end of the last match, with its spaces
  for (uint32_t at = 0; at < bytes.size();) {
    int32_t index = -1;
    const uint32_t end = trie.begins[static_cast<unsigned char>(bytes[at])]
                             ? longest(trie, text, at, special, index)
                             : 0;
    if (end == 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[size_t(index)];
    if (!token.single_word || !touches_word(bytes, at, end)) {
      out.push_back(with_spaces(bytes, token, {at, end, token.id}, done));
      done = out.back().end;
    }
    at = end;
  }
}

}  // namespace xrun
