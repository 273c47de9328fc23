#pragma once
// Turns text into token ids and back, exactly as Hugging Face's `tokenizers` does.

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

#include "core/base/strings.h"
#include "core/text/tokenizer/safe_split.h"

namespace xrun {

// Strings by name, in order.
using NamedTexts = std::vector<std::pair<std::string, std::string>>;
// Returns the string of a name, or nullptr.
const std::string* find_text(const NamedTexts& texts, std::string_view name);

// Token ids and the byte range of each token. A token that holds part of a character has exactly
// its bytes; a token added by the post-processor has an empty range.
struct Encoding {
  std::vector<int32_t> ids;
  std::vector<ByteRange> offsets;
  uint32_t replaced = 0;  // bytes of the text that were not UTF-8 and were read as U+FFFD
};

// By default no special token matches: text that spells one stays plain.
struct EncodeOptions {
  bool all_special = false;               // they match anywhere, as in Hugging Face
  std::span<const ByteRange> special_ok;  // they match inside these sorted ranges; adjacent ranges
                                          // count as one
  bool add_post_processor = false;        // add the post-processor's tokens (BOS, EOS)
};

// The tokenizer of one model folder. Immutable and thread-safe once loaded. Added tokens that are
// not special match in any text.
class Tokenizer {
 public:
  // Loads tokenizer.json, else vocab.json + merges.txt (tokenizer_class in tokenizer_config.json
  // selects the pre-tokenizer), else tokenizer.model. Throws Error naming file and key if the
  // folder has none of them, if a file is malformed, or if it names an unknown component. The first
  // text, or finish_loading(), reads merges.txt.
  static std::shared_ptr<const Tokenizer> load(const std::filesystem::path& dir);
  // Reads the files that load() left for the first text, so that a damaged one is reported before
  // the data is read. Throws Error as load() does.
  void finish_loading() const;
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Returns the tokens of `text`; an empty text gives none (but see add_post_processor). Bytes that
  // are not UTF-8 are read as U+FFFD, one for each maximal invalid piece, and keep their offsets.
  // Throws Error if the text is 4 GiB or longer, Interrupted between parts of a long one.
  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;

  // encode() for long texts whose tokens need not be in memory together: passes the tokens of one
  // part after the other to `take`, which is called at least once. If the text is UTF-8 and has
  // safe split points (safe_split.h) for this tokenizer, working memory follows part_bytes.
  // Hand-written splitters, Metaspace, WordPiece and BPE over marked spaces (some tokenizer.models
  // included) have them; PCRE2's regexes, Precompiled and other tokenizer.models do not. A longer
  // stretch without them is processed at once, as in encode(). Offsets are those of the whole text.
  // Returns the sum of `replaced`, which is 0 in each part. Throws like encode(), and whatever
  // `take` throws.
  using TakeTokens = std::function<void(Encoding&& part)>;
  static constexpr size_t kPartBytes = size_t{1} << 18;
  uint32_t encode_parts(std::string_view text, const EncodeOptions& options, const TakeTokens& take,
                        size_t part_bytes = kPartBytes) const;
  // Returns the kinds of split points that encode_parts() uses.
  SplitKinds safe_splits() const;
  // Returns the longest stretch without a split point, in bytes, that takes at most some 600 MB of
  // working memory.
  size_t max_stretch() const;

  // Returns the text of `ids`; skip_special leaves special tokens out. Bytes that do not make up
  // characters become U+FFFD. An id without a piece, even beyond vocab_size(), gives nothing: a
  // model's embedding may have more rows. Throws Error if an id is negative.
  std::string decode(std::span<const int32_t> ids, bool skip_special = false) const;

  // Returns the largest id + 1, added tokens included.
  int64_t vocab_size() const;
  // Returns the id of a piece as the vocabulary spells it (a byte-level "Ġthe", an added "<s>").
  std::optional<int32_t> id_of(std::string_view piece) const;
  // Returns the spelling of an id, "" for an id without a piece. Valid as long as the tokenizer.
  std::string_view piece(int32_t id) const;
  bool is_special(int32_t id) const;

  // The named tokens of tokenizer_config.json, special_tokens_map.json or config.json, in this
  // order; nullopt or "" if the folder names none.
  std::optional<int32_t> bos_id() const;
  std::optional<int32_t> eos_id() const;
  std::optional<int32_t> pad_id() const;
  const std::string& unk_token() const;

  // Returns the special tokens by the names that templates know them by: bos_token, eos_token,
  // image_token, ... as the tokenizer's files name them.
  const NamedTexts& named_tokens() const;

  // Returns the chat templates of the folder's files or, if there are none, those of
  // tokenizer_config.json (tokenizer_folder.h). A template without a name is "default".
  const NamedTexts& chat_templates() const;
  // Returns a hash over the names and bytes of the files that define ids and special tokens (not
  // the chat template), and over an EOS that only config.json names: 32 hexadecimal digits.
  const std::string& digest() const;
  // Returns a sentence for the user if transformers would number added tokens otherwise, else "".
  const std::string& notice() const;
  // Returns the ids that the post-processor puts before a text: usually none, or the BOS.
  std::vector<int32_t> leading_bos() const;

  // The stages and tables, for code that describes a tokenizer (token_bytes.h).
  struct State;  // tokenizer_pipeline.h
  const State& state() const { return *state_; }

 private:
  friend class DecodeStream;
  explicit Tokenizer(std::unique_ptr<const State> state);
  std::unique_ptr<const State> state_;
};

// Throws Error that names `dir` if the tokenizer has more ids than the model's embedding has rows.
void check_vocabulary_fits(const std::filesystem::path& dir, const Tokenizer& tokenizer,
                           int64_t rows);

}  // namespace xrun
