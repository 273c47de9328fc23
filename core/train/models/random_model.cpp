// $XRUN_CACHE/models/random-HASH holds the model whose init_digest begins with HASH: the name
// follows from the contents, so a folder is never out of date.

#include "core/train/models/random_model.h"

#include <fmt/core.h>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/file_access.h"
#include "core/base/file_lock.h"
#include "core/base/folder.h"
#include "core/base/interrupt.h"
#include "core/base/temporary_dir.h"
#include "core/model/weights/adapter_files.h"
#include "core/text/chat/bytes_tokenizer.h"
#include "core/text/tokenizer/tokenizer.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

constexpr const char* kBytes = "bytes";
constexpr size_t kNameDigits = 16;  // of the digest, in the folder's name

// The folder of a tokenizer's files. One that is written here lives as long as this object.
class TokenizerFolder {
 public:
  TokenizerFolder(const std::string& name, const Notice& notice, const char* what) {
    if (name.empty()) return;
    // A folder of that name wins.
    if (name == kBytes && !is_folder(name)) {
      write_bytes_tokenizer(bytes_.emplace("bytes").path());
      path_ = bytes_->path();
      return;
    }
    const fs::path dir = resolve_model(name, notice, what);
    path_ = is_adapter(dir) ? resolve_base_model(dir, notice) : dir;
  }

  const fs::path& path() const { return path_; }  // "": there is none

 private:
  std::optional<TemporaryDir> bytes_;
  fs::path path_;
};

void set_sizes(InitOptions& o, const RandomModel& model) {
  if (model.hidden) {
    o.hidden = *model.hidden;
    // 8/3 of the width, as in LLaMA (Touvron et al. 2023), rounded up to a multiple of 16.
    o.ffn = o.family == "gpt2" ? 4 * o.hidden : (o.hidden * 8 / 3 + 15) / 16 * 16;
  }
  o.layers = model.layers.value_or(o.layers);
  o.heads = model.heads.value_or(o.heads);
  // The preset's kv_heads may not divide another number of heads.
  o.kv_heads = model.kv_heads.value_or(model.heads ? o.heads : o.kv_heads);
  o.ffn = model.ffn.value_or(o.ffn);
  o.max_length = model.max_length.value_or(o.max_length);
  o.vocab = model.vocab.value_or(o.vocab);
}

void set_tokenizer(InitOptions& o, const RandomModel& model, const fs::path& folder) {
  const auto tokenizer = Tokenizer::load(folder);
  o.tokenizer = folder;
  o.vocab = model.vocab.value_or(tokenizer->vocab_size());
  if (tokenizer->vocab_size() > o.vocab) {
    throw UsageError(
        fmt::format("{}: the tokenizer has {} ids, a vocabulary of {} cannot hold them; leave "
                    "vocab out or use at least {}",
                    model.tokenizer, tokenizer->vocab_size(), o.vocab, tokenizer->vocab_size()));
  }
  // -1: config.json has no such id.
  o.bos_id = tokenizer->bos_id().value_or(-1);
  o.eos_id = tokenizer->eos_id().value_or(-1);
  o.pad_id = tokenizer->pad_id().value_or(-1);
}

InitOptions options_of(const RandomModel& model, const fs::path& tokenizer) {
  InitOptions o = init_preset(model.preset);
  set_sizes(o, model);
  o.tied = model.tied;
  o.seed = model.seed;
  o.dtype = model.dtype;
  if (!tokenizer.empty()) set_tokenizer(o, model, tokenizer);
  try {
    check_init_options(o);
  } catch (const Error& error) {
    // Sizes come from the command line or the recipe, so a bad one is the user's to fix.
    throw UsageError(error.what());
  }
  return o;
}

std::optional<int64_t> size_of(const Json& table, const char* name) {
  const Json* value = table.find(name);
  return value == nullptr ? std::nullopt : std::optional(value->as_int());
}

bool is_made(const fs::path& folder) { return path_exists(folder / "config.json"); }

}  // namespace

RandomModel random_model_of(const Json& table, uint64_t seed) {
  RandomModel model;
  model.preset = table.at("preset").as_string();
  model.layers = size_of(table, "layers");
  model.hidden = size_of(table, "hidden");
  model.heads = size_of(table, "heads");
  model.kv_heads = size_of(table, "kv_heads");
  model.ffn = size_of(table, "ffn");
  model.vocab = size_of(table, "vocab");
  model.max_length = size_of(table, "max_length");
  model.tied = table.at("tied").as_bool();
  if (const Json* tokenizer = table.find("tokenizer")) model.tokenizer = tokenizer->as_string();
  model.seed = seed;
  return model;
}

void write_random_model(const RandomModel& model, const fs::path& out, const Notice& notice) {
  const TokenizerFolder tokenizer(model.tokenizer, notice, "tokenizer");
  init_model(out, options_of(model, tokenizer.path()));
}

fs::path cached_random_model(const RandomModel& model, const Notice& notice) {
  const TokenizerFolder tokenizer(model.tokenizer, notice, "model.tokenizer");
  const InitOptions options = options_of(model, tokenizer.path());
  const std::string name = "random-" + init_digest(options).substr(0, kNameDigits);
  const fs::path known = cache_root() / "models" / name;
  if (is_made(known)) return known;
  // A recipe that is not trusted can read the models of the user's cache, but not add one.
  const fs::path models = cache_root() / (file_access_limited() ? "made_models" : "models");
  const fs::path folder = models / name;
  if (is_made(folder)) return folder;
  make_dirs(models);
  const FileLock lock(models / (name + ".lock"), true, check_interrupt);
  // The process that held the lock may have made it.
  if (is_made(folder)) return folder;
  if (notice) notice("making a model of random weights in " + folder.string() + ", once");
  init_model(folder, options);
  return folder;
}

}  // namespace xrun
