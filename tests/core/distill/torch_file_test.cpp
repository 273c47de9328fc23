// Files of torch.save: real ones, and hostile ones with their messages.

#include "core/distill/torch_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>

#include "core/base/error.h"
#include "core/base/file.h"
#include "tests/error_of.h"
#include "tests/tree.h"

namespace xrun::torch_file_test {
namespace {

const std::string kCorpus = source_path("tests/data/fuzz/torch_file/");

TorchFile corpus_file(const std::string& name) {
  return TorchFile(read_file(kCorpus + name).substr(1), name);
}

TEST(TorchFiles, OfRealTensorsAndFlagsAreRead) {
  const TorchFile file(std::filesystem::path(source_path("tests/golden/projection_dense.pt")));
  const TorchTensor& ids = file.as_tensor(*file.find(file.root(), "indices"));
  EXPECT_EQ(ids.type, TorchType::kInt64);
  EXPECT_EQ(ids.shape, (std::vector<int64_t>{800, 4}));
  EXPECT_EQ(torch_integers(ids, "ids").size(), 3200u);
  const TorchTensor& weights = file.as_tensor(*file.find(file.root(), "likelihoods"));
  EXPECT_EQ(weights.type, TorchType::kBFloat16);
  EXPECT_EQ(torch_floats(weights, "weights")[0], 1.0f);
  EXPECT_EQ(file.as_string(*file.find(file.root(), "student_model_id")), "deepseek");
  EXPECT_TRUE(file.as_bool(*file.find(file.root(), "enable_scale_trick")));
  EXPECT_FALSE(file.find(file.root(), "indexes"));
}

TEST(TorchFiles, OfPairsAndCountsAreRead) {
  const TorchFile file(std::filesystem::path(source_path("tests/golden/projection_sparse.pt")));
  const auto items = file.items(file.root());
  ASSERT_EQ(items.size(), 8u);
  EXPECT_EQ(file.as_int(file.items(items[0])[1]), 7);
  EXPECT_EQ(file.as_float(items[1]), 3.0);
  EXPECT_EQ(file.as_int(items[3]), 1);
}

TEST(TorchFiles, ATransposedTensorIsReadInRowMajorOrder) {
  TorchTensor tensor;
  const int32_t data[] = {0, 1, 2, 3, 4, 5};
  tensor.storage = {reinterpret_cast<const char*>(data), sizeof data};
  tensor.type = TorchType::kInt32;
  tensor.shape = {3, 2};
  tensor.stride = {1, 3};
  EXPECT_EQ(torch_integers(tensor, "x"), (std::vector<int64_t>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(message_of<Error>([&] { torch_floats(tensor, "x"); }),
            "x: got a tensor of int32, wanted one of floating-point numbers");
}

TEST(TorchFiles, HalvesAreReadExactly) {
  const uint16_t bits[] = {0x3C00, 0xC000, 0x7BFF, 0x0001, 0x0400, 0x8000, 0x7C00};
  TorchTensor tensor{
      TorchType::kFloat16, {reinterpret_cast<const char*>(bits), sizeof bits}, 0, {7}, {1}};
  EXPECT_EQ(torch_floats(tensor, "x"),
            (std::vector<float>{1, -2, 65504, 0x1p-24f, 0x1p-14f, 0,
                                std::numeric_limits<float>::infinity()}));
}

// File of the corpus, and a part of its message; "" where it is harmless.
const std::map<std::string, std::string> kMessages = {
    {"good", ""},
    {"inside_itself", ""},
    {"empty_overflowing", ""},
    {"size_1_far_away", ""},
    {"calls_system",
     "byte 2: refers to posix.system, which a file of plain tensors never needs; "
     "nothing was executed"},
    {"calls_eval", "refers to builtins.eval, which"},
    {"calls_a_storage", "calls torch.FloatStorage, which is a class"},
    {"calls_a_number", "calls a value that is not a function"},
    {"object", "refers to "},
    {"build",
     "the opcode BUILD is refused: a file of tensors, numbers, strings, tuples and dicts "
     "has none; nothing was executed"},
    {"old_object", "the opcode INST is refused"},
    {"extension", "the opcode EXT1 is refused"},
    {"ordered_dict_with_items", "an OrderedDict has arguments"},
    {"protocol_9", "protocol 9 is not known"},
    {"cut_off", "the pickle is cut off"},
    {"no_end", "the pickle is cut off"},
    {"two_values", "the pickle ends with more than one value"},
    {"empty_stack", "the stack is empty"},
    {"pops_below_a_mark", "the stack is empty"},
    {"no_mark", "there is no mark on the stack"},
    {"memo_beyond", "the memo is not numbered in order"},
    {"memo_missing", "the memo has no such entry"},
    {"odd_items", "a dict has a key without a value"},
    {"item_of_a_number", "sets items of a value that is not a dict"},
    {"append_to_a_dict", "appends to a value that is not a list"},
    {"integer_of_100_bits", "an integer exceeds 64 bits"},
    {"not_utf8", "a string is not UTF-8"},
    {"no_storage", "the archive has no storage 9"},
    {"other_persistent_id", "a persistent id does not name a storage"},
    {"storage_of_other_size", "the storage 0 has 64 bytes, wanted 9 elements of 8"},
    {"storage_of_bytes", "refers to torch.UntypedStorage, which"},
    {"offset_beyond", "a tensor extends beyond its storage"},
    {"negative_offset", "a tensor is not made of a storage, an offset, a shape and a stride"},
    {"negative_size", "a tensor's shape or stride is not a tuple of sizes"},
    {"negative_stride", "a tensor's shape or stride is not a tuple of sizes"},
    {"repeated_by_stride_0", "a tensor extends beyond its storage"},
    {"overflowing_shape", "a tensor extends beyond its storage"},
    {"other_rank", "a tensor's shape has 2 dimensions, its stride 1"},
    {"nine_dimensions", "a tensor's shape or stride is not a tuple of sizes"},
    {"big_endian", "was saved on a big-endian machine"},
    {"no_pickle", "is a zip archive without a data.pkl: torch.save did not write it"},
    {"compressed", "its member a/data.pkl is compressed, which torch.save never does"},
    {"not_a_zip", "is not a zip archive, as torch.save has written them since PyTorch 1.6"},
    {"nothing", "is not a zip archive"},
    {"half", "is not a zip archive"},
    {"wrong_checksum", "the checksum of its member a/data.pkl is wrong"},
    {"encrypted", "its member a/data/1 is encrypted"},
    {"directory_beyond", "its directory is beyond the end; the file is truncated or damaged"},
    {"too_many_members", "its directory is too short"},
    {"zip64_missing", "its zip64 record is missing"},
    {"member_beyond", "a member is beyond the end"},
    {"member_too_long", "a member is beyond the end"},
    {"name_too_long", "its directory is too short"},
};

TEST(HostileTorchFiles, AreRefusedByNameAndNothingIsExecuted) {
  for (const auto& [name, message] : kMessages) {
    const std::string got = error_of([&] { corpus_file(name); });
    if (message.empty()) {
      EXPECT_EQ(got, "") << name;
    } else {
      EXPECT_TRUE(got.starts_with(name + ": ")) << name << ": " << got;
      EXPECT_NE(got.find(message), std::string::npos) << name << ": " << got;
    }
  }
}

TEST(HostileTorchFiles, EachOfTheCorpusHasItsMessage) {
  for (const auto& entry : std::filesystem::directory_iterator(kCorpus)) {
    if (read_file(entry.path())[0] != 'z' || entry.path().filename().string().size() == 12)
      continue;
    EXPECT_TRUE(kMessages.contains(entry.path().filename())) << entry.path();
  }
}

TEST(HostileTorchFiles, CutAnywhereAreErrorsOrTheWhole) {
  const std::string bytes = read_file(source_path("tests/golden/projection_sparse.pt"));
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(error_of([&] { TorchFile(bytes.substr(0, size), "cut"); }),
              "cut: is not a zip archive, as torch.save has written them since PyTorch 1.6")
        << size;
  }
}

// A flipped bit is found by a checksum, or is in a field that no reader uses.
TEST(HostileTorchFiles, WithAFlippedBitAreErrorsOrTheSameValues) {
  const std::string bytes = read_file(source_path("tests/golden/projection_sparse.pt"));
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const int bit : {0, 3, 7}) {
      std::string flipped = bytes;
      flipped[at] = static_cast<char>(flipped[at] ^ 1 << bit);
      try {
        const TorchFile file(std::move(flipped), "flipped");
        ASSERT_EQ(file.items(file.root()).size(), 8u) << at;
        EXPECT_EQ(file.as_float(file.items(file.root())[1]), 3.0) << at;
      } catch (const Error&) {
      }
    }
  }
}

}  // namespace
}  // namespace xrun::torch_file_test
