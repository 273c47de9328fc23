#pragma once
// Text to token ids and back, exactly as Hugging Face's `tokenizers` does it, from a model folder.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/byte_range.h"
#include "core/text/tokenizer/text_border.h"

namespace xrun {

// Texts by name, in order.
using NamedTexts = std::vector<std::pair<std::string, std::string>>;
// Returns the text of a name, or nullptr.
const std::string* find_text(const NamedTexts& texts, std::string_view name);

// Token ids and, one for one, the bytes that each token stands for. A token that holds part of a
// character has exactly its bytes; a token that the post-processor added has an empty range.
struct Encoding {
  std::vector<int32_t> ids;
  std::vector<ByteRange> offsets;
  uint32_t replaced = 0;  // bytes of the text that were not UTF-8 and were read as U+FFFD
};

// Where special tokens may come from. By default from nowhere: text that spells one stays plain.
struct EncodeOptions {
  bool all_special = false;               // special tokens may match anywhere, as Hugging Face does
  std::span<const ByteRange> special_ok;  // or only wholly inside these sorted ranges; ranges that
                                          // touch count as one
  bool add_post_processor = false;        // add the post-processor's tokens (BOS, EOS)
};

// A tokenizer of one model folder. Immutable once loaded; every method may be called from any
// number of threads at once. Tokens added to the vocabulary that are not special match in any text.
class Tokenizer {
 public:
  // Loads tokenizer.json, else vocab.json + merges.txt (whose pre-tokenizer is chosen by
  // tokenizer_class in tokenizer_config.json), else tokenizer.model. Throws Error naming file and
  // key if the folder has none of them, if a file is malformed, or if it asks for a component that
  // is not known.
  // The merges of a merges.txt are read by the first text, or by finish_loading().
  static std::shared_ptr<const Tokenizer> load(const std::filesystem::path& dir);
  // Reads what load() left for the first text, so that a damaged file is not met in a row of data.
  // Throws Error as load() does.
  void finish_loading() const;
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Returns the tokens of `text`; an empty text gives none (but see add_post_processor). Bytes that
  // are not UTF-8 are read as U+FFFD, one for each maximal invalid piece, and keep their offsets.
  // Throws Error if the text is 4 GiB or longer, Interrupted behind a part of a long one.
  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;

  // Takes some of a text's tokens; the next call gets those behind them.
  using TakeTokens = std::function<void(Encoding&& part)>;
  static constexpr size_t kPartBytes = size_t{1} << 18;
  // The same tokens, given away while the text is read: for long texts of which only ids are kept.
  // The working memory follows part_bytes instead of the text, as long as the text is UTF-8 and has
  // borders (a single space between letters, or the end of a line) at which the tokenizer's stages
  // can be cut: those of hand-written splitters, Metaspace, WordPiece and BPE over marked spaces (a
  // tokenizer.model included) can; PCRE2's regexes, Precompiled and other tokenizer.models
  // cannot. Otherwise the stretch up to the next border, or all, is worked on at once, as it is in
  // encode(). Offsets are those of the whole text. Calls `take` at least once; `replaced` of a part
  // is 0, the sum is returned. Throws as encode() does, and whatever `take` throws.
  uint32_t encode_parts(std::string_view text, const EncodeOptions& options, const TakeTokens& take,
                        size_t part_bytes = kPartBytes) const;
  // The borders at which encode_parts() cuts, and the longest stretch between two of them, in
  // bytes, that takes less than some 600 MB.
  BorderKinds borders() const;
  size_t max_stretch() const;

  // Returns the text of `ids`; skip_special leaves special tokens out. Bytes that do not make up
  // characters become U+FFFD. An id that no piece has, also one behind vocab_size(), gives nothing:
  // a model's embedding may have more rows. Throws Error if an id is negative.
  std::string decode(std::span<const int32_t> ids, bool skip_special = false) const;

  // Returns the largest id + 1, added tokens included.
  int64_t vocab_size() const;
  // Returns the id of a piece as the vocabulary spells it (a byte-level "Ġthe", an added "<s>").
  std::optional<int32_t> id_of(std::string_view piece) const;
  // Returns the spelling of an id, "" if no piece has it. Valid as long as the tokenizer.
  std::string_view piece(int32_t id) const;
  bool is_special(int32_t id) const;

  // The named tokens of tokenizer_config.json, special_tokens_map.json or config.json, in this
  // order; without a value (or "") if the folder names none.
  std::optional<int32_t> bos_id() const;
  std::optional<int32_t> eos_id() const;
  std::optional<int32_t> pad_id() const;
  const std::string& bos_token() const;
  const std::string& eos_token() const;
  const std::string& pad_token() const;
  const std::string& unk_token() const;

  // Returns the special tokens by the names under which transformers gives them to a template:
  // bos_token, eos_token, image_token, ... as the tokenizer's own files name them.
  const NamedTexts& named_tokens() const;

  // Returns the chat templates of the folder's files or, if there are none, those of
  // tokenizer_config.json (folder_templates.h). What has no name is "default".
  const NamedTexts& chat_templates() const;
  // Returns the one named "default", or "" if there is none.
  const std::string& chat_template() const;
  // Returns a hash over the names and bytes of the files that define ids and special tokens
  // (not the chat template): 32 hexadecimal digits.
  const std::string& digest() const;
  // Returns a sentence for the user where a file's ids are not those that transformers makes of it,
  // else "".
  const std::string& notice() const;
  // Returns the ids that the post-processor puts before a text: usually none, or the BOS.
  std::vector<int32_t> leading_bos() const;

  struct Parts;  // tokenizer_parts.h

 private:
  friend class DecodeStream;
  explicit Tokenizer(std::unique_ptr<const Parts> parts);
  std::unique_ptr<const Parts> parts_;
};

}  // namespace xrun
