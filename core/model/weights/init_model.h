#pragma once
// Hugging Face folders with random weights: small models for tests, examples and first steps.

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace xrun {

struct InitOptions {
  std::string family = "llama";  // a model_type that families.cpp lists
  int64_t layers = 2, hidden = 64, heads = 4, kv_heads = 2, ffn = 128, vocab = 256;
  int64_t head_dim = 0;                            // 0: hidden / heads
  int64_t experts = 0, top_k = 0, expert_ffn = 0;  // qwen3_moe
  int64_t max_length = 2048;
  bool tied = true;
  double rope_theta = 10000.0;
  double scale = 0.02;  // standard deviation of matrices; norms are one, biases zero
  uint64_t seed = 0;
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::filesystem::path tokenizer = {};  // folder whose tokenizer files are copied; empty: none
  int64_t bos_id = -1, eos_id = -1, pad_id = -1;  // -1: none
};

// Returns a preset: "tiny" (4 layers, 256 wide) or "mid" (8 layers, 512 wide), with a
// vocabulary of 32,000 and 50,000; "moe-1", "moe-8" and "moe-64", tiny with that many experts;
// "gpt2-tiny". Throws UsageError that lists the presets.
InitOptions init_preset(const std::string& name);

// Throws Error if the shapes do not fit each other, an id is outside the vocabulary, or the
// family is unknown.
void check_init_options(const InitOptions& options);

// Returns a hash of everything that decides a folder's bytes: sizes, type, seed, tokenizer files.
// Throws as init_model does.
std::string init_digest(const InitOptions& options);

// Writes a model folder: config.json, generation_config.json, model.safetensors, and the
// tokenizer's files. The weights are a pure function of the options. The caller checks that the
// tokenizer's ids fit into `vocab`. Throws Error if the shapes do not fit each other, an id
// is outside the vocabulary, or `out` exists and is not empty.
void init_model(const std::filesystem::path& out, const InitOptions& options);

}  // namespace xrun
