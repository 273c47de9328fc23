#pragma once
// Random-init Hugging Face folders: small models for tests, examples and first steps.

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>

namespace xrun {

struct InitOptions {
  int64_t layers = 2, hidden = 64, heads = 4, kv_heads = 2, ffn = 128, vocab = 256;
  int64_t max_length = 2048;
  bool tied = true;
  double rope_theta = 10000.0;
  double scale = 0.02;  // standard deviation of matrices; norms are one
  uint64_t seed = 0;
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::filesystem::path tokenizer = {};  // folder whose tokenizer files are copied; empty: none
};

// Writes a Llama folder: config.json, generation_config.json, model.safetensors, and the
// tokenizer's files. The weights are a pure function of the options. Throws Error if the shapes do
// not fit each other, the tokenizer has more ids than `vocab`, or `out` holds a model already.
void init_model(const std::filesystem::path& out, const InitOptions& options);

}  // namespace xrun
