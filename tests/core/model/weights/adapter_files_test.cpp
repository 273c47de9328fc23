// Folders written by PEFT, with its logits and gradients (adapter_goldens.py).

#include "core/model/weights/adapter_files.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/model/model.h"
#include "core/model/weights/export.h"
#include "core/model/weights/safetensors.h"
#include "tests/core/model/golden_pack.h"
#include "tests/core/model/load_model.h"
#include "tests/scratch_folder.h"
#include "tests/tensor_difference.h"
#include "tests/tree.h"

namespace xrun::adapter_files_test {
namespace {

namespace fs = std::filesystem;

const fs::path kGolden = fs::path(source_path("tests/golden"));

PackInput golden_input(const SafetensorsFile& golden) {
  return pack_sequences(golden_sequences(golden));
}

}  // namespace

class AdapterGoldenTest : public testing::TestWithParam<std::pair<const char*, const char*>> {
 protected:
  fs::path base() const { return kGolden / "models" / GetParam().second; }
  fs::path adapter() const { return kGolden / "adapters" / GetParam().first; }
  std::shared_ptr<Model> load() const {
    LoadOptions options{.trainable = true};
    options.adapter = read_adapter(adapter(), read_model_config(base()));
    return Model::load(base(), options);
  }
};

INSTANTIATE_TEST_SUITE_P(Peft, AdapterGoldenTest,
                         testing::Values(std::pair{"untied", "untied"}, std::pair{"gpt2", "gpt2"},
                                         std::pair{"one_layer", "tied_gqa"}),
                         [](const auto& info) { return std::string(info.param.first); });

TEST_P(AdapterGoldenTest, LogitsAndGradientsMatchPeft) {
  const SafetensorsFile want(adapter() / "golden.safetensors");
  const SafetensorsFile golden(base() / "golden.safetensors");
  for (const bool folded : {false, true}) {
    SCOPED_TRACE(folded ? "folded" : "as it is");
    const auto model = load();
    const GoldenPack pack = golden_pack(golden_sequences(golden), model->config(), folded);
    const at::Tensor& rows = pack.rows.front();
    const at::Tensor logits =
        model->forward(pack.input).matmul(model->head_weight().t()).detach().index_select(0, rows);
    EXPECT_LT(largest_difference(logits, want.read("logits")), 1e-5f);
    const at::Tensor logprob = model->token_logprob(
        pack.input, rows.index_select(0, golden.read("loss_index")), golden.read("loss_target"));
    logprob.mean().neg().backward();
    for (const Parameter& parameter : model->trained_parameters()) {
      const std::string name = parameter.name.substr(0, parameter.name.rfind('.'));
      const at::Tensor grad = want.read("grad/" + name);
      EXPECT_LT(largest_difference(parameter.master.grad(), grad) / grad.abs().max().item<float>(),
                1e-4f)
          << name;
    }
  }
}

TEST_P(AdapterGoldenTest, LogitsOfAMergedExportMatchPeft) {
  const ScratchFolder scratch;
  export_model(load()->exported(), base(), scratch.path() / "hf");
  const auto merged = load_model(scratch.path() / "hf", at::kFloat, false);
  const at::Tensor logits =
      merged->forward(golden_input(SafetensorsFile(base() / "golden.safetensors")))
          .matmul(merged->head_weight().t());
  const SafetensorsFile want(adapter() / "golden.safetensors");
  EXPECT_LT(largest_difference(logits, want.read("merged")), 1e-5f);
}

TEST_P(AdapterGoldenTest, AWrittenFolderIsTheSameAdapter) {
  const ScratchFolder scratch;
  const ModelConfig config = read_model_config(base());
  const auto read = read_adapter(adapter(), config);
  for (int round = 0; round < 2; ++round) {  // the second replaces the first
    write_adapter(*read, config, "base", scratch.path() / "adapter");
  }
  const auto again = read_adapter(scratch.path() / "adapter", config);
  ASSERT_EQ(again->factors.size(), read->factors.size());
  for (size_t i = 0; i < read->factors.size(); ++i) {
    EXPECT_EQ(again->factors[i].module, read->factors[i].module);
    EXPECT_TRUE(at::equal(again->factors[i].a, read->factors[i].a));
    EXPECT_TRUE(at::equal(again->factors[i].b, read->factors[i].b));
  }
  EXPECT_EQ(again->scale(), read->scale());
  EXPECT_EQ(adapter_base(scratch.path() / "adapter"), "base");
}

// A map of one layer only: its role would match the map in every layer.
TEST(AdapterFiles, TargetsAreFullNamesIfRolesWouldMatchMoreModules) {
  const ScratchFolder scratch;
  const ModelConfig config = read_model_config(kGolden / "models/tied_gqa");
  write_adapter(*read_adapter(kGolden / "adapters/one_layer", config), config, "b",
                scratch.path() / "a");
  const Json json = parse_json(read_file(scratch.path() / "a/adapter_config.json"), "config");
  EXPECT_EQ(dump_json(json.at("target_modules")), R"(["model.layers.1.self_attn.v_proj"])");
}

class BadAdapterTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::copy(kGolden / "adapters/untied", scratch_.path() / "a");
    dir_ = scratch_.path() / "a";
  }
  std::string error_with(const char* key, const Json& value) {
    Json json = parse_json(read_file(kGolden / "adapters/untied/adapter_config.json"), "config");
    json.set(key, value);
    write_file_atomic(dir_ / "adapter_config.json", dump_json(json));
    const std::string error = read_error();
    const std::string where = (dir_ / "adapter_config.json").string() + ": ";
    EXPECT_TRUE(error.starts_with(where)) << error;
    return error.substr(std::min(error.size(), where.size()));
  }
  std::string read_error() {
    return error_of([&] { read_adapter(dir_, read_model_config(kGolden / "models/untied")); });
  }
  ScratchFolder scratch_;
  fs::path dir_;
};

TEST_F(BadAdapterTest, AnUnsupportedKeyIsNamed) {
  EXPECT_EQ(error_with("peft_type", "IA3"), "peft_type is 'IA3', only LORA adapters are supported");
  EXPECT_EQ(error_with("use_dora", true), "use_dora is true, which is not supported");
  EXPECT_EQ(error_with("bias", "all"), "bias is \"all\", which is not supported");
  EXPECT_EQ(error_with("rank_pattern", parse_json(R"({"q_proj":8})", "")),
            "rank_pattern is {\"q_proj\":8}, which is not supported");
  EXPECT_EQ(error_with("some_later_key", 3), "some_later_key is 3, which is not supported");
  EXPECT_EQ(error_with("init_lora_weights", "pissa"),
            "init_lora_weights is 'pissa', which changes the base model as well; convert it with "
            "PEFT's save_pretrained(path_initial_model_for_weight_conversion=...) first");
  EXPECT_EQ(error_with("r", 0), "r is 0, wanted a positive integer");
  EXPECT_EQ(error_with("lora_dropout", 2.5), "lora.dropout is 2.5, wanted at least 0 and below 1");
}

TEST_F(BadAdapterTest, OneErrorListsMissingUnexpectedAndMisshapen) {
  std::vector<NamedTensor> tensors;
  {
    const SafetensorsFile file(dir_ / "adapter_model.safetensors");
    for (const SafetensorsEntry& entry : file.entries()) {
      if (entry.name.find("layers.0.mlp.down_proj.lora_B") != std::string::npos) continue;
      at::Tensor x = file.read(entry.name);
      if (entry.name.find("layers.1.self_attn.q_proj.lora_A") != std::string::npos) x = x.t();
      tensors.push_back({entry.name, x.contiguous()});
    }
  }
  tensors.push_back({"base_model.model.lm_head.lora_A.weight", tensors[0].tensor});
  write_safetensors(dir_ / "adapter_model.safetensors", tensors);
  const std::string error = read_error();
  EXPECT_EQ(error.substr(error.find(": ") + 2),
            "the adapter does not fit the model:\n"
            "  1 misshapen: base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight is "
            "[32, 4], wanted [4, 32]\n"
            "  1 missing: base_model.model.model.layers.0.mlp.down_proj.lora_B.weight\n"
            "  1 unexpected: base_model.model.lm_head.lora_A.weight");
}

TEST_F(BadAdapterTest, AnAdapterOfAnotherModelIsRefused) {
  const std::string error =
      error_of([&] { read_adapter(dir_, read_model_config(kGolden / "models/gpt2")); });
  EXPECT_NE(error.find("8 unexpected"), std::string::npos) << error;
}

}  // namespace xrun::adapter_files_test
