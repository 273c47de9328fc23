// The wire format: a message is a sequence of fields, each a varint of number * 8 + kind, then a
// varint (kind 0), eight bytes (1), a varint size and that many bytes (2), or four bytes (5).

#include "core/text/tokenizer/sentencepiece_file.h"

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/text/tokenizer/charsmap.h"
#include "core/text/tokenizer/vocabulary.h"

namespace xrun {

namespace {

struct ProtoField {
  uint64_t number = 0;
  uint64_t value = 0;      // of a varint
  std::string_view bytes;  // of a field with a size
  size_t at = 0;           // offset of the value, after a size
  bool is_varint = false;
};

class ProtoReader {
 public:
  ProtoReader(std::string_view message, const std::string& where)
      : message_(message), where_(where) {}

  bool next(ProtoField& field) {
    if (at_ == message_.size()) return false;
    const uint64_t tag = varint();
    field = {};
    field.number = tag >> 3;
    field.at = at_;
    field.is_varint = (tag & 7) == 0;
    // Wire types: 0 varint, 1 fixed64, 2 length-delimited, 5 fixed32.
    switch (tag & 7) {
      case 0: field.value = varint(); break;
      case 1: skip(8); break;
      case 2:
        field.bytes = sized();
        field.at = at_ - field.bytes.size();
        break;
      case 5: skip(4); break;
      default: fail();
    }
    return true;
  }

 private:
  [[noreturn]] void fail() const {
    throw Error(
        fmt::format("{}: this is not a SentencePiece model, or it is damaged (at byte {} of "
                    "{})",
                    where_, at_, message_.size()));
  }
  // Seven bits per byte, the lowest first; the high bit says that another byte follows.
  uint64_t varint() {
    uint64_t value = 0;
    // Ten bytes at most; a longer varint is damaged.
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ == message_.size()) fail();
      const auto byte = static_cast<unsigned char>(message_[at_++]);
      value |= uint64_t(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    fail();
  }
  void skip(uint64_t size) {
    // Compared so that no sum overflows.
    if (size > message_.size() - at_) fail();
    at_ += size;
  }
  std::string_view sized() {
    const uint64_t size = varint();
    const size_t begin = at_;
    skip(size);
    return message_.substr(begin, size);
  }

  std::string_view message_;
  const std::string& where_;
  size_t at_ = 0;
};

SentencePiece read_piece(std::string_view message, size_t begin, const std::string& where) {
  SentencePiece piece;
  ProtoReader reader(message, where);
  for (ProtoField field; reader.next(field);) {
    // 1 piece, 2 score, 3 type
    if (field.number == 1) piece.piece = field.bytes;
    if (field.number != 3) continue;
    XRUN_CHECK(field.is_varint && field.value >= 1 && field.value <= 6,
               "{}: a piece is of the unknown kind {}", where, field.value);
    piece.kind = PieceKind(field.value);
    // The loader overwrites the kind of hidden pieces there.
    piece.kind_at = begin + field.at;
  }
  XRUN_CHECK(!piece.piece.empty() && is_valid_utf8(piece.piece) &&
                 piece.piece.find('\0') == std::string_view::npos,
             "{}: a piece is empty or not text", where);
  return piece;
}

void check_charsmap(std::string_view bytes, const std::string& where) {
  if (bytes.empty()) return;
  XRUN_CHECK(Charsmap(bytes, where).is_sound(), "{}: the normalization table points outside itself",
             where);
}

// Settings that decide whether a text may be cut at spaces.
struct SplitRules {
  bool is_bpe = false;
  bool has_charsmap = false;
};

void read_trainer(std::string_view message, const std::string& where, SplitRules& rules) {
  constexpr uint64_t kBpe = 2;
  ProtoReader reader(message, where);
  for (ProtoField field; reader.next(field);) {
    // model_type; Unigram, its default, is 1.
    if (field.number == 3) rules.is_bpe = field.value == kBpe;
    // treat_whitespace_as_suffix
    XRUN_CHECK(field.number != 24 || field.value == 0,
               "{}: treat_whitespace_as_suffix is not supported", where);
  }
}

void read_normalizer(std::string_view message, const std::string& where, SentencePieceFile& out,
                     SplitRules& rules) {
  ProtoReader reader(message, where);
  for (ProtoField field; reader.next(field);) {
    if (field.number == 2) {
      check_charsmap(field.bytes, where + ": precompiled_charsmap");
      rules.has_charsmap = !field.bytes.empty();
    }
    // Later fields of a number replace earlier ones, as protobuf merges them.
    if (field.number == 3) out.add_dummy_prefix = field.value != 0;
    if (field.number == 4) out.remove_extra_whitespaces = field.value != 0;
    XRUN_CHECK(field.number != 5 || field.value != 0,
               "{}: a model without escape_whitespaces is not supported", where);
  }
}

void check_denormalizer(std::string_view message, const std::string& where) {
  ProtoReader reader(message, where);
  for (ProtoField field; reader.next(field);) {
    XRUN_CHECK(field.number != 2 || field.bytes.empty(),
               "{}: a denormalization table is not supported", where);
  }
}

// Leading marks are the space before a word; any other mark is inside the piece.
bool has_inner_space(std::string_view piece) {
  constexpr std::string_view kMark = "\u2581";
  size_t at = 0;
  while (piece.compare(at, kMark.size(), kMark) == 0) at += kMark.size();
  return piece.find(kMark, at) != std::string_view::npos ||
         piece.find(' ') != std::string_view::npos;
}

// A space that is not a piece would be unknown, and would fuse with an unknown character before it.
bool cuts_at_spaces(const SentencePieceFile& file, const SplitRules& rules) {
  if (!rules.is_bpe || rules.has_charsmap || file.remove_extra_whitespaces) return false;
  bool has_space = false;
  for (const SentencePiece& piece : file.pieces) {
    if (has_inner_space(piece.piece)) return false;
    has_space = has_space || (piece.piece == "\u2581" && piece.kind == PieceKind::kNormal);
  }
  return has_space;
}

}  // namespace

SentencePieceFile read_sentencepiece_file(std::string_view bytes, const std::string& where) {
  SentencePieceFile out;
  SplitRules rules;
  ProtoReader reader(bytes, where);
  for (ProtoField field; reader.next(field);) {
    // ModelProto: 1 pieces, 2 trainer_spec, 3 normalizer_spec, 5 denormalizer_spec
    switch (field.number) {
      case 1: out.pieces.push_back(read_piece(field.bytes, field.at, where)); break;
      case 2: read_trainer(field.bytes, where, rules); break;
      case 3: read_normalizer(field.bytes, where, out, rules); break;
      case 5: check_denormalizer(field.bytes, where); break;
      default: break;
    }
  }
  XRUN_CHECK(!out.pieces.empty(), "{}: this is not a SentencePiece model: it has no pieces", where);
  XRUN_CHECK(int64_t(out.pieces.size()) <= Vocabulary::kMaxId, "{}: {} pieces are too many", where,
             out.pieces.size());
  out.normalizes = rules.has_charsmap || out.remove_extra_whitespaces;
  out.cuts_at_spaces = cuts_at_spaces(out, rules);
  return out;
}

}  // namespace xrun
