// An imported GGUF gives the weights, config and tokenizer of its Hugging Face folder.

#include "core/model/weights/gguf_import.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <string>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/file_fault.h"
#include "core/base/interrupt.h"
#include "core/base/json.h"
#include "core/model/model.h"
#include "core/model/weights/safetensors.h"
#include "core/text/tokenizer/tokenizer.h"
#include "tests/core/model/load_model.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"
#include "tests/tree.h"

namespace xrun::gguf_import_test {
namespace {

const std::filesystem::path kGolden = std::filesystem::path(source_path("tests/golden"));

class GgufImportTest : public testing::Test {
 protected:
  void TearDown() override { set_file_fault("", 0); }

  // The tiny file with one piece of text replaced by another of the same length.
  std::filesystem::path changed(const std::string& from, const std::string& to) {
    std::string bytes = read_file(kGolden / "tiny.gguf");
    const size_t at = bytes.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    EXPECT_EQ(from.size(), to.size());
    bytes.replace(at, from.size(), to);
    write_file_atomic(dir_ / "changed.gguf", bytes);
    return dir_ / "changed.gguf";
  }
  // The tiny file with another text in front.
  std::filesystem::path with_text(const std::string& key, std::string value) {
    constexpr size_t kCountAt = 16, kHeader = 24, kAlignment = 32;
    const auto number = [](uint64_t n, size_t bytes) {
      return std::string(reinterpret_cast<const char*>(&n), bytes);
    };
    while ((8 + key.size() + 4 + 8 + value.size()) % kAlignment != 0) value += ' ';
    std::string bytes = read_file(kGolden / "tiny.gguf");
    bytes[kCountAt] = static_cast<char>(bytes[kCountAt] + 1);
    constexpr uint64_t kString = 8;
    bytes.insert(kHeader, number(key.size(), 8) + key + number(kString, 4) +
                              number(value.size(), 8) + value);
    write_file_atomic(dir_ / "more.gguf", bytes);
    return dir_ / "more.gguf";
  }
  void expect_refusal(const std::filesystem::path& file, const std::string& part) {
    try {
      import_gguf(file, dir_ / "out");
      ADD_FAILURE() << "imported; wanted: " << part;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
    EXPECT_FALSE(std::filesystem::exists(dir_ / "out"));
  }

  const ScratchFolder scratch_;
  const std::filesystem::path dir_ = scratch_.path();
};

TEST_F(GgufImportTest, WeightsMatchTransformers) {
  const Json golden = read_json((kGolden / "gguf.json").string());
  const GgufImport report = import_gguf(kGolden / "tiny.gguf", dir_ / "out");
  const SafetensorsFile file(dir_ / "out/model.safetensors");
  int64_t parameters = 0;
  EXPECT_EQ(file.entries().size(), golden.at("tensors").size());
  for (const auto& [name, want] : golden.at("tensors").as_object()) {
    SCOPED_TRACE(name);
    const at::Tensor values = file.read(name);
    ASSERT_EQ(values.numel(), values.dim() == 2 ? want.at("shape").as_array()[0].as_int() *
                                                      want.at("shape").as_array()[1].as_int()
                                                : want.at("shape").as_array()[0].as_int());
    const float* at = values.const_data_ptr<float>();
    double sum = 0, dot = 0;
    for (int64_t i = 0; i < values.numel(); ++i) {
      sum += at[i];
      dot += at[i] * (static_cast<double>(i * 37 % 101) / 101);
    }
    EXPECT_NEAR(sum, want.at("sum").as_double(), 1e-6);
    EXPECT_NEAR(dot, want.at("dot").as_double(), 1e-6);
    for (size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(at[i], static_cast<float>(want.at("first").as_array()[i].as_double()));
    }
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(at[values.numel() - 3 + static_cast<int64_t>(i)],
                static_cast<float>(want.at("last").as_array()[i].as_double()));
    }
    parameters += values.numel();
  }
  EXPECT_EQ(report.parameters, parameters);
  EXPECT_EQ(report.tensors, 20);
  EXPECT_EQ(report.vocab, 271);
}

TEST_F(GgufImportTest, LogProbsMatchTransformersOnTheSameFile) {
  const Json golden = read_json((kGolden / "gguf.json").string());
  std::vector<int32_t> ids;
  for (const Json& id : golden.at("ids").as_array()) {
    ids.push_back(static_cast<int32_t>(id.as_int()));
  }
  import_gguf(kGolden / "tiny.gguf", dir_ / "out");
  const auto model = load_model(dir_ / "out", at::kFloat, false);
  const int64_t rows = static_cast<int64_t>(ids.size()) - 1;
  const std::vector<int64_t> target(ids.begin() + 1, ids.end());
  const at::Tensor logprobs =
      model->token_logprob(pack_sequences({ids}), at::arange(rows), at::tensor(target, at::kLong));
  for (int64_t i = 0; i < rows; ++i) {
    const double want = golden.at("logprobs").as_array()[static_cast<size_t>(i)].as_double();
    EXPECT_NEAR(logprobs.const_data_ptr<float>()[i], want, 1e-5);
  }
}

TEST_F(GgufImportTest, SizesInTheConfigMatchTheFile) {
  import_gguf(kGolden / "tiny.gguf", dir_ / "out/");
  const Json config = read_json((dir_ / "out/config.json").string());
  EXPECT_EQ(config.at("rms_norm_eps").as_double(), 1e-5);  // not the float32's 9.99...e-06
  EXPECT_EQ(config.at("rope_theta").as_double(), 5000.0);
  EXPECT_EQ(config.at("num_key_value_heads").as_int(), 2);
  EXPECT_EQ(config.at("head_dim").as_int(), 16);
  EXPECT_TRUE(config.at("tie_word_embeddings").as_bool());
  EXPECT_EQ(config.at("eos_token_id").as_int(), 2);
  const Json generation = read_json((dir_ / "out/generation_config.json").string());
  EXPECT_EQ(generation.at("eos_token_id").as_int(), 2);
  const Json tokenizer = read_json((dir_ / "out/tokenizer_config.json").string());
  EXPECT_EQ(tokenizer.at("eos_token").as_string(), "<|im_end|>");
  EXPECT_EQ(tokenizer.at("model_max_length").as_int(), 512);
  EXPECT_NE(tokenizer.at("chat_template").as_string().find("<|im_start|>"), std::string::npos);
}

TEST_F(GgufImportTest, TokensMatchTheTokenizersLibrary) {
  import_gguf(kGolden / "tiny.gguf", dir_ / "out");
  const auto tokenizer = Tokenizer::load(dir_ / "out");
  const Json golden = read_json((kGolden / "gguf.json").string());
  for (const Json& text : golden.at("texts").as_array()) {
    std::vector<int32_t> want;
    for (const Json& id : text.at("ids").as_array()) {
      want.push_back(static_cast<int32_t>(id.as_int()));
    }
    EXPECT_EQ(tokenizer->encode(text.at("text").as_string() + "<tool>").ids, want)
        << text.at("text").as_string();
  }
  EXPECT_TRUE(tokenizer->is_special(1));
  EXPECT_FALSE(tokenizer->is_special(270));
}

TEST_F(GgufImportTest, NamedChatTemplatesAreImportedToo) {
  import_gguf(with_text("tokenizer.chat_template.tool_use", "{{ tools }}"), dir_ / "out");
  const auto tokenizer = Tokenizer::load(dir_ / "out");
  ASSERT_EQ(tokenizer->chat_templates().size(), 2u);
  const std::string* tool_use = find_text(tokenizer->chat_templates(), "tool_use");
  ASSERT_NE(tool_use, nullptr);
  EXPECT_TRUE(tool_use->starts_with("{{ tools }}"));
  const std::string* usual = find_text(tokenizer->chat_templates(), "default");
  ASSERT_NE(usual, nullptr);
  EXPECT_NE(usual->find("<|im_start|>"), std::string::npos);
}

TEST_F(GgufImportTest, NamesAnUnsupportedFeature) {
  expect_refusal(changed("llama", "falco"), "general.architecture is \"falco\"");
  expect_refusal(changed("gpt2", "bert"), "tokenizer.ggml.model is \"bert\"");
  expect_refusal(changed("smollm", "falcon"), "tokenizer.ggml.pre is \"falcon\"");
  expect_refusal(changed("tokenizer.ggml.merges", "tokenizer.ggml.mergez"),
                 "tokenizer.ggml.merges is missing, wanted an array");
  expect_refusal(changed("th e", "th q"), "entry 2: \"th q\" joins or makes a token");
  expect_refusal(changed("blk.1.ffn_up.weight", "blk.1.ffn_oo.weight"),
                 "blk.1.ffn_up.weight is missing\n  blk.1.ffn_oo.weight is unexpected");
  expect_refusal(changed("output_norm.weight", "rope_freqs.weight0"),
                 "output_norm.weight is missing");
  expect_refusal(changed("llama.context_length", "llama.context_lenght"),
                 "llama.context_length is missing, wanted a positive integer");
}

TEST_F(GgufImportTest, RefusesANonEmptyFolder) {
  std::filesystem::create_directories(dir_ / "full");
  write_file_atomic(dir_ / "full/mine.txt", "x");
  EXPECT_EQ(error_of([&] { import_gguf(kGolden / "tiny.gguf", dir_ / "full"); }),
            (dir_ / "full").string() +
                ": already exists and is not empty; name another folder or remove it");
  EXPECT_TRUE(std::filesystem::exists(dir_ / "full/mine.txt"));
}

TEST_F(GgufImportTest, AFullDiskLeavesNothingBehind) {
  for (const char* operation : {"write", "fsync", "rename"}) {
    for (int nth = 1; nth <= 4; ++nth) {
      set_file_fault(operation, nth);
      EXPECT_NE(error_of([&] {
                  import_gguf(kGolden / "tiny.gguf", dir_ / "out");
                }).find("No space left on device; free some space"),
                std::string::npos)
          << operation << nth;
      set_file_fault("", 0);
      EXPECT_TRUE(std::filesystem::is_empty(dir_)) << operation << nth;
    }
  }
}

TEST_F(GgufImportTest, ASignalStopsItAndLeavesNothing) {
  request_interrupt(SIGTERM);
  EXPECT_EQ(signal_of([&] { import_gguf(kGolden / "tiny.gguf", dir_ / "out"); }), SIGTERM);
  clear_interrupt();
  EXPECT_TRUE(std::filesystem::is_empty(dir_));
}

}  // namespace
}  // namespace xrun::gguf_import_test
