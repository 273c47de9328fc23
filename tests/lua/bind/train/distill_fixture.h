#pragma once
// Recipes with a frozen model: a policy in ./tiny, a teacher of its vocabulary in ./teacher, and
// one of another vocabulary.

#include <string>
#include <vector>

#include "tests/lua/bind/session_fixture.h"
#include "tests/lua/bind/train/dry_run.h"
#include "tests/tree.h"

namespace xrun {

class FrozenRuns : public SessionTest {
 protected:
  // A model of another vocabulary in ./other, and one that reads fewer tokens.
  static void make_other() { copy_other("other", 0); }
  static void copy_other(const std::string& to, int64_t max_length) {
    InitOptions options;
    if (max_length > 0) options.max_length = max_length;
    options.hidden = 32;
    options.ffn = 64;
    options.tokenizer = source_path("tests/data/tokenizers/smol");
    options.vocab = Tokenizer::load(options.tokenizer)->vocab_size();
    init_model(to, options);
  }
  static void copy_model(const std::string& to) {
    std::filesystem::copy("tiny", to, std::filesystem::copy_options::recursive);
  }
  static int64_t planned(const std::string& dir, const std::string& kind) {
    return read_json(dir + "/run.json").at("memory").at("planned").at(kind).as_int();
  }
  static std::string replaced(std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  }
  // Returns DPO with `expression` as its reference.
  static std::string dpo_against(const std::string& expression) {
    return replaced(head(), "policy:reference()", expression) +
           "for step, batch in run:steps(train, cfg.batch) do run:log(adamw:step(batch, dpo)) end\n"
           "run:log(run:evaluate(valid, dpo))\n" +
           kExport;
  }
};

class Distillation : public FrozenRuns {
 protected:
  Distillation() {
    InitOptions options;
    options.hidden = 48;
    options.heads = 4;
    options.ffn = 64;
    options.scale = 0.1;
    options.seed = 9;
    options.tokenizer = source_path("tests/data/tiny_tokenizer");
    options.vocab = Tokenizer::load(options.tokenizer)->vocab_size();
    init_model("teacher", options);
    std::string text;
    for (int i = 0; i < 24; ++i) {
      text += "the quick brown fox " + std::to_string(i) + " jumps over the lazy dog\n\n";
    }
    write_file_atomic("text.txt", text);
  }
  // Settings for small models and texts, then others, which win.
  static std::vector<std::string> sets(const std::vector<std::string>& more = {}) {
    std::vector<std::string> all = {"model=tiny",    "teacher=teacher",    "data.1.path=text.txt",
                                    "max_length=32", "batch.tokens=128",   "steps=4",
                                    "valid.every=2", "batch.max_tokens=64"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static std::string recipe() { return read_file(source_path("recipes/distill.lua")); }
};

}  // namespace xrun
