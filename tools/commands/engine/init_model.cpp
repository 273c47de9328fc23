// xrun init-model writes a model folder with random weights.

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <string>

#include "core/train/models/random_model.h"
#include "tools/commands/command_line.h"
#include "tools/commands/engine/engine_commands.h"
#include "tools/commands/engine/model_arguments.h"

namespace xrun {

namespace {

struct InitArguments {
  std::string out, dtype = "fp32";
  RandomModel model;
  bool tied = false, untied = false;
};

}  // namespace

int command_init_model(int argc, char** argv) {
  CLI::App app("Writes a model folder with random weights, which depend only on the options",
               "xrun init-model");
  InitArguments a;
  app.add_option("OUT", a.out, "the folder to create")->required();
  app.add_option(
         "--preset", a.model.preset,
         "tiny (4 layers, 256 wide) or mid (8 layers, 512 wide), both Llama; moe-1, moe-8 or "
         "moe-64 (Qwen3-MoE with as many experts); gpt2-tiny")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--tokenizer", a.model.tokenizer,
                 "folder to copy the tokenizer from, a name from `xrun models`, or `bytes`: one "
                 "token per byte, with ChatML")
      ->type_name("DIR");
  app.add_option("--layers", a.model.layers, "number of layers")->check(whole_number(1));
  app.add_option("--hidden", a.model.hidden, "width")->check(whole_number(1));
  app.add_option("--heads", a.model.heads, "query heads")->check(whole_number(1));
  app.add_option("--kv-heads", a.model.kv_heads, "key and value heads")->check(whole_number(1));
  app.add_option("--ffn", a.model.ffn, "width of the feed-forward")->check(whole_number(1));
  app.add_option("--vocab", a.model.vocab, "vocabulary size; by default the tokenizer's")
      ->check(whole_number(1));
  app.add_option("--max-length", a.model.max_length, "positions")->check(whole_number(1));
  app.add_flag("--tied", a.tied, "the head is the embedding (the default)");
  app.add_flag("--untied", a.untied, "the head has separate weights")->excludes("--tied");
  app.add_option("--seed", a.model.seed, "seed of the weights")
      ->check(whole_number(0))
      ->capture_default_str();
  app.add_option("--dtype", a.dtype, "fp32, bf16 or fp16")
      ->type_name("TYPE")
      ->capture_default_str();
  if (const auto status = parse_command_line(app, argc, argv)) return *status;
  a.model.tied = !a.untied;
  a.model.dtype = *option_type(a.dtype);
  write_random_model(a.model, a.out, [](const std::string& line) {
    error_console().print_escaped("xrun: " + line);
  });
  fmt::print("{}\n", a.out);
  return 0;
}

}  // namespace xrun
