// The format as hostile input: every false header is refused, and no flipped byte crashes.

#include "core/model/weights/safetensors.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cstring>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/file_fault.h"
#include "core/base/philox.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace xrun::safetensors_test {

namespace {

class SafetensorsTest : public testing::Test {
 protected:
  std::filesystem::path path(const char* name = "a.safetensors") const { return dir_ / name; }

  void write_raw(const std::string& header, const std::string& data) {
    std::string bytes(8, '\0');
    const uint64_t n = header.size();
    std::memcpy(bytes.data(), &n, 8);
    write_file_atomic(path(), bytes + header + data);
  }

  std::string open_message() {
    try {
      SafetensorsFile file(path());
    } catch (const Error& error) {
      return std::string(error.what()).substr(path().string().size());
    }
    return "no error";
  }

  const ScratchFolder scratch_;
  const std::filesystem::path dir_ = scratch_.path();
};

std::vector<NamedTensor> some_tensors() {
  return {{"b", at::arange(6, at::kFloat).view({2, 3})},
          {"half", at::ones({3}, at::kBFloat16)},
          {"a", at::arange(4, at::kFloat)},
          {"count", at::arange(2, at::kLong)},
          {"none", at::empty({0, 7}, at::kFloat)},
          {"scalar", at::ones({}, at::kFloat)},
          {"bytes", at::zeros({5}, at::kByte)}};
}

}  // namespace

TEST_F(SafetensorsTest, AWrittenFileReadsBackEqual) {
  write_safetensors(path(), some_tensors(), {{"format", "pt"}});
  const SafetensorsFile file(path());
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.entries().size(), 7u);
  for (const NamedTensor& t : some_tensors()) {
    const at::Tensor read = file.read(t.name);
    EXPECT_TRUE(read.equal(t.tensor)) << t.name;
    EXPECT_EQ(read.scalar_type(), t.tensor.scalar_type());
    if (read.numel() > 0) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(read.const_data_ptr()) % 64, 0u) << t.name;
    }
  }
}

TEST_F(SafetensorsTest, LargerElementsComeFirstThenNames) {
  write_safetensors(path(), some_tensors());
  std::vector<std::string> order;
  const SafetensorsFile file(path());
  for (const SafetensorsEntry& e : file.entries()) order.push_back(e.name);
  EXPECT_EQ(order,
            (std::vector<std::string>{"count", "a", "b", "none", "scalar", "half", "bytes"}));
  const std::string bytes = read_file(path());
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), 8);
  EXPECT_EQ(header % 8, 0u);
}

TEST_F(SafetensorsTest, ATensorThatWasReadSurvivesTheFile) {
  write_safetensors(path(), some_tensors());
  at::Tensor read;
  {
    const SafetensorsFile file(path());
    read = file.read("a");
  }
  std::filesystem::resize_file(path(), 1);
  EXPECT_TRUE(read.equal(at::arange(4, at::kFloat)));
}

TEST_F(SafetensorsTest, ATransposedTensorIsWrittenInLogicalOrder) {
  write_safetensors(path(), {{"t", at::arange(6, at::kFloat).view({2, 3}).t()}});
  EXPECT_TRUE(SafetensorsFile(path()).read("t").equal(at::arange(6, at::kFloat).view({2, 3}).t()));
}

TEST_F(SafetensorsTest, NamesTheNearestTensor) {
  write_safetensors(path(), {{"model.norm.weight", at::ones({2})}});
  EXPECT_TRUE(throws<Error>("did you mean 'model.norm.weight'?",
                            [&] { SafetensorsFile(path()).read("model.nrom.weight"); }));
}

TEST_F(SafetensorsTest, RefusesInconsistentHeaders) {
  const std::string data(8, 'x');
  write_raw(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", data);
  EXPECT_EQ(open_message(), "no error");
  write_raw(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "xxxxxxx");
  EXPECT_NE(open_message().find("truncated or damaged, fetch it again"), std::string::npos);
  write_raw(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", data + "y");
  EXPECT_EQ(open_message(), ": the header accounts for 8 data bytes, the file has 9");
  write_raw(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", data);
  EXPECT_EQ(open_message(),
            ": tensor 'a': its data_offsets span 8 bytes, but its dtype and shape need 12");
  write_raw(R"({"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})", data);
  EXPECT_NE(open_message().find("has the dtype F33, which is not supported"), std::string::npos);
  write_raw(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", data);
  EXPECT_NE(open_message().find("not a non-negative integer"), std::string::npos);
  write_raw(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})", data);
  EXPECT_EQ(open_message(), ": tensor 'a': its shape overflows");
  write_raw(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
            R"("b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
            data);
  EXPECT_EQ(open_message(), ": tensor 'b' begins at byte 2, but the one before it ends at 4");
  write_raw(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", data);
  EXPECT_EQ(open_message(), ": tensor 'a' begins at byte 4, but the one before it ends at 0");
  write_raw(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", data);
  EXPECT_NE(open_message().find("are not within"), std::string::npos);
  write_raw(R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", data);
  EXPECT_EQ(open_message(), ": tensor 'a': the header has no 'shape'");
  write_raw(R"([1])", data);
  EXPECT_EQ(open_message(), ": the header is not a JSON object");
  write_raw(R"({"a":)", data);
  EXPECT_NE(open_message().find("(header):1:"), std::string::npos);
  write_file_atomic(path(), "short");
  EXPECT_EQ(open_message(),
            ": has 5 bytes, too few for a safetensors file; it is truncated, fetch it again");
  write_file_atomic(path(), std::string("\x40\0\0\0\0\0\0\0{}", 10));
  EXPECT_NE(open_message().find("the file is truncated, fetch it again"), std::string::npos);
  write_file_atomic(path(), std::string(8, '\xff') + "{}");
  EXPECT_NE(open_message().find("the limit is 100000000"), std::string::npos);
}

TEST_F(SafetensorsTest, SlowNoMutationOfAFileCrashes) {
  write_safetensors(path(), some_tensors(), {{"format", "pt"}});
  const std::string whole = read_file(path());
  int refused = 0;
  for (uint64_t round = 0; round < 800; ++round) {
    std::string bytes = whole;
    const uint64_t cut = philox_u64(round, 9, 0, 0) % 10;
    for (uint64_t i = 0; i < 1 + round % 4; ++i) {
      const uint64_t r = philox_u64(round, 9, 1, i);
      bytes[r % bytes.size()] = static_cast<char>(r >> 40);
    }
    if (cut == 0) bytes.resize(philox_u64(round, 9, 2, 0) % bytes.size());
    {
      FileWriter writer(path("m.safetensors"));
      writer.write(bytes);
      writer.close();
    }
    try {
      const SafetensorsFile file(path("m.safetensors"));
      for (const SafetensorsEntry& e : file.entries()) file.read(e.name);
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 150);
  EXPECT_LT(refused, 800);  // some changes are in the data and legal
}

TEST_F(SafetensorsTest, RefusesARepeatedNameAndSurvivesAFullDisk) {
  EXPECT_EQ(error_of([&] {
              write_safetensors(path(), {{"a", at::ones({1})}, {"a", at::ones({1})}});
            }),
            path().string() + ": two tensors to be written have the name 'a'");
  set_file_fault("write", 1);
  EXPECT_EQ(error_of([&] { write_safetensors(path(), some_tensors()); }),
            path().string() + ": cannot be written: No space left on device; free some space");
  set_file_fault("", 0);
}

TEST_F(SafetensorsTest, AFolderReadsShardsThroughItsIndex) {
  write_safetensors(path("m-1.safetensors"), {{"a", at::ones({2})}});
  write_safetensors(path("m-2.safetensors"), {{"b", at::zeros({3})}});
  const auto index = [&](const std::string& map) {
    write_file_atomic(path("model.safetensors.index.json"), "{\"weight_map\":" + map + "}");
  };
  const auto message = [&]() -> std::string {
    try {
      SafetensorsFolder folder(dir_);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_NE(message().find("neither model.safetensors nor"), std::string::npos);
  EXPECT_EQ(message().find("pickle"), std::string::npos);
  write_file_atomic(path("pytorch_model.bin"), "x");
  EXPECT_NE(message().find("pytorch_model.bin is a pickle, which could run code and is never read"),
            std::string::npos);
  index(R"({"a":"m-1.safetensors","b":"m-2.safetensors"})");
  const SafetensorsFolder folder(dir_);
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(folder.read("b").equal(at::zeros({3})));
  index(R"({"a":"../m-1.safetensors"})");
  EXPECT_NE(message().find("which is not a plain file name"), std::string::npos);
  index(R"({"a":"/etc/passwd"})");
  EXPECT_NE(message().find("which is not a plain file name"), std::string::npos);
  index(R"({"a":"m-2.safetensors","b":"m-2.safetensors"})");
  EXPECT_NE(message().find("which lacks it"), std::string::npos);
  index(R"({"a":"m-1.safetensors"})");
  EXPECT_EQ(message(), "no error");
  index(R"({"a":"m-1.safetensors","b":"m-3.safetensors"})");
  EXPECT_NE(message().find("m-3.safetensors"), std::string::npos);
  write_file_atomic(path("model.safetensors.index.json"), "{}");
  EXPECT_NE(message().find("has no weight_map object"), std::string::npos);
}

}  // namespace xrun::safetensors_test
