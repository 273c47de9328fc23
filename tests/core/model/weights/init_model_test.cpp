// New models are a function of their options; an export loads as the same model.

#include "core/model/weights/init_model.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/file_fault.h"
#include "core/model/model.h"
#include "core/model/weights/export.h"
#include "core/model/weights/safetensors.h"
#include "tests/core/model/load_model.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace xrun::init_model_test {

namespace {

class InitModelTest : public testing::Test {
 protected:
  void TearDown() override { set_file_fault("", 0); }

  std::string init_message(const std::filesystem::path& out, const InitOptions& options) {
    try {
      init_model(out, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  size_t entries() const {
    if (!std::filesystem::exists(root_)) return 0;
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(root_), {}));
  }

  const ScratchFolder scratch_;
  const std::filesystem::path root_ = scratch_.path();
};

}  // namespace

TEST_F(InitModelTest, TheSameOptionsGiveTheSameBytes) {
  init_model(root_ / "a", {.seed = 1});
  init_model(root_ / "b", {.seed = 1});
  init_model(root_ / "c", {.seed = 2});
  for (const char* name : {"config.json", "generation_config.json", "model.safetensors"}) {
    EXPECT_EQ(read_file(root_ / "a" / name), read_file(root_ / "b" / name)) << name;
  }
  EXPECT_NE(read_file(root_ / "a/model.safetensors"), read_file(root_ / "c/model.safetensors"));
}

TEST_F(InitModelTest, AFolderThatCannotBeMadeIsNamedAsGiven) {
  // The temporary name is longer than the given one, and too long.
  const std::filesystem::path out = root_ / std::string(250, 'm');
  EXPECT_EQ(init_message(out, {}),
            out.string() + ": the folder cannot be created: File name too long");
}

TEST_F(InitModelTest, MatricesAreNormalAndNormsAreOne) {
  init_model(root_ / "a", {.vocab = 3000, .scale = 0.05});
  const SafetensorsFile file(root_ / "a/model.safetensors");
  const at::Tensor x = file.read("model.embed_tokens.weight");
  EXPECT_NEAR(x.mean().item<double>(), 0, 5e-4);
  EXPECT_NEAR(x.std().item<double>(), 0.05, 5e-4);
  EXPECT_NEAR((x.abs() < 0.05).to(at::kFloat).mean().item<double>(), 0.6827, 0.005);
  EXPECT_EQ(file.read("model.norm.weight").min().item<double>(), 1);
}

TEST_F(InitModelTest, HonoursTiedHeadsAndTypes) {
  init_model(root_ / "tied", {.tied = true, .dtype = at::kBFloat16});
  init_model(root_ / "untied", {.tied = false});
  EXPECT_FALSE(SafetensorsFile(root_ / "tied/model.safetensors").has("lm_head.weight"));
  EXPECT_TRUE(SafetensorsFile(root_ / "untied/model.safetensors").has("lm_head.weight"));
  EXPECT_EQ(read_model_config(root_ / "tied").dtype, at::kBFloat16);
  EXPECT_FALSE(read_model_config(root_ / "untied").tied);
}

TEST_F(InitModelTest, PresetsOfMixturesAreQwen3Moe) {
  for (const auto& [name, experts, top_k] :
       {std::tuple{"moe-1", 1, 1}, {"moe-8", 8, 2}, {"moe-64", 64, 8}}) {
    InitOptions options = init_preset(name);
    EXPECT_EQ(options.vocab, 32000);
    options.layers = 2;
    options.hidden = 32;
    options.vocab = 50;
    init_model(root_ / name, options);
    const auto model = load_model(root_ / name, at::kFloat, true);
    EXPECT_EQ(model->config().model_type, "qwen3_moe");
    EXPECT_EQ(model->config().moe.experts, experts);
    EXPECT_EQ(model->config().moe.top_k, top_k);
    EXPECT_TRUE(model->config().moe.renormalise && model->config().is_moe(1));
    export_model(model->exported(), root_ / name, root_ / "out");
    EXPECT_EQ(load_model(root_ / "out", at::kFloat, true)->digest(), model->digest());
  }
}

TEST_F(InitModelTest, BiasesAreZeroAndNormsOne) {
  InitOptions options = init_preset("gpt2-tiny");
  options.vocab = 50;
  init_model(root_ / "a", options);
  const SafetensorsFile file(root_ / "a/model.safetensors");
  for (const SafetensorsEntry& e : file.entries()) {
    if (e.shape.size() != 1) continue;
    const double wanted = e.name.ends_with(".bias") ? 0 : 1;
    const at::Tensor x = file.read(e.name);
    EXPECT_EQ(x.min().item<double>(), wanted) << e.name;
    EXPECT_EQ(x.max().item<double>(), wanted) << e.name;
  }
  EXPECT_EQ(load_model(root_ / "a", at::kFloat, false)->config().model_type, "gpt2");
  options.kv_heads = 2;
  EXPECT_EQ(init_message(root_ / "b", options),
            "gpt2 has as many key heads as heads; wanted 4, not 2");
}

TEST_F(InitModelTest, RefusesShapesThatDoNotFitAndNonEmptyFolders) {
  EXPECT_EQ(
      init_message(root_ / "a", {.heads = 4, .kv_heads = 3}),
      "the model's shape: num_attention_heads (4) is not a multiple of num_key_value_heads (3)");
  EXPECT_EQ(init_message(root_ / "a", {.hidden = 34, .heads = 4}),
            "the model's shape: hidden_size (34) is not a multiple of num_attention_heads (4)");
  EXPECT_EQ(init_message(root_ / "a", {.layers = 0}),
            "the model's shape: num_hidden_layers is 0, wanted a positive integer");
  EXPECT_EQ(entries(), 0u);
  init_model(root_ / "a", {});
  EXPECT_EQ(init_message(root_ / "a", {}),
            (root_ / "a").string() +
                ": already exists and is not empty; name another folder or remove it");
}

TEST_F(InitModelTest, AFullDiskLeavesNothingBehind) {
  for (int64_t nth = 1; nth < 4; ++nth) {
    set_file_fault("write", nth);
    EXPECT_NE(init_message(root_ / "a", {}), "no error");
    set_file_fault("", 0);
    EXPECT_EQ(entries(), 0u) << nth;
  }
}

TEST_F(InitModelTest, AnExportIsTheSameModel) {
  init_model(root_ / "a", {.tied = false, .seed = 4});
  write_file_atomic(root_ / "a/tokenizer.json", "{}");
  write_file_atomic(root_ / "a/chat_template.jinja", "hi");
  write_file_atomic(root_ / "a/optimizer.bin", "not for others");
  const auto model = load_model(root_ / "a", at::kFloat, true);
  {
    const at::NoGradGuard no_grad;
    for (Parameter& p : model->parameters()) p.master.mul_(1.5);
  }
  export_model(model->exported(), root_ / "a", root_ / "out");
  EXPECT_EQ(load_model(root_ / "out", at::kFloat, true)->digest(), model->digest());
  EXPECT_EQ(read_file(root_ / "out/chat_template.jinja"), "hi");
  EXPECT_TRUE(std::filesystem::exists(root_ / "out/tokenizer.json"));
  EXPECT_TRUE(std::filesystem::exists(root_ / "out/generation_config.json"));
  EXPECT_FALSE(std::filesystem::exists(root_ / "out/optimizer.bin"));
  EXPECT_EQ(SafetensorsFile(root_ / "out/model.safetensors").metadata().at("format"), "pt");
  export_model(model->exported(at::kBFloat16), root_ / "a",
               root_ / "out");  // an earlier export is replaced
  EXPECT_EQ(read_model_config(root_ / "out").dtype, at::kBFloat16);
  EXPECT_EQ(entries(), 2u);  // a, out, and no temporary
}

TEST_F(InitModelTest, AnExportNeverReplacesItsSourceOrAForeignFolder) {
  init_model(root_ / "a", {});
  const auto model = load_model(root_ / "a", at::kFloat, false);
  EXPECT_EQ(error_of([&] { export_model(model->exported(), root_ / "a", root_ / "a"); }),
            (root_ / "a").string() +
                ": the export would replace the folder that the model came from; name another");
  make_dirs(root_ / "home");
  write_file_atomic(root_ / "home/letter.txt", "dear");
  EXPECT_EQ(error_of([&] { export_model(model->exported(), root_ / "a", root_ / "home"); }),
            (root_ / "home").string() +
                ": already exists and is not empty; name another folder or remove it");
  EXPECT_EQ(read_file(root_ / "home/letter.txt"), "dear");
}

TEST_F(InitModelTest, AFailedExportKeepsTheEarlierOne) {
  init_model(root_ / "a", {});
  const auto model = load_model(root_ / "a", at::kFloat, false);
  export_model(model->exported(), root_ / "a", root_ / "out");
  const std::string before = read_file(root_ / "out/model.safetensors");
  for (const char* operation : {"write", "fsync", "rename"}) {
    set_file_fault(operation, 2);
    EXPECT_NE(error_of([&] {
                export_model(model->exported(at::kBFloat16), root_ / "a", root_ / "out");
              }).find("No space left on device; free some space"),
              std::string::npos)
        << operation;
    set_file_fault("", 0);
    EXPECT_EQ(read_file(root_ / "out/model.safetensors"), before) << operation;
    EXPECT_EQ(entries(), 2u);
  }
}

}  // namespace xrun::init_model_test
