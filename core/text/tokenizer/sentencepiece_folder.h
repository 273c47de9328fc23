#pragma once
// Folders whose tokenizer is a tokenizer.model.

#include "core/text/tokenizer/tokenizer_folder.h"
#include "core/text/tokenizer/tokenizer_pipeline.h"

namespace xrun {

// Reads the tokenizer.model of a folder. Its control and unknown pieces become special tokens, its
// user-defined ones added tokens; bos, eos, unk and pad are those of the settings, else its own.
// The tokens around a text are those of add_bos_token and add_eos_token of tokenizer_config.json;
// without these, of the tokenizer_class. `legacy` false: only a text that begins the input gets
// the leading space. Throws Error naming the file.
TokenizerPipeline read_sentencepiece_folder(const std::filesystem::path& dir,
                                            FolderSettings& settings);

}  // namespace xrun
