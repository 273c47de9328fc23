// The sentencepiece library runs the model, with or without a space before the text; its offsets
// are refined here.

#include "core/text/tokenizer/sentencepiece_model.h"

#include <algorithm>
#include <mutex>
#include <unordered_set>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/utf8.h"
#include "core/text/tokenizer/byte_alphabet.h"
#include "core/text/tokenizer/sentencepiece_file.h"
#include "core/text/tokenizer/sentencepiece_library.h"
#include "core/text/tokenizer/tokenizer_class.h"
#include "core/text/unicode/utf8_cursor.h"

namespace xrun {

namespace {

constexpr std::string_view kMark = "\u2581";

// A tokenizer.model that has been read and checked.
struct SentencePieceSource {
  std::string where;  // the path, for messages
  const SentencePieceFile& file;
  const std::string& bytes;  // for the library; may hide pieces that `file` has
  bool prefix_everywhere;    // put a leading space before text that does not begin the input, too
};

// Offsets are bytes of the text before the library's normalization. A byte token covers its byte if
// the text contains the character unchanged, else the whole character.
class SentencePieceModel : public TokenModel {
 public:
  // Throws Error if the library rejects the bytes.
  SentencePieceModel(const SentencePieceSource& source, Vocabulary vocabulary)
      : where_(source.where),
        encoder_(make_sentencepiece_encoder(source.bytes, where_)),
        adds_prefix_(source.file.add_dummy_prefix),
        prefix_everywhere_(source.prefix_everywhere),
        cuts_at_spaces_(source.file.cuts_at_spaces),
        normalizes_(source.file.normalizes),
        vocabulary_(std::move(vocabulary)) {
    for (const SentencePiece& piece : source.file.pieces) {
      is_byte_.push_back(piece.kind == PieceKind::kByte);
    }
    // For without_prefix().
    if (adds_prefix_) bytes_ = source.bytes;
  }

  void tokenize(std::string_view text, std::span<const ByteRange> pieces,
                std::vector<ModelToken>& out) const override {
    for (const ByteRange piece : pieces) add_tokens(*encoder_, text, piece, out);
  }
  void tokenize_inner(std::string_view text, std::span<const ByteRange> pieces,
                      std::vector<ModelToken>& out) const override {
    const SentencePieceEncoder& encoder = prefix_everywhere_ ? *encoder_ : without_prefix();
    for (const ByteRange piece : pieces) add_tokens(encoder, text, piece, out);
  }
  // Text after a split point gets no space of its own.
  void tokenize_rest(std::string_view text, std::span<const ByteRange> pieces,
                     std::vector<ModelToken>& out) const override {
    for (const ByteRange piece : pieces) add_tokens(without_prefix(), text, piece, out);
  }
  SafeSplit split_after(SafeSplit split) const override {
    return split == SafeSplit::kSpace && cuts_at_spaces_ ? SafeSplit::kPiece : SafeSplit::kNone;
  }
  // The library takes up to 170 bytes of memory for each byte of text, on each thread.
  size_t max_stretch() const override { return size_t{2} << 20; }
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  void describe(TextSpelling& spelling) const override {
    spelling.marks_spaces = true;
    const int64_t bytes = std::count(is_byte_.begin(), is_byte_.end(), true);
    spelling.byte_tokens = bytes > 0;
    // A normalization table may change any character, and an unknown one is lost.
    if (normalizes_ || bytes < 256) spelling.exact = false;
    if (!adds_prefix_) return;
    spelling.add_prefix(PrefixSpace::kAlways,
                        prefix_everywhere_ ? PrefixScope::kSections : PrefixScope::kText);
  }
  // The scores stay in the library.
  bool hash_rules(Hasher&) const override { return false; }

 private:
  // The first text that needs this encoder makes it.
  const SentencePieceEncoder& without_prefix() const {
    if (!adds_prefix_) return *encoder_;
    std::call_once(made_, [this] {
      // Repeated protobuf messages merge: this is normalizer_spec { add_dummy_prefix: false }.
      bare_ = make_sentencepiece_encoder(bytes_ + std::string("\x1a\x02\x18\x00", 4), where_);
    });
    return *bare_;
  }

  void add_tokens(const SentencePieceEncoder& encoder, std::string_view text, ByteRange range,
                  std::vector<ModelToken>& out) const {
    const std::string_view piece = text.substr(range.begin, range.end - range.begin);
    std::vector<SentencePieceToken> tokens;
    const std::string failure = encoder.encode(piece, tokens);
    XRUN_CHECK(failure.empty(), "{}: {}", where_, failure);
    const size_t first = out.size();
    for (const SentencePieceToken& token : tokens) {
      out.push_back({token.id, range.begin + token.begin, range.begin + token.end});
    }
    spread_bytes(text, first, out);
    fill_empty_ranges(first, out);
  }

  // If the normalizer decomposes a character, the library aligns the last token with all of it and
  // the others with nothing. All of them get its range, or a mask would leave them out. A space
  // that the library puts before a text keeps its empty range.
  void fill_empty_ranges(size_t first, std::vector<ModelToken>& out) const {
    for (size_t i = out.size(); i-- > first + 1;) {
      ModelToken& token = out[i - 1];
      const bool is_empty = token.begin == token.end && out[i].begin == token.begin;
      if (is_empty && vocabulary_.piece(token.id) != kMark) token.end = out[i].end;
    }
  }

  // The library aligns only the last byte token of a character; this gives each one its byte.
  void spread_bytes(std::string_view text, size_t first, std::vector<ModelToken>& out) const {
    for (size_t begin = first; begin < out.size();) {
      size_t end = begin + 1;
      if (!is_byte_[size_t(out[begin].id)]) {
        begin = end;
        continue;
      }
      // The first byte gives the number of tokens of the character.
      const uint32_t size = utf8_size(char(spelled_byte(vocabulary_.piece(out[begin].id))));
      while (end < out.size() && end - begin < size && is_byte_[size_t(out[end].id)]) ++end;
      const uint32_t from = out[begin].begin, to = out[end - 1].end;
      // If the tokens do not spell the bytes of their range, the normalizer changed the character,
      // and all of them get the whole range.
      bool exact = to - from == end - begin;
      for (size_t i = begin; i < end && exact; ++i) {
        exact = spelled_byte(vocabulary_.piece(out[i].id)) ==
                static_cast<unsigned char>(text[from + (i - begin)]);
      }
      for (size_t i = begin; i < end; ++i) {
        const auto at = uint32_t(from + (i - begin));
        out[i].begin = exact ? at : from;
        out[i].end = exact ? at + 1 : to;
      }
      begin = end;
    }
  }

  std::string where_;
  std::unique_ptr<const SentencePieceEncoder> encoder_;
  bool adds_prefix_, prefix_everywhere_, cuts_at_spaces_, normalizes_;
  std::string bytes_;  // of the model, for bare_
  mutable std::once_flag made_;
  mutable std::unique_ptr<const SentencePieceEncoder> bare_;  // does not put a space before a text
  Vocabulary vocabulary_;
  std::vector<bool> is_byte_;
};

struct SpaceRules {
  bool strips_first;  // remove a leading mark from the first text
  bool strips_all;    // and all marks after it
};

// Decodes like the library: the first text loses its leading U+2581 (all of them if the model
// removes extra spaces), every other U+2581 becomes a space. A run of byte tokens gives the
// characters that it spells, and U+FFFD for each byte that spells none.
class SentencePieceStage : public DecodeStage {
 public:
  SentencePieceStage(DecodeStage& next, SpaceRules rules, const std::vector<bool>& is_byte)
      : next_(next), rules_(rules), is_byte_(is_byte) {}

  void push(std::string_view token) override {
    const int byte = spelled_byte(token);
    if (byte >= 0 && is_byte_[size_t(byte)]) {
      run_.push_back(char(byte));
      pass_on_characters(false);
      return;
    }
    pass_on_characters(true);
    bool stripped = false;
    // The space that was put before the text is taken away again.
    if (at_begin_ && rules_.strips_first && token.starts_with(kMark)) {
      token.remove_prefix(kMark.size());
      stripped = !rules_.strips_all;
    }
    if (stripped || !token.empty()) at_begin_ = false;
    if (!token.empty()) next_.push(replaced(token, kMark, " "));
  }
  void finish() override {
    pass_on_characters(true);
    next_.finish();
  }

 private:
  // Passes on the complete characters of the run, or all of it if it has ended.
  void pass_on_characters(bool ended) {
    size_t at = 0;
    std::string text;
    while (at < run_.size()) {
      const CodePoint point = read_utf8(run_, at);
      // At most three bytes may wait for the rest of their character.
      if (!point.valid && !ended && run_.size() - at < 4 && may_continue(at)) break;
      append_utf8(text, point.value);
      at += point.size;
    }
    run_.erase(0, at);
    if (text.empty()) return;
    at_begin_ = false;
    next_.push(text);
  }
  // Returns true if more bytes may complete the character of the run at `at`.
  bool may_continue(size_t at) const {
    const auto lead = static_cast<unsigned char>(run_[at]);
    // Lead bytes in UTF-8 (RFC 3629): C2 to DF of two bytes, E0 to EF of three, F0 to F4 of four.
    const size_t size = lead >= 0xF0 && lead <= 0xF4 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC2 ? 2 : 1;
    if (lead > 0xF4 || run_.size() - at >= size) return false;
    for (size_t i = at + 1; i < run_.size(); ++i) {
      if (!is_continuation(run_[i])) return false;
    }
    return true;
  }

  DecodeStage& next_;
  SpaceRules rules_;
  const std::vector<bool>& is_byte_;
  bool at_begin_ = true;
  std::string run_;
};

class SentencePieceDecoder : public TokenDecoder {
 public:
  explicit SentencePieceDecoder(const SentencePieceFile& file)
      : rules_{file.add_dummy_prefix || file.remove_extra_whitespaces,
               file.remove_extra_whitespaces},
        is_byte_(256) {
    for (const SentencePiece& piece : file.pieces) {
      const int byte = piece.kind == PieceKind::kByte ? spelled_byte(piece.piece) : -1;
      if (byte >= 0) is_byte_[size_t(byte)] = true;
    }
  }
  std::unique_ptr<DecodeStage> start(DecoderInput, DecodeStage& next) const override {
    return std::make_unique<SentencePieceStage>(next, rules_, is_byte_);
  }

 private:
  SpaceRules rules_;
  std::vector<bool> is_byte_;  // by byte: it has a token
};

constexpr uint64_t kMaxModelBytes = 256 << 20;  // the largest known file has 16 MB

bool config_flag(const Json& config, const char* key, bool fallback) {
  const Json* value = config.find(key);
  return value != nullptr && value->is_bool() ? value->as_bool() : fallback;
}

std::string class_name(const FolderSettings& settings) {
  const Json* name = settings.tokenizer_config.find("tokenizer_class");
  return name != nullptr && name->is_string() ? name->as_string() : "LlamaTokenizer";
}

AddedToken added_token(const SentencePiece& piece, int32_t id) {
  AddedToken token;
  token.id = id;
  token.content = piece.piece;
  token.special = piece.kind != PieceKind::kUserDefined;
  token.normalized = false;
  return token;
}

void set_surrounding_tokens(const FolderSettings& settings, TokenizerPipeline& pipeline) {
  const std::string name = class_name(settings);
  // The classes of transformers that add a BOS, or an EOS, by default.
  const bool llama_like =
      name.starts_with("Llama") || name.starts_with("CodeLlama") || name.starts_with("Gemma");
  const bool t5_like = name.starts_with("T5") || name.starts_with("MT5");
  pipeline.adds_bos = config_flag(settings.tokenizer_config, "add_bos_token", llama_like);
  pipeline.adds_eos = config_flag(settings.tokenizer_config, "add_eos_token", t5_like);
}

Vocabulary vocabulary_of(const SentencePieceFile& file, const std::string& where) {
  Vocabulary vocabulary;
  size_t bytes = 0;
  for (const SentencePiece& piece : file.pieces) bytes += piece.piece.size();
  vocabulary.reserve(file.pieces.size(), bytes);
  for (size_t id = 0; id < file.pieces.size(); ++id) {
    vocabulary.add(file.pieces[id].piece, int32_t(id));
  }
  vocabulary.finish(where);
  return vocabulary;
}

// The library finds user-defined pieces in any text, control pieces in none. This turns those that
// are also special tokens into control pieces, so that text that spells one stays plain.
void hide_special_pieces(const SentencePieceFile& file, const std::vector<AddedToken>& added,
                         std::string& bytes) {
  std::unordered_set<std::string_view> special;
  for (const AddedToken& token : added) {
    if (token.special) special.insert(token.content);
  }
  for (const SentencePiece& piece : file.pieces) {
    const bool hidden = piece.kind == PieceKind::kUserDefined && special.contains(piece.piece);
    if (hidden) bytes[piece.kind_at] = char(PieceKind::kControl);
  }
}

}  // namespace

TokenizerPipeline read_sentencepiece_folder(const std::filesystem::path& dir,
                                            FolderSettings& settings) {
  const std::string where = (dir / "tokenizer.model").string();
  std::string bytes = read_file(where, kMaxModelBytes);
  settings.hashed.emplace_back("tokenizer.model", hash_hex(bytes));
  const SentencePieceFile file = read_sentencepiece_file(bytes, where);
  Vocabulary vocabulary = vocabulary_of(file, where);
  // An unknown class gets the defaults of Llama, which most models share.
  const std::string name = class_name(settings);
  add_class_roles(settings, class_roles(name).empty() ? "LlamaTokenizer" : name, vocabulary);
  TokenizerPipeline pipeline;
  for (size_t id = 0; id < file.pieces.size(); ++id) {
    const PieceKind kind = file.pieces[id].kind;
    if (kind == PieceKind::kControl || kind == PieceKind::kUnknown ||
        kind == PieceKind::kUserDefined) {
      pipeline.added.push_back(added_token(file.pieces[id], int32_t(id)));
    }
  }
  pipeline.decoder = std::make_unique<SentencePieceDecoder>(file);
  // After the roles of the class, which are special tokens too.
  hide_special_pieces(file, settings.added, bytes);
  // transformers' legacy mode: every stretch between special tokens gets the space, not the first
  // alone.
  const bool legacy = config_flag(settings.tokenizer_config, "legacy", true);
  pipeline.model = std::make_unique<SentencePieceModel>(
      SentencePieceSource{where, file, bytes, legacy}, std::move(vocabulary));
  set_surrounding_tokens(settings, pipeline);
  return pipeline;
}

}  // namespace xrun
