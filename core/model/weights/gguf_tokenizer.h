#pragma once
// The tokenizer that a GGUF file carries, as the files of a Hugging Face folder.

#include "core/base/json.h"

namespace xrun {

class GgufFile;

struct TokenizerFiles {
  Json tokenizer;            // tokenizer.json
  Json config;               // tokenizer_config.json
  Json::Object special_ids;  // bos_token_id, eos_token_id, pad_token_id, if present
  int64_t vocab = 0;         // number of tokens
};

// Reads a byte-level BPE tokenizer (tokenizer.ggml.model "gpt2") whose pre-tokenizer is one of
// "gpt-2", "smollm", "llama-bpe", "qwen2". Control tokens become special added tokens,
// user-defined ones added tokens; the chat template is included. Throws Error that names the file
// and the key for anything else: another model or pre-tokenizer, arrays of unequal length, a
// repeated token, a merge of unknown tokens, an id outside the vocabulary.
TokenizerFiles tokenizer_from_gguf(const GgufFile& file, int64_t max_length);

}  // namespace xrun
