#pragma once
// Models: what turns a piece of text into tokens of the vocabulary.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/json.h"
#include "core/text/tokenizer/padded_file.h"
#include "core/text/tokenizer/text_border.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/text/tokenizer/vocabulary.h"

namespace xrun {

// A token and its bytes of the text that was given to the model.
struct ModelToken {
  int32_t id;
  uint32_t begin;
  uint32_t end;
};

// Immutable, thread-safe. One file a type.
class TokenModel {
 public:
  virtual ~TokenModel() = default;
  // Appends the tokens of each piece of `text`, in order. Throws Error if a character is unknown
  // and the unknown token is not in the vocabulary.
  virtual void tokenize(std::string_view text, std::span<const ByteRange> pieces,
                        std::vector<ModelToken>& out) const = 0;
  // The same for a text that is not at the begin of the input.
  virtual void tokenize_inner(std::string_view text, std::span<const ByteRange> pieces,
                              std::vector<ModelToken>& out) const {
    tokenize(text, pieces, out);
  }
  // The same for what follows a border of a text.
  virtual void tokenize_rest(std::string_view text, std::span<const ByteRange> pieces,
                             std::vector<ModelToken>& out) const {
    tokenize_inner(text, pieces, out);
  }
  // Returns kPiece where the tokens on both sides of a border are what each side alone gives.
  virtual Border border_after(Border border) const {
    return border == Border::kPiece ? border : Border::kNone;
  }
  // Returns the bytes of a text without borders that are tokenised at once in some 600 MB.
  virtual size_t max_stretch() const { return size_t{12} << 20; }
  virtual const Vocabulary& vocabulary() const = 0;
  // Reads what the model left for its first text. Throws Error that names file and place.
  virtual void finish_loading() const {}
};

// What a model is made from: the members of the "model" object as JSON text, inside a buffer that
// goes on for kJsonPadding readable bytes.
struct ModelSource {
  std::vector<std::pair<std::string, std::string_view>> members;
  std::string where;        // "dir/tokenizer.json: model"
  bool maps_bytes = false;  // pieces are bytes, the vocabulary is spelled in the byte alphabet

  // Returns a member's text. Throws Error if it is missing.
  std::string_view member(std::string_view key) const;
  // Returns a small member's value, null if it is missing.
  Json option(std::string_view key) const;
  // Return a small member, "" and false if it is missing or null. Throw Error that names the place
  // if it is of another kind.
  std::string text(std::string_view key) const;
  bool flag(std::string_view key) const;
  // Returns the "type"; a file older than that key is BPE.
  std::string type() const;
  // Whether the model may read bytes instead of their spelling.
  bool can_map_bytes() const;
};
// The known model types by name; a model's own .cpp adds itself with a constant.
using MakeModel = std::unique_ptr<const TokenModel> (*)(const ModelSource&);
bool add_model_type(const char* type, MakeModel make);
// Makes the model of the source's "type"; a file older than that key is BPE.
// Throws Error that names the place, the unknown type and the known ones.
std::unique_ptr<const TokenModel> make_model(const ModelSource& source);

// Makes the byte-pair model of a vocab.json and a merges.txt. The merges are read by the first
// text: they are more than half of the work, and many commands never come so far.
struct BpeFiles {
  std::string_view vocab;  // its bytes, in a buffer that goes on for kJsonPadding
  std::shared_ptr<const PaddedFile> merges;
  std::string vocab_name;  // for messages
  std::string merges_name;
};
std::unique_ptr<const TokenModel> make_bpe_model(const BpeFiles& files, bool maps_bytes);

}  // namespace xrun
