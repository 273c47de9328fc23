#pragma once
// Byte-pair encoding over bytes (GPT-2's kind) or over characters (SentencePiece's kind).

#include <array>
#include <functional>
#include <mutex>
#include <optional>

#include "core/text/tokenizer/bpe_merge.h"
#include "core/text/tokenizer/piece_cache.h"
#include "core/text/tokenizer/token_model.h"

namespace xrun {

struct BpeOptions {
  std::string unk_token;       // "": unknown characters are dropped, as in Hugging Face
  std::string prefix;          // before every character of a piece but the first
  std::string suffix;          // after the last character of a piece
  bool fuse_unk = false;       // a run of unknown characters is one token
  bool byte_fallback = false;  // unknown characters become the tokens <0x00> to <0xFF>
  bool ignore_merges = false;  // a piece in the vocabulary is that token
};

struct BpeMerges {
  MergeTable table;
  // True if every merge whose right side begins with U+2581 has a left side that ends with it.
  bool marks_begin_words = false;
};
using ReadMerges = std::function<BpeMerges(const Vocabulary&)>;

class Bpe : public TokenModel {
 public:
  // `read_merges` is called once, by finish_loading() or by the first call that needs the merges.
  //   maps_bytes  as in ModelSource; requires options without prefix, suffix and byte_fallback
  Bpe(Vocabulary vocabulary, ReadMerges read_merges, BpeOptions options, bool maps_bytes);

  void tokenize(std::string_view text, std::span<const ByteRange> pieces,
                std::vector<ModelToken>& out) const override;
  SafeSplit split_after(SafeSplit split) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  void finish_loading() const override;
  void describe(TextSpelling& spelling) const override;
  bool hash_rules(Hasher& hasher) const override;

 private:
  // Appends the words of a piece: ranges that no merge crosses.
  void cut_at_marks(std::string_view text, ByteRange piece, std::vector<ByteRange>& words) const;
  void merge_word(std::string_view word, std::vector<ModelToken>& symbols) const;
  void split_bytes(std::string_view word, std::vector<ModelToken>& symbols) const;
  void split_characters(std::string_view word, std::vector<ModelToken>& symbols) const;
  // Returns the id of word[begin, end), one character, or -1.
  int32_t character_id(std::string_view word, uint32_t begin, uint32_t end) const;
  void add_unknown(uint32_t begin, uint32_t end, std::vector<ModelToken>& symbols) const;
  // Returns the id of the token that is the whole word; nullopt if there is none.
  std::optional<int32_t> whole_token_id(std::string_view word) const;

  Vocabulary vocabulary_;
  mutable std::once_flag loaded_;
  mutable ReadMerges read_merges_;  // empty afterwards
  mutable MergeTable merges_;
  // No merge crosses the front of this character, so pieces are cut there: the cache then sees
  // words even if no pre-tokenizer cuts. "": pieces are not cut.
  mutable std::string word_mark_;
  BpeOptions options_;
  bool maps_bytes_;
  bool has_affixes_;
  uint64_t serial_;  // identifies this model in the threads' caches
  int32_t unk_id_ = -1;
  std::array<int32_t, 256> byte_ids_;      // by byte, or by ASCII character; -1: none
  std::array<int32_t, 256> fallback_ids_;  // of <0x00> to <0xFF>; all -1 without byte_fallback
};

}  // namespace xrun
