#pragma once
// A tokenizer.model as model, decoder and whole pipeline; the sentencepiece library runs the model.

#include <memory>
#include <string>
#include <unordered_set>

#include "core/text/tokenizer/sentencepiece_file.h"
#include "core/text/tokenizer/tokenizer_folder.h"
#include "core/text/tokenizer/tokenizer_pipeline.h"

namespace xrun {

struct SentencePieceOptions {
  std::string where;  // the path, for messages
  // Pieces of the chat format that text must not become, whatever their kind in the file.
  std::unordered_set<std::string> special;
  // Put a leading space before text that does not begin the input, too.
  bool prefix_everywhere = true;
};

// Makes the model. Offsets are bytes of the text before the library's normalization; a byte token
// covers its byte if the text contains the character unchanged, else the whole character.
// Throws Error if the library rejects the bytes.
std::unique_ptr<const TokenModel> make_sentencepiece_model(std::string bytes,
                                                           const SentencePieceOptions& options);

// Makes the decoder: U+2581 becomes a space, a leading one disappears, byte tokens become their
// text.
std::unique_ptr<const TokenDecoder> make_sentencepiece_decoder(const SentencePieceFile& file);

// Reads the tokenizer.model of a folder. Control and unknown pieces become special tokens,
// user-defined ones added tokens; bos, eos, unk and pad come from the settings, else from the
// class. The tokens around a text follow add_bos_token and add_eos_token of tokenizer_config.json,
// else the tokenizer_class. `legacy` false: only text that begins the input gets the leading space.
// Throws Error naming the file.
TokenizerPipeline read_sentencepiece_folder(const std::filesystem::path& dir,
                                            FolderSettings& settings);

}  // namespace xrun
