// What of a checkpoint may be missing, extra or turned round.

#include "core/model/weight_layout.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/model/model.h"

namespace xrun {

namespace {

std::filesystem::path golden(const char* name) {
  return std::filesystem::path(XRUN_SOURCE_DIR) / "tests/golden/models" / name;
}

class WeightLayout : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::temp_directory_path() / fmt::format("xrun_layout_{}", ::getpid());
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  // gpt2_scaled with other weights.
  void write(const std::vector<NamedTensor>& tensors) {
    const std::filesystem::path from = golden("gpt2_scaled");
    write_file_atomic(dir_ / "config.json", read_file(from / "config.json"));
    write_safetensors(dir_ / "model.safetensors", tensors);
  }
  std::vector<NamedTensor> tensors() const {
    const SafetensorsFile file(golden("gpt2_scaled") / "model.safetensors");
    std::vector<NamedTensor> all;
    for (const SafetensorsEntry& e : file.entries()) all.push_back({e.name, file.read(e.name)});
    return all;
  }
  std::string load_message() const {
    try {
      Model::load(dir_, at::kFloat, false);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  std::filesystem::path dir_;
};

}  // namespace

TEST_F(WeightLayout, APrefixMayBeMissing) {
  write(tensors());
  EXPECT_EQ(load_message(), "no error");
  const auto model = Model::load(dir_, at::kFloat, false);
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
  const auto model = Model::load(golden("gpt2"), at::kFloat, false);
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

TEST_F(WeightLayout, PositionsBeyondTheLearnedOnesAreRefused) {
  const auto model = Model::load(golden("gpt2"), at::kFloat, false);
  PackInput input = pack_sequences({std::vector<int32_t>(65, 7)});
  try {
    model->forward(input);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "position 64 of the pack is 64, outside the model's learned positions, 64");
  }
}

}  // namespace xrun
