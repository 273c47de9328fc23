// xrun init-model: a model folder with random weights.

#include "core/model/weights/init_model.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "core/base/error.h"
#include "core/base/folder.h"
#include "core/text/chat/bytes_tokenizer.h"
#include "core/text/tokenizer/tokenizer.h"
#include "tools/commands/command_line.h"
#include "tools/commands/engine/engine_commands.h"
#include "tools/commands/engine/model_arguments.h"

namespace xrun {

namespace {

struct InitArguments {
  std::string out, preset = "tiny", tokenizer, dtype = "fp32";
  std::optional<int64_t> layers, hidden, heads, kv_heads, ffn, vocab, max_length;
  bool tied = false, untied = false;
  uint64_t seed = 0;
};

constexpr const char* kBytes = "bytes";  // a tokenizer that we write; a folder of that name wins

// Returns the preset with the given options; dependent sizes follow. `folder` is the tokenizer's,
// or "".
InitOptions options_of(const InitArguments& a, const std::filesystem::path& folder) {
  InitOptions o = init_preset(a.preset);
  if (a.hidden) {
    o.hidden = *a.hidden;
    // 8/3 of the width, as in LLaMA (Touvron et al. 2023), rounded up to a multiple of 16.
    o.ffn = o.family == "gpt2" ? 4 * o.hidden : (o.hidden * 8 / 3 + 15) / 16 * 16;
  }
  o.layers = a.layers.value_or(o.layers);
  o.heads = a.heads.value_or(o.heads);
  // The preset's kv_heads may not divide another number of heads.
  o.kv_heads = a.kv_heads.value_or(a.heads ? o.heads : o.kv_heads);
  o.ffn = a.ffn.value_or(o.ffn);
  o.max_length = a.max_length.value_or(o.max_length);
  o.vocab = a.vocab.value_or(o.vocab);
  o.tied = !a.untied;
  o.seed = a.seed;
  o.dtype = *option_type(a.dtype);
  if (folder.empty()) return o;
  const auto tokenizer = Tokenizer::load(folder);
  o.tokenizer = folder;
  o.vocab = a.vocab.value_or(tokenizer->vocab_size());
  if (tokenizer->vocab_size() > o.vocab) {
    throw UsageError(
        fmt::format("{}: the tokenizer has {} ids, --vocab {} cannot hold them; leave it out or "
                    "use at least {}",
                    a.tokenizer, tokenizer->vocab_size(), o.vocab, tokenizer->vocab_size()));
  }
  o.bos_id = tokenizer->bos_id().value_or(-1);
  o.eos_id = tokenizer->eos_id().value_or(-1);
  o.pad_id = tokenizer->pad_id().value_or(-1);
  return o;
}

}  // namespace

int command_init_model(int argc, char** argv) {
  CLI::App app("Writes a model folder with random weights, which depend only on the options",
               "xrun init-model");
  InitArguments a;
  app.add_option("OUT", a.out, "the folder to create")->required();
  app.add_option(
         "--preset", a.preset,
         "tiny (4 layers, 256 wide) or mid (8 layers, 512 wide), both Llama; moe-1, moe-8 or "
         "moe-64 (Qwen3-MoE with as many experts); gpt2-tiny")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--tokenizer", a.tokenizer,
                 "folder to copy the tokenizer from, a name from `xrun models`, or `bytes`: one "
                 "token per byte, with ChatML")
      ->type_name("DIR");
  app.add_option("--layers", a.layers, "number of layers")->check(whole_number(1));
  app.add_option("--hidden", a.hidden, "width")->check(whole_number(1));
  app.add_option("--heads", a.heads, "query heads")->check(whole_number(1));
  app.add_option("--kv-heads", a.kv_heads, "key and value heads")->check(whole_number(1));
  app.add_option("--ffn", a.ffn, "width of the feed-forward")->check(whole_number(1));
  app.add_option("--vocab", a.vocab, "vocabulary size; by default the tokenizer's")
      ->check(whole_number(1));
  app.add_option("--max-length", a.max_length, "positions")->check(whole_number(1));
  app.add_flag("--tied", a.tied, "the head is the embedding (the default)");
  app.add_flag("--untied", a.untied, "the head has separate weights")->excludes("--tied");
  app.add_option("--seed", a.seed, "seed of the weights")
      ->check(whole_number(0))
      ->capture_default_str();
  app.add_option("--dtype", a.dtype, "fp32, bf16 or fp16")
      ->type_name("TYPE")
      ->capture_default_str();
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  std::optional<TemporaryDir> bytes;
  std::filesystem::path folder = a.tokenizer;
  if (a.tokenizer == kBytes && !std::filesystem::is_directory(folder)) {
    write_bytes_tokenizer(bytes.emplace("bytes").path());
    folder = bytes->path();
  } else if (!a.tokenizer.empty()) {
    folder = named_model_folder(a.tokenizer).base;
  }
  const InitOptions options = options_of(a, folder);
  from_option([&] { check_init_options(options); });
  init_model(a.out, options);
  fmt::print("{}\n", a.out);
  return 0;
}

}  // namespace xrun
