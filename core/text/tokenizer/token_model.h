#pragma once
// Token models, which turn pieces of text into tokens of their vocabulary.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/text/tokenizer/safe_split.h"
#include "core/text/tokenizer/token_bytes.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/text/tokenizer/vocabulary.h"

namespace xrun {

// A token and its byte range [begin, end) of the text that the model was given.
struct ModelToken {
  int32_t id;
  uint32_t begin;
  uint32_t end;
};

// Immutable, thread-safe.
class TokenModel {
 public:
  virtual ~TokenModel() = default;
  // Appends the tokens of each piece of `text`, in order. Throws Error if a character is unknown
  // and the unknown token is not in the vocabulary.
  virtual void tokenize(std::string_view text, std::span<const ByteRange> pieces,
                        std::vector<ModelToken>& out) const = 0;
  // tokenize() for a text that does not begin the input.
  virtual void tokenize_inner(std::string_view text, std::span<const ByteRange> pieces,
                              std::vector<ModelToken>& out) const {
    tokenize(text, pieces, out);
  }
  // tokenize() for the text after a split point.
  virtual void tokenize_rest(std::string_view text, std::span<const ByteRange> pieces,
                             std::vector<ModelToken>& out) const {
    tokenize_inner(text, pieces, out);
  }
  // Returns kPiece if each side of such a split point has the same tokens alone as in the whole.
  virtual SafeSplit split_after(SafeSplit split) const {
    return split == SafeSplit::kPiece ? split : SafeSplit::kNone;
  }
  // Returns the most bytes without a split point that some 600 MB of working memory can tokenise.
  virtual size_t max_stretch() const { return size_t{12} << 20; }
  virtual const Vocabulary& vocabulary() const = 0;
  // Reads the data that the constructor left for the first text. Throws Error naming file and key.
  virtual void finish_loading() const {}
  // Records how the model's pieces spell a text; the earlier stages have recorded theirs.
  virtual void describe(TextSpelling& spelling) const { spelling.exact = false; }
  // Hashes the rules, besides the vocabulary, that choose a segmentation: merges or scores. Returns
  // false if the model does not know them.
  virtual bool hash_rules(Hasher& hasher) const {
    (void)hasher;
    return true;
  }
};

// The input of a model's reader: the members of the "model" object as JSON text, inside a buffer
// with kJsonPadding readable bytes after its end.
struct ModelSource {
  std::vector<std::pair<std::string, std::string_view>> members;
  std::string where;        // "dir/tokenizer.json: model"
  bool maps_bytes = false;  // pieces are bytes, the vocabulary is spelled in the byte alphabet

  // Returns a member's text. Throws Error if it is missing.
  std::string_view member(std::string_view key) const;
  // Returns the value of a small member, null if it is missing.
  Json option(std::string_view key) const;
  // Return a small member, or "" and false if it is missing or null. Throw Error naming the path if
  // it is of another kind.
  std::string text(std::string_view key) const;
  bool flag(std::string_view key) const;
  // Returns the "type"; files older than that key are BPE.
  std::string type() const;
  // Returns true if the model may read bytes instead of their spelling.
  bool can_map_bytes() const;
};

// Makes the model of the source's "type". Throws Error naming the path, the unknown type and the
// known ones, and whatever the model's reader throws.
std::unique_ptr<const TokenModel> make_model(const ModelSource& source);

// The readers that make_model chooses from. They throw Error, or simdjson_error for malformed JSON.
std::unique_ptr<const TokenModel> read_bpe(const ModelSource& source);
std::unique_ptr<const TokenModel> read_unigram(const ModelSource& source);
std::unique_ptr<const TokenModel> read_word_level(const ModelSource& source);
std::unique_ptr<const TokenModel> read_word_piece(const ModelSource& source);

// A vocab.json and a merges.txt.
struct BpeFiles {
  std::string_view vocab;  // followed by kJsonPadding readable bytes
  std::shared_ptr<const PaddedFile> merges;
  std::string vocab_name;  // for messages
  std::string merges_name;
};
// Makes the byte-pair model of the two files. The first text reads the merges: they are more than
// half of the work, and many commands never tokenise.
std::unique_ptr<const TokenModel> make_bpe_model(const BpeFiles& files, bool maps_bytes);

}  // namespace xrun
