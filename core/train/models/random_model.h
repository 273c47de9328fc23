#pragma once
// Models of random weights, as a recipe's `model = { ... }` and `xrun init-model` describe them.

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "core/base/json.h"
#include "core/model/weights/init_model.h"
#include "core/model/weights/model_registry.h"

namespace xrun {

struct RandomModel {
  std::string preset = "tiny";  // of init_preset
  // Sizes that are left out are the preset's; but ffn follows a given width, kv_heads a given
  // number of heads, and vocab the tokenizer.
  std::optional<int64_t> layers, hidden, heads, kv_heads, ffn, vocab, max_length;
  bool tied = true;
  // A folder, a name that resolve_model takes, or "bytes", one token per byte with ChatML, unless a
  // folder has that name; "": none.
  std::string tokenizer = {};
  uint64_t seed = 0;
  c10::ScalarType dtype = c10::ScalarType::Float;
};

// Returns the model of the table `model` in a configuration, whose fields have been checked and
// have their defaults.
RandomModel random_model_of(const Json& table, uint64_t seed);

// Writes the model's folder (init_model). Throws UsageError if the sizes do not fit each other or
// the tokenizer, Error if the folder cannot be written.
void write_random_model(const RandomModel& model, const std::filesystem::path& out,
                        const Notice& notice = {});

// Returns the model's folder in the user's cache, named by a hash of its sizes, its seed and its
// tokenizer's files. The first call makes it, whole or not at all; of several processes one makes
// it and the others wait. A folder that was removed is made again with the same bytes. Throws as
// write_random_model does.
std::filesystem::path cached_random_model(const RandomModel& model, const Notice& notice = {});

}  // namespace xrun
