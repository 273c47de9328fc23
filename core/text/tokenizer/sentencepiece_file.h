#pragma once
// What stands in a tokenizer.model (sentencepiece_model.proto): pieces, their kinds, the rules of
// normalization. The file is another's: it is checked here before the library reads it.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xrun {

enum class PieceKind : uint8_t {  // the numbers of the format
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

struct SentencePiece {
  std::string_view piece;  // in the file's bytes
  PieceKind kind = PieceKind::kNormal;
  size_t kind_at = 0;  // where the file says the kind; 0: nowhere
};

struct SentencePieceFile {
  std::vector<SentencePiece> pieces;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  // Whether a space border (text_border.h) is one between two tokens, on either side of which they
  // are what that side alone gives: a BPE model that normalises nothing and has no piece with a
  // space behind a character.
  bool cuts_at_spaces = false;
};

// Reads the bytes, which must outlive what is returned. Throws Error that starts with `where` if
// they are no such model, if a table of normalization would be read beyond its end, or if the model
// puts spaces behind words or changes the text when it decodes (both are not supported).
SentencePieceFile read_sentencepiece_file(std::string_view bytes, const std::string& where);

}  // namespace xrun
