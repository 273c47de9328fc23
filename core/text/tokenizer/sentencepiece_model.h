#pragma once
// The pipeline of a tokenizer.model, whose model the sentencepiece library runs.

#include <filesystem>

#include "core/text/tokenizer/tokenizer_folder.h"
#include "core/text/tokenizer/tokenizer_pipeline.h"

namespace xrun {

// Reads the tokenizer.model of a folder. Control and unknown pieces become special tokens,
// user-defined ones added tokens; bos, eos, unk and pad come from the settings, else from the
// class. The tokens around a text follow add_bos_token and add_eos_token of tokenizer_config.json,
// else the tokenizer_class. `legacy` false: only text that begins the input gets the leading space.
// Decoding turns U+2581 into a space, without a leading one, and byte tokens into their text.
// Throws Error naming the file.
TokenizerPipeline read_sentencepiece_folder(const std::filesystem::path& dir,
                                            FolderSettings& settings);

}  // namespace xrun
