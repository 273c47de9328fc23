#pragma once
// The contents of a tokenizer.model (sentencepiece_model.proto): pieces, their kinds and the
// normalization rules. The file is hostile input, checked here before the library reads it.

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
  size_t kind_at = 0;  // offset of the kind in the file; 0: not given
};

struct SentencePieceFile {
  std::vector<SentencePiece> pieces;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  // True if a table changes characters or extra spaces are removed.
  bool normalizes = true;
  // True if SafeSplit::kSpace is safe: a BPE model that does not normalise and has no piece with a
  // space after another character.
  bool cuts_at_spaces = false;
};

// Reads the bytes, which must outlive the result. Throws Error starting with `where` if they are
// not such a model, if a normalization table points outside itself, or if the model puts spaces
// after words or changes the text when it decodes (both are not supported).
SentencePieceFile read_sentencepiece_file(std::string_view bytes, const std::string& where);

}  // namespace xrun
