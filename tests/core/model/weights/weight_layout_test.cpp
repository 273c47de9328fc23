// Tensors of a checkpoint that may be missing, extra or transposed.

#include "core/model/weights/weight_layout.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/model/model.h"
#include "tests/core/model/load_model.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"
#include "tests/tree.h"

namespace xrun::weight_layout_test {

namespace {

std::filesystem::path golden(const char* name) {
  return std::filesystem::path(source_path("tests/golden/models")) / name;
}

class WeightLayout : public testing::Test {
 protected:
  // A golden folder with other weights.
  void write(const std::vector<NamedTensor>& tensors, const char* name = "gpt2_scaled") {
    const std::filesystem::path from = golden(name);
    write_file_atomic(dir_ / "config.json", read_file(from / "config.json"));
    write_safetensors(dir_ / "model.safetensors", tensors);
  }
  std::vector<NamedTensor> tensors(const char* name = "gpt2_scaled") const {
    const SafetensorsFile file(golden(name) / "model.safetensors");
    std::vector<NamedTensor> all;
    for (const SafetensorsEntry& e : file.entries()) all.push_back({e.name, file.read(e.name)});
    return all;
  }
  std::string load_message() const {
    try {
      load_model(dir_, at::kFloat, false);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  const ScratchFolder scratch_;
  const std::filesystem::path dir_ = scratch_.path();
};

}  // namespace

TEST_F(WeightLayout, APrefixMayBeMissing) {
  write(tensors());
  EXPECT_EQ(load_message(), "no error");
  const auto model = load_model(dir_, at::kFloat, false);
  EXPECT_EQ(model->parameters()[0].name, "transformer.wte.weight");
  std::vector<NamedTensor> mixed = tensors();
  for (NamedTensor& t : mixed) {
    if (t.name == "ln_f.bias") t.name = "transformer.ln_f.bias";
  }
  write(mixed);
  EXPECT_NE(load_message().find("missing: transformer.h.0.attn.c_attn.bias"), std::string::npos);
}

TEST_F(WeightLayout, BuffersAreSkippedAndBiasesAreNot) {
  std::vector<NamedTensor> all = tensors();
  const auto has = [&](const char* name) {
    return std::any_of(all.begin(), all.end(), [&](const auto& t) { return t.name == name; });
  };
  EXPECT_TRUE(has("h.1.attn.bias") && has("h.1.attn.c_attn.bias"));
  std::erase_if(all, [](const NamedTensor& t) { return t.name == "h.1.attn.c_attn.bias"; });
  write(all);
  EXPECT_NE(load_message().find("\n  1 missing: h.1.attn.c_attn.bias"), std::string::npos);
}

TEST_F(WeightLayout, LinearMapsAreOutByInInMemory) {
  const auto model = load_model(golden("gpt2"), at::kFloat, false);
  const SafetensorsFile file(golden("gpt2") / "model.safetensors");
  int turned = 0;
  for (const WeightSpec& spec : weight_specs(model->config())) {
    if (spec.layout == WeightSpec::Layout::kPlain) continue;
    ++turned;
    const auto parameter = std::find_if(model->parameters().begin(), model->parameters().end(),
                                        [&](const Parameter& p) { return p.name == spec.name; });
    EXPECT_TRUE(parameter->master.equal(file.read(spec.name).t())) << spec.name;
    EXPECT_TRUE(parameter->master.is_contiguous());
  }
  EXPECT_EQ(turned, 8);
}

TEST_F(WeightLayout, BothFormsOfExpertsGiveOneWeight) {
  const auto single = load_model(golden("qwen3_moe"), at::kFloat, false);
  std::vector<NamedTensor> stacked;
  for (const Parameter& p : single->parameters()) stacked.push_back({p.name, p.master});
  write(stacked, "qwen3_moe");
  EXPECT_EQ(load_model(dir_, at::kFloat, false)->digest(), single->digest());
}

TEST_F(WeightLayout, ExpertsAreReadInNumericOrder) {
  const WeightSpec spec{.name = "mlp.experts.gate_up_proj",
                        .shape = {11, 4, 3},
                        .layout = WeightSpec::Layout::kExperts,
                        .parts = {"gate_proj", "up_proj"}};
  std::vector<NamedTensor> tensors;
  for (int64_t e = 0; e < 11; ++e) {
    const std::string at = fmt::format("mlp.experts.{}.", e);
    tensors.push_back({at + "up_proj.weight", at::full({2, 3}, e + 0.5)});
    tensors.push_back({at + "gate_proj.weight", at::full({2, 3}, static_cast<double>(e))});
  }
  write_safetensors(dir_ / "model.safetensors", tensors);
  const at::Tensor read = read_weight(spec, SafetensorsFolder(dir_), {});
  ASSERT_EQ(read.sizes(), at::IntArrayRef({11, 4, 3}));
  for (int64_t e = 0; e < 11; ++e) {
    EXPECT_EQ(read[e][1][2].item<double>(), static_cast<double>(e));
    EXPECT_EQ(read[e][2][0].item<double>(), static_cast<double>(e) + 0.5);
  }
  const std::vector<NamedTensor> written = stored_form(spec, read);
  ASSERT_EQ(written.size(), 22u);
  EXPECT_EQ(written[20].name, "mlp.experts.10.gate_proj.weight");
  EXPECT_TRUE(written[21].tensor.equal(at::full({2, 3}, 10.5)));
}

TEST_F(WeightLayout, AFolderWithBothFormsOfExpertsIsRefused) {
  std::vector<NamedTensor> all = tensors("qwen3_moe");
  all.push_back({"model.layers.1.mlp.experts.gate_up_proj", at::zeros({4, 48, 32})});
  write(all, "qwen3_moe");
  EXPECT_EQ(load_message(),
            dir_.string() +
                ": experts are stored in both forms, model.layers.1.mlp.experts.gate_up_proj and "
                "model.layers.1.mlp.experts.0.down_proj.weight; keep one of them");
}

TEST_F(WeightLayout, AMissingExpertIsNamed) {
  std::vector<NamedTensor> all = tensors("qwen3_moe");
  for (NamedTensor& t : all) {
    if (t.name == "model.layers.1.mlp.experts.3.up_proj.weight") {
      t.name = "model.layers.1.mlp.experts.4.up_proj.weight";
    }
  }
  write(all, "qwen3_moe");
  EXPECT_NE(load_message().find("1 missing: model.layers.1.mlp.experts.3.up_proj.weight"
                                "\n  1 unexpected: model.layers.1.mlp.experts.4.up_proj.weight"),
            std::string::npos);
}

TEST_F(WeightLayout, PositionsBeyondTheLearnedOnesAreRefused) {
  const auto model = load_model(golden("gpt2"), at::kFloat, false);
  PackInput input = pack_sequences({std::vector<int32_t>(65, 7)});
  EXPECT_EQ(message_of<Error>([&] { model->forward(input); }),
            "position 64 of the pack is 64, outside the model's learned positions, 64");
}

}  // namespace xrun::weight_layout_test
