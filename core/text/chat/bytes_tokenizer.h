#pragma once
// A tokenizer without a vocabulary to learn: one token a byte, and the marks of ChatML.

#include <filesystem>

namespace xrun {

// Writes tokenizer.json and tokenizer_config.json, whose chat template is our "chatml", into a
// folder that exists. Ids 0 to 255 are the bytes; 256 is <|endoftext|>, which pads; 257 and 258 are
// <|im_start|> and <|im_end|>, which ends a text. Throws Error if a file cannot be written.
void write_bytes_tokenizer(const std::filesystem::path& dir);

}  // namespace xrun
