// A model in ranges: what it reads of a folder, and the digests that others computed for it.

#include "core/model/model_load.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>

#include "core/base/error.h"
#include "core/model/ranged_weights.h"
#include "core/model/weights/hf_config.h"
#include "core/model/weights/weight_layout.h"
#include "tests/core/model/load_model.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"
#include "tests/tree.h"

namespace xrun::model_load_test {

namespace {

std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(source_path("tests/golden/models")) / name;
}

// Holds the third of `count` equal pieces of every weight.
class ThirdPiece : public RangedWeights {
 public:
  ThirdPiece(const std::vector<RangedParameter>& parameters, int64_t count) : pieces_(count) {
    for (const RangedParameter& parameter : parameters) {
      int64_t elements = 1;
      for (const int64_t size : parameter.shape) elements *= size;
      elements_.push_back(elements);
      held_.emplace_back();
    }
  }
  HeldRange held(size_t parameter) override {
    const int64_t all = elements_[parameter];
    const int64_t begin = all * 2 / pieces_;
    return {begin, all * 3 / pieces_ - begin};
  }
  void put(size_t parameter, const at::Tensor& range) override { held_[parameter] = range; }
  const at::Tensor& piece(size_t parameter) const { return held_[parameter]; }

  at::Tensor get(size_t) override { throw Error("not here"); }
  at::Tensor master(size_t) override { throw Error("not here"); }
  MasterRange master_range(size_t) override { throw Error("not here"); }
  int64_t held_bytes() const override { return 0; }
  void forget() override {}
  void keep_all(bool) override {}

 private:
  int64_t pieces_;
  std::vector<int64_t> elements_;
  std::vector<at::Tensor> held_;
};

FolderDigests digests_of(const std::filesystem::path& dir, const LoadOptions& options,
                         const std::vector<size_t>& cuts) {
  FolderDigests digests{{}, weight_files_state(dir)};
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    for (WeightDigest& one : digest_weights(dir, options, cuts[i], cuts[i + 1])) {
      digests.weights.push_back(std::move(one));
    }
  }
  return digests;
}

class ModelInRanges : public testing::Test {
 protected:
  // A copy of a golden folder, whose weights are named as in memory.
  void copy(const std::string& name) {
    dir_ = scratch_.path() / name;
    std::filesystem::remove_all(dir_);
    std::filesystem::copy(golden(name), dir_);
  }
  std::shared_ptr<ThirdPiece> load(LoadOptions options, int64_t pieces) {
    std::shared_ptr<ThirdPiece> ranged;
    options.make_ranged = [&](const std::vector<RangedParameter>& parameters, at::ScalarType,
                              c10::Device) {
      ranged = std::make_shared<ThirdPiece>(parameters, pieces);
      return ranged;
    };
    model_ = Model::load(dir_, options);
    return ranged;
  }
  size_t count() const { return weight_specs(read_model_config(dir_)).size(); }
  // Sets one element of a plain weight in the file.
  void set_element(const std::string& weight, int64_t element, float value) {
    const std::filesystem::path file = dir_ / "model.safetensors";
    std::vector<NamedTensor> all;
    {
      const SafetensorsFile open(file);
      for (const SafetensorsEntry& e : open.entries()) all.push_back({e.name, open.read(e.name)});
    }
    for (NamedTensor& one : all) {
      if (one.name == weight) one.tensor.view({-1})[element] = value;
    }
    write_safetensors(file, all);
  }

  const ScratchFolder scratch_;
  std::filesystem::path dir_;
  std::shared_ptr<Model> model_;
};

}  // namespace

TEST_F(ModelInRanges, ReadsItsPieceOfEveryWeightInEveryFormOfFile) {
  // Plain, transposed, and experts one by one.
  for (const char* name : {"tied_gqa", "gpt2_scaled", "qwen3_moe", "qwen3_moe_fused"}) {
    copy(name);
    const auto whole = load_model(dir_, at::kFloat, false);
    const auto ranged = load({}, 7);
    for (size_t i = 0; i < whole->parameters().size(); ++i) {
      const auto [begin, count] = ranged->held(i);
      if (count == 0) continue;
      const at::Tensor wanted = whole->parameters()[i].master.reshape({-1}).narrow(0, begin, count);
      EXPECT_TRUE(at::equal(ranged->piece(i), wanted))
          << name << " " << whole->parameters()[i].name;
    }
  }
}

TEST_F(ModelInRanges, DoesNotReadThePiecesOfOthers) {
  copy("tied_gqa");
  const std::string weight = "model.layers.0.mlp.up_proj.weight";
  set_element(weight, 0, std::numeric_limits<float>::quiet_NaN());
  EXPECT_NO_THROW(load({}, 3));
  EXPECT_NE(message_of<Error>([&] { load_model(dir_, at::kFloat, false); }).find("not finite"),
            std::string::npos);
  // The process that computes its digest checks its values.
  EXPECT_NE(message_of<Error>([&] {
              digests_of(dir_, {}, {0, count()});
            }).find(weight),
            std::string::npos);
}

TEST_F(ModelInRanges, DigestsOfSharesAreThoseOfTheWholeModel) {
  for (const bool trainable : {true, false}) {
    for (const char* name : {"tied_gqa", "gpt2_scaled", "qwen3_moe"}) {
      copy(name);
      LoadOptions options{.dtype = at::kBFloat16, .trainable = trainable};
      const auto whole = Model::load(dir_, options);
      options.digests = std::make_shared<FolderDigests>(
          digests_of(dir_, options, {0, 1, count() / 2, count() / 2, count()}));
      load(options, 4);
      EXPECT_EQ(model_->digest(), whole->digest()) << name;
      EXPECT_EQ(model_->digest(at::kBFloat16), whole->digest(at::kBFloat16)) << name;
    }
  }
}

TEST_F(ModelInRanges, AFolderThatChangedSinceItsDigestsIsRefused) {
  copy("tied_gqa");
  LoadOptions options;
  options.digests = std::make_shared<FolderDigests>(digests_of(dir_, options, {0, count()}));
  const std::filesystem::path file = dir_ / "model.safetensors";
  std::filesystem::last_write_time(
      file, std::filesystem::last_write_time(file) + std::chrono::seconds(1));
  EXPECT_EQ(message_of<Error>([&] { load(options, 3); }),
            dir_.string() +
                ": the files in this folder changed since the run opened it; restore the folder or "
                "begin a new run");
}

}  // namespace xrun::model_load_test
