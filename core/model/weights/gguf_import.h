#pragma once
// A llama-architecture GGUF file as a Hugging Face folder.

#include <cstdint>
#include <filesystem>

namespace xrun {

struct GgufImport {
  int64_t tensors = 0;     // written to model.safetensors
  int64_t parameters = 0;  // in all of them
  int64_t vocab = 0;       // tokens
};

// Writes config.json, generation_config.json, model.safetensors (fp32, the rows of q and k in
// Hugging Face's half-split order), tokenizer.json and tokenizer_config.json. `out` appears whole
// or not at all. Throws Error that names the file if it is damaged or not supported (another
// architecture, experts, rope scaling, missing, unexpected or misshapen tensors), and if `out`
// exists and is not an empty folder.
GgufImport import_gguf(const std::filesystem::path& file, const std::filesystem::path& out);

}  // namespace xrun
