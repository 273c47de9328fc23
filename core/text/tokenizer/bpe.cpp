// A piece is cut into characters or bytes, which merge by rank (bpe_merge.h). The thread's cache
// holds the tokens of short words.

#include "core/text/tokenizer/bpe.h"

#include <algorithm>

#include "core/text/tokenizer/byte_alphabet.h"
#include "core/text/unicode/utf8_cursor.h"

namespace xrun {

Bpe::Bpe(Vocabulary vocabulary, ReadMerges read_merges, BpeOptions options, bool maps_bytes)
    : vocabulary_(std::move(vocabulary)),
      read_merges_(std::move(read_merges)),
      options_(std::move(options)),
      maps_bytes_(maps_bytes),
      has_affixes_(!options_.prefix.empty() || !options_.suffix.empty()),
      serial_(PieceCache::next_serial()) {
  unk_id_ = vocabulary_.find(options_.unk_token).value_or(-1);
  for (int b = 0; b < 256; ++b) {
    std::string spelling(1, char(b));
    if (maps_bytes_) {
      spelling.clear();
      const char byte = char(b);
      append_spelled(spelling, {&byte, 1});
    }
    // An ASCII character needs no look-up by text, unless its spelling depends on its position in
    // the word (prefix, suffix).
    const bool is_direct = maps_bytes_ || (b < 128 && !has_affixes_);
    byte_ids_[size_t(b)] = is_direct ? vocabulary_.find(spelling).value_or(-1) : -1;
    fallback_ids_[size_t(b)] =
        options_.byte_fallback ? vocabulary_.find(fmt::format("<0x{:02X}>", b)).value_or(-1) : -1;
  }
}

void Bpe::finish_loading() const {
  // Other threads with a first text wait here for the one that reads the merges.
  std::call_once(loaded_, [this] {
    BpeMerges merges = read_merges_(vocabulary_);
    merges_ = std::move(merges.table);
    // Cut at the mark only if it is a token and no merge crosses its front.
    const bool cuts = !maps_bytes_ && !has_affixes_ && !options_.ignore_merges &&
                      merges.marks_begin_words && vocabulary_.find("\u2581").has_value();
    if (cuts) word_mark_ = "\u2581";
    read_merges_ = {};
  });
}

void Bpe::tokenize(std::string_view text, std::span<const ByteRange> pieces,
                   std::vector<ModelToken>& out) const {
  finish_loading();
  thread_local std::vector<ByteRange> words;
  if (!word_mark_.empty()) {
    words.clear();
    for (const ByteRange piece : pieces) cut_at_marks(text, piece, words);
    pieces = words;
  }
  PieceCache::of(serial_).tokenize(
      text, pieces, out,
      [this](std::string_view word, std::vector<ModelToken>& tokens) { merge_word(word, tokens); });
}

SafeSplit Bpe::split_after(SafeSplit split) const {
  finish_loading();
  // Every model stops at the end of a piece; this one stops at a mark too if it cuts there.
  const bool cuts =
      split == SafeSplit::kPiece || (split == SafeSplit::kMark && !word_mark_.empty());
  return cuts ? SafeSplit::kPiece : SafeSplit::kNone;
}

void Bpe::describe(TextSpelling& spelling) const {
  spelling.byte_tokens = options_.byte_fallback;
  // Without a token for each byte, unknown characters are lost.
  const auto& bytes = maps_bytes_ ? byte_ids_ : fallback_ids_;
  const bool has_bytes =
      std::all_of(bytes.begin(), bytes.end(), [](int32_t id) { return id >= 0; });
  if (has_affixes_ || (!has_bytes && (maps_bytes_ || !spelling.byte_level))) spelling.exact = false;
}

bool Bpe::hash_rules(Hasher& hasher) const {
  finish_loading();
  merges_.hash(hasher);
  return true;
}

void Bpe::cut_at_marks(std::string_view text, ByteRange piece,
                       std::vector<ByteRange>& words) const {
  // Cut off only at the end, so that offsets remain those of the text.
  const std::string_view bytes = text.substr(0, piece.end);
  const size_t size = word_mark_.size();
  for (size_t from = piece.begin, at = from; at < bytes.size(); from = at) {
    // Skip a run of marks, then go to the next mark.
    while (bytes.compare(at, size, word_mark_) == 0) at += size;
    at = std::min(bytes.find(word_mark_, at), bytes.size());
    words.push_back({uint32_t(from), uint32_t(at)});
  }
}

void Bpe::merge_word(std::string_view word, std::vector<ModelToken>& symbols) const {
  // The vocabulary may have words that no sequence of merges produces.
  const std::optional<int32_t> id = options_.ignore_merges ? whole_token_id(word) : std::nullopt;
  if (id) {
    symbols.push_back({*id, 0, uint32_t(word.size())});
    return;
  }
  if (maps_bytes_) {
    split_bytes(word, symbols);
  } else {
    split_characters(word, symbols);
  }
  merge_symbols(merges_, symbols);
}

std::optional<int32_t> Bpe::whole_token_id(std::string_view word) const {
  if (!maps_bytes_) return vocabulary_.find(word);
  std::string spelling;
  append_spelled(spelling, word);
  return vocabulary_.find(spelling);
}

void Bpe::split_bytes(std::string_view word, std::vector<ModelToken>& symbols) const {
  for (uint32_t at = 0; at < word.size(); ++at) {
    const int32_t id = byte_ids_[static_cast<unsigned char>(word[at])];
    if (id >= 0) {
      symbols.push_back({id, at, at + 1});
    } else {
      add_unknown(at, at + 1, symbols);
    }
  }
}

int32_t Bpe::character_id(std::string_view word, uint32_t begin, uint32_t end) const {
  // An affix is part of the spelling, so the tables by byte do not apply.
  if (has_affixes_) {
    std::string spelling(begin > 0 ? options_.prefix : "");
    spelling.append(word, begin, end - begin);
    if (end == word.size()) spelling += options_.suffix;
    return vocabulary_.find(spelling).value_or(-1);
  }
  if (end - begin == 1) return byte_ids_[static_cast<unsigned char>(word[begin])];
  return vocabulary_.find(word.substr(begin, end - begin)).value_or(-1);
}

void Bpe::split_characters(std::string_view word, std::vector<ModelToken>& symbols) const {
  for (uint32_t at = 0; at < word.size();) {
    const uint32_t end = at + utf8_size(word[at]);
    const int32_t id = character_id(word, at, end);
    // As in Hugging Face's tokenizers, a character becomes byte tokens only if all its bytes do.
    bool has_bytes = options_.byte_fallback;
    for (uint32_t i = at; i < end && has_bytes; ++i) {
      has_bytes = fallback_ids_[static_cast<unsigned char>(word[i])] >= 0;
    }
    if (id >= 0) {
      symbols.push_back({id, at, end});
    } else if (has_bytes) {
      for (uint32_t i = at; i < end; ++i) {
        symbols.push_back({fallback_ids_[static_cast<unsigned char>(word[i])], i, i + 1});
      }
    } else {
      add_unknown(at, end, symbols);
    }
    at = end;
  }
}

void Bpe::add_unknown(uint32_t begin, uint32_t end, std::vector<ModelToken>& symbols) const {
  // Without an unknown token the character is dropped, as in Hugging Face's tokenizers.
  if (options_.unk_token.empty()) return;
  if (unk_id_ < 0) throw_no_unknown_token(options_.unk_token);
  // Only neighbours fuse: a known token in between ends the run.
  if (options_.fuse_unk && !symbols.empty() && symbols.back().id == unk_id_ &&
      symbols.back().end == begin) {
    symbols.back().end = end;
  } else {
    symbols.push_back({unk_id_, begin, end});
  }
}

}  // namespace xrun
