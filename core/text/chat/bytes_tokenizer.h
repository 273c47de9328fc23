#pragma once
// A byte-level tokenizer that needs no training: one token per byte, and ChatML's markers.

#include <filesystem>

namespace xrun {

// Writes tokenizer.json and tokenizer_config.json, with the built-in template "chatml", into an
// existing folder. Ids 0 to 255 are the bytes, 256 is <|endoftext|> (padding), 257 <|im_start|>,
// 258 <|im_end|> (EOS). Throws Error if a file cannot be written.
void write_bytes_tokenizer(const std::filesystem::path& dir);

}  // namespace xrun
