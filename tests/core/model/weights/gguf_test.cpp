// The GGUF reader on sound, truncated and hostile files.

#include "core/model/weights/gguf.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/philox.h"
#include "core/model/weights/gguf_blocks.h"
#include "tests/error_of.h"
#include "tests/tree.h"

namespace xrun::gguf_test {
namespace {

const std::filesystem::path kTiny = source_path("tests/golden/tiny.gguf");

// A GGUF file built field by field, so that each can be wrong.
class Bytes {
 public:
  template <typename T>
  Bytes& number(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Bytes& string(const std::string& text) {
    number<uint64_t>(text.size());
    text_ += text;
    return *this;
  }
  Bytes& raw(const std::string& text) {
    text_ += text;
    return *this;
  }
  // Magic, version 3 and the two counts.
  static Bytes header(uint64_t tensors, uint64_t pairs, uint32_t version = 3) {
    return Bytes().raw("GGUF").number(version).number(tensors).number(pairs);
  }
  Bytes& tensor(const std::string& name, std::vector<uint64_t> dims, uint32_t format, uint64_t at) {
    string(name).number<uint32_t>(dims.size());
    for (const uint64_t dim : dims) number(dim);
    return number(format).number(at);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

class Gguf : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() /
            ("xrun_gguf_" + std::to_string(::getpid()) + ".gguf");
  }
  void TearDown() override { std::filesystem::remove(path_); }

  void write(std::string_view bytes) {
    std::filesystem::remove(path_);  // a truncated old file would be flushed to the disk on close
    FileWriter writer(path_);
    writer.write(bytes);
    writer.close();
  }
  // The error of opening and reading a whole file of these bytes, or "" if that works.
  std::string open_error(std::string_view bytes) {
    write(bytes);
    return error_of([&] {
      const GgufFile file(path_);
      for (const GgufTensor& tensor : file.tensors()) file.read(tensor);
    });
  }
  void expect_error(const Bytes& bytes, const std::string& part) {
    const std::string message = open_error(bytes.text());
    EXPECT_NE(message.find(part), std::string::npos) << message << "\nwanted: " << part;
    EXPECT_NE(message.find(path_.string()), std::string::npos) << message;
  }

  std::filesystem::path path_;
};

TEST_F(Gguf, ReadsMetadataAndShapes) {
  const GgufFile file(kTiny);
  EXPECT_EQ(file.version(), 3);
  EXPECT_EQ(file.find("llama.block_count")->as_int(), 2);
  EXPECT_EQ(file.find("tokenizer.ggml.tokens")->size(), 271u);
  EXPECT_FALSE(file.find("tokenizer.ggml.add_bos_token")->as_bool());
  EXPECT_EQ(file.find("llama.nothing"), nullptr);
  EXPECT_EQ(file.find_tensor("blk.1.ffn_down.weight")->shape, (std::vector<int64_t>{64, 96}));
  EXPECT_EQ(file.find_tensor("blk.2.ffn_down.weight"), nullptr);
}

TEST_F(Gguf, VersionTwoReadsAsVersionThree) {
  std::string bytes = read_file(kTiny);
  bytes[4] = 2;
  EXPECT_EQ(open_error(bytes), "");
  EXPECT_EQ(GgufFile(path_).version(), 2);
}

TEST_F(Gguf, TensorsHaveAlignedStorage) {
  write(read_file(kTiny));
  const GgufFile file(path_);
  const at::Tensor values = file.read(*file.find_tensor("blk.0.attn_q.weight"));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(values.const_data_ptr()) % 64, 0u);
  EXPECT_EQ(values.scalar_type(), at::kFloat);
}

TEST_F(Gguf, TruncationAtAnyByteIsAnErrorThatNamesTheFile) {
  const std::string whole = read_file(kTiny);
  ASSERT_EQ(open_error(whole), "");
  // Every byte of the first fields, then steps that reach every later alignment.
  for (size_t size = 0; size < whole.size(); size += size < 600 ? 1 : 211) {
    const std::string message = open_error(std::string_view(whole).substr(0, size));
    ASSERT_EQ(message.rfind(path_.string() + ": ", 0), 0u) << "at " << size << ": " << message;
  }
}

TEST_F(Gguf, AnyChangedByteIsReadOrRefusedButNeverCrashes) {
  const std::string whole = read_file(kTiny);
  int refused = 0;
  for (uint64_t trial = 0; trial < 1500; ++trial) {
    std::string bytes = whole;
    for (uint64_t i = 0; i <= trial % 3; ++i) {
      // Two thirds of the changes hit the header, which has the lengths and counts.
      const uint64_t room = trial % 3 == 0 ? bytes.size() : 8000;
      const uint64_t random = philox_u64(11, 1, trial, i);
      bytes[random % room] = static_cast<char>(random >> 56);
    }
    refused += open_error(bytes).empty() ? 0 : 1;
  }
  EXPECT_GT(refused, 100);
  EXPECT_LT(refused, 1400);
}

TEST_F(Gguf, RefusesOtherFilesAndVersions) {
  expect_error(Bytes().raw("PK\x03\x04 a zip file"), "does not begin with \"GGUF\"");
  expect_error(Bytes::header(0, 0, 1), "GGUF version 1 is not supported; supported: 2 and 3");
  expect_error(Bytes::header(0, 0, 0x03000000), "big-endian");
  EXPECT_EQ(error_of([] { GgufFile("/nowhere/a.gguf"); }),
            "/nowhere/a.gguf: cannot be opened: No such file or directory");
}

TEST_F(Gguf, RefusesCountsAndLengthsBeyondTheFile) {
  expect_error(Bytes::header(UINT64_MAX, 0), "the number of tensors is 18446744073709551615");
  expect_error(Bytes::header(0, 1ull << 60), "the number of metadata pairs");
  expect_error(Bytes::header(0, 1).number<uint64_t>(1ull << 40).raw("key, type and value"),
               "a metadata key has 1099511627776 bytes");
  expect_error(Bytes::header(0, 1).string("k").number<uint32_t>(8).number<uint64_t>(UINT64_MAX - 4),
               "the file ends inside a metadata string");
  expect_error(
      Bytes::header(0, 1).string("k").number<uint32_t>(9).number<uint32_t>(0).number<uint64_t>(
          1ull << 62),
      "an array's length");
}

TEST_F(Gguf, RefusesWrongTypesNamesAndNesting) {
  expect_error(Bytes::header(0, 1).string("k").number<uint32_t>(13), "type 13");
  expect_error(Bytes::header(0, 1).string("k").number<uint32_t>(7).raw("\x02"), "a boolean is 2");
  expect_error(Bytes::header(0, 1).string("\xff").number<uint32_t>(0).raw("x"), "UTF-8");
  expect_error(Bytes::header(0, 2)
                   .string("k")
                   .number<uint32_t>(0)
                   .raw("a")
                   .string("k")
                   .number<uint32_t>(0)
                   .raw("a"),
               "the key k occurs twice");
  Bytes nested = Bytes::header(0, 1).string("k").number<uint32_t>(9);
  for (int i = 0; i < 1000; ++i) nested.number<uint32_t>(9).number<uint64_t>(1);
  expect_error(nested, "nested deeper than 4");
}

TEST_F(Gguf, RefusesTensorsThatDoNotFit) {
  const std::string data(256, '\0');
  expect_error(Bytes::header(1, 0).tensor("a", {64}, 14, 0).raw(data),
               "tensor a is Q6_K, which is not supported; use a file of F32, F16, BF16, Q8_0");
  expect_error(Bytes::header(1, 0).tensor("a", {33}, 8, 0).raw(data),
               "not whole Q8_0 blocks of 32");
  expect_error(Bytes::header(1, 0).tensor("a", {1ull << 40, 1ull << 40}, 0, 0).raw(data),
               "more bytes than any file");
  expect_error(Bytes::header(1, 0).tensor("a", {0}, 0, 0).raw(data), "a dimension of 0");
  expect_error(Bytes::header(1, 0).tensor("a", {1ull << 63}, 0, 0).raw(data), "a dimension of");
  expect_error(Bytes::header(1, 0).tensor("a", {1, 1, 1, 1, 1}, 0, 0).raw(data), "5 dimensions");
  expect_error(Bytes::header(1, 0).tensor("a", {64}, 0, 1).raw(data),
               "not a multiple of the alignment");
  expect_error(Bytes::header(1, 0).tensor("a", {64}, 0, UINT64_MAX - 31).raw(data),
               "tensor a needs 256 bytes");
  expect_error(Bytes::header(2, 0).tensor("a", {16}, 0, 0).tensor("a", {16}, 0, 64).raw(data),
               "the tensor a occurs twice");
  expect_error(Bytes::header(2, 0).tensor("a", {16}, 0, 0).tensor("b", {16}, 0, 32).raw(data),
               "tensors a and b overlap");
  expect_error(
      Bytes::header(0, 1).string("general.alignment").number<uint32_t>(4).number<uint32_t>(24),
      "general.alignment is 24, wanted a power of two");
}

TEST(BlockFormat, NamesAnUnsupportedFormat) {
  EXPECT_EQ(block_format_name(14), "Q6_K");
  EXPECT_EQ(block_format_name(30), "BF16");
  EXPECT_EQ(block_format_name(4000), "type 4000");
  EXPECT_EQ(find_block_format(14), nullptr);
}

TEST(BlockFormat, DecodesNibblesAtAnyAlignment) {
  // One Q4_1 block at an odd address: d = 2 (0x4000), m = -1 (0xbc00), nibbles i and 15 - i.
  std::string bytes = "x";
  bytes += std::string("\x00\x40\x00\xbc", 4);
  for (int i = 0; i < 16; ++i) bytes += static_cast<char>(i | (15 - i) << 4);
  float out[32];
  find_block_format(3)->decode(reinterpret_cast<const uint8_t*>(bytes.data()) + 1, 1, out);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(out[i], 2.0f * i - 1.0f);
    EXPECT_EQ(out[i + 16], 2.0f * (15 - i) - 1.0f);
  }
}

}  // namespace
}  // namespace xrun::gguf_test
