// Properties of a model beyond its numbers: isolation of segments, same bits, clear refusals.

#include "core/model/model.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/roll.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/model/weights/init_model.h"
#include "core/model/weights/safetensors.h"
#include "tests/core/model/load_model.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

namespace xrun::model_test {

namespace {

class ModelTest : public testing::Test {
 protected:
  void SetUp() override {
    init_model(dir_, {.hidden = 32, .ffn = 48, .vocab = 97, .max_length = 64, .seed = 3});
  }

  std::string load_message(bool trainable = false) {
    try {
      load_model(dir_, at::kFloat, trainable);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  // Rewrites the weights after `change`.
  void change_weights(const std::function<void(std::vector<NamedTensor>&)>& change) {
    std::vector<NamedTensor> tensors;
    {
      const SafetensorsFile file(dir_ / "model.safetensors");
      for (const SafetensorsEntry& e : file.entries())
        tensors.push_back({e.name, file.read(e.name)});
    }
    change(tensors);
    write_safetensors(dir_ / "model.safetensors", tensors);
  }

  const ScratchFolder scratch_;
  const std::filesystem::path dir_ = scratch_ / "tiny";
};

std::vector<std::vector<int32_t>> three_sequences(int32_t middle) {
  return {{5, 6, 7, 8, 9, 10, 11}, {middle, 20, 21}, {40, 41, 42, 43, 44}};
}

}  // namespace

TEST_F(ModelTest, SegmentsNeverSeeEachOther) {
  const at::NoGradGuard no_grad;
  const auto model = load_model(dir_, at::kFloat, false);
  const at::Tensor a = model->forward(pack_sequences(three_sequences(3)));
  const at::Tensor b = model->forward(pack_sequences(three_sequences(90)));
  EXPECT_TRUE(a.narrow(0, 0, 7).equal(b.narrow(0, 0, 7)));
  EXPECT_TRUE(a.narrow(0, 10, 5).equal(b.narrow(0, 10, 5)));
  EXPECT_FALSE(a.narrow(0, 7, 3).equal(b.narrow(0, 7, 3)));
}

TEST_F(ModelTest, ALaterTokenDoesNotReachAnEarlierOne) {
  const at::NoGradGuard no_grad;
  const auto model = load_model(dir_, at::kFloat, false);
  const at::Tensor a = model->forward(pack_sequences({{1, 2, 3, 4, 5, 6}}));
  const at::Tensor b = model->forward(pack_sequences({{1, 2, 3, 4, 77, 6}}));
  EXPECT_TRUE(a.narrow(0, 0, 4).equal(b.narrow(0, 0, 4)));
  EXPECT_FALSE(a[4].equal(b[4]));
}

TEST_F(ModelTest, PositionsCountFromThePositionIdsNotFromThePack) {
  const at::NoGradGuard no_grad;
  const auto model = load_model(dir_, at::kFloat, false);
  PackInput shifted = pack_sequences({{1, 2, 3}});
  const at::Tensor plain = model->forward(shifted);
  shifted.position_ids = at::tensor({int64_t{0}, int64_t{2}, int64_t{4}}, at::kLong);
  EXPECT_FALSE(plain.equal(model->forward(shifted)));
  // Rotary attention depends only on differences of positions.
  shifted.position_ids = at::tensor({int64_t{7}, int64_t{8}, int64_t{9}}, at::kLong);
  EXPECT_LT((plain - model->forward(shifted)).abs().max().item<double>(), 1e-5);
}

TEST_F(ModelTest, PackedLogProbsMatchSeparateSequences) {
  const at::NoGradGuard no_grad;
  const auto model = load_model(dir_, at::kFloat, false);
  const auto sequences = three_sequences(3);
  const at::Tensor index = at::tensor({int64_t{0}, int64_t{5}, int64_t{8}, int64_t{13}}, at::kLong);
  const at::Tensor target =
      at::tensor({int64_t{6}, int64_t{11}, int64_t{21}, int64_t{44}}, at::kLong);
  const at::Tensor packed = model->token_logprob(pack_sequences(sequences), index, target);
  const std::vector<std::pair<size_t, int64_t>> rows = {{0, 0}, {0, 5}, {1, 1}, {2, 3}};
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto [sequence, t] = rows[i];
    const at::Tensor alone =
        model->token_logprob(pack_sequences({sequences[sequence]}), at::tensor({t}, at::kLong),
                             target.narrow(0, static_cast<int64_t>(i), 1));
    EXPECT_NEAR(alone.item<double>(), packed[static_cast<int64_t>(i)].item<double>(), 1e-5);
  }
}

TEST_F(ModelTest, GivesTheSameBitsAgainWithAndWithoutAGraph) {
  const auto model = load_model(dir_, at::kFloat, true);
  const PackInput input = pack_sequences(three_sequences(3));
  const at::Tensor with_graph = model->forward(input);
  EXPECT_TRUE(with_graph.requires_grad());
  const at::NoGradGuard no_grad;
  const at::Tensor without = model->forward(input);
  EXPECT_FALSE(without.requires_grad());
  EXPECT_TRUE(with_graph.equal(without));
}

TEST_F(ModelTest, GradientsOfTwoBackwardsAdd) {
  const auto model = load_model(dir_, at::kFloat, true);
  const auto backward = [&] { model->forward(pack_sequences({{1, 2, 3}})).sum().backward(); };
  backward();
  const at::Tensor once = model->parameters()[5].master.grad().clone();
  backward();
  EXPECT_TRUE((once * 2).equal(model->parameters()[5].master.grad()));
}

TEST_F(ModelTest, AnEmptyPackIsLegal) {
  const auto model = load_model(dir_, at::kFloat, true);
  EXPECT_EQ(model->forward(pack_sequences({})).sizes(), at::IntArrayRef({0, 32}));
  EXPECT_EQ(model->forward(pack_sequences({{}, {}})).sizes(), at::IntArrayRef({0, 32}));
}

// {1, 2, 3} over {4, 5} and {9, 8, 7}.
PackInput small_tree() {
  PackInput tree = pack_sequences({{1, 2, 3, 4, 5, 9, 8, 7}});
  tree.position_ids = at::tensor({0, 1, 2, 3, 4, 3, 4, 5}, at::kLong);
  tree.cu_seqlens = {0, 3, 5, 8};
  tree.parent = {-1, 0, 0};
  return tree;
}

TEST_F(ModelTest, ATreeHasTheHiddenStatesAndGradientsOfItsSequences) {
  const auto model = load_model(dir_, at::kFloat, true);
  const auto gradients = [&] {
    std::vector<at::Tensor> all;
    for (Parameter& parameter : model->parameters()) {
      all.push_back(parameter.master.grad().clone());
      parameter.master.mutable_grad() = at::Tensor();
    }
    return all;
  };
  const at::Tensor folded = model->forward(small_tree());
  const at::Tensor apart = model->forward(pack_sequences({{1, 2, 3, 4, 5}, {1, 2, 3, 9, 8, 7}}));
  const at::Tensor copies =
      folded.index_select(0, at::tensor({0, 1, 2, 3, 4, 0, 1, 2, 5, 6, 7}, at::kLong));
  EXPECT_LT((copies - apart).abs().max().item<double>(), 1e-5);
  const at::Tensor c = apart.detach().roll(1);
  (copies * c).sum().backward();
  const auto got = gradients();
  (apart * c).sum().backward();
  const auto wanted = gradients();
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_LT((got[i] - wanted[i]).abs().max().item<double>(),
              1e-5 * (1 + wanted[i].abs().max().item<double>()));
  }
}

TEST_F(ModelTest, RefusesTreesThatDoNotFit) {
  const auto model = load_model(dir_, at::kFloat, false);
  const auto refusal = [&](const PackInput& input) {
    try {
      model->forward(input);
      return std::string("none");
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  PackInput tree = small_tree();
  EXPECT_EQ(refusal(tree), "none");
  tree.rope_length = {6, 5};
  EXPECT_EQ(refusal(tree), "pack: rope_length has 2 entries, wanted 3, one per node");
  tree = small_tree();
  tree.parent = {-1, 2, 0};
  EXPECT_EQ(refusal(tree), "pack: parent[1] is 2, wanted -1 (a root) or a node before 1");
}

TEST_F(ModelTest, RefusesTokensAndPacksThatDoNotFit) {
  const auto model = load_model(dir_, at::kFloat, false);
  EXPECT_EQ(message_of<Error>([&] {
              model->forward(pack_sequences({{1, 97}}));
            }),
            "token 1 of the pack is 97, outside the model's vocabulary of 97");
  EXPECT_EQ(error_of([&] { model->forward(pack_sequences({{-1}})); }),
            "token 0 of the pack is -1, outside the model's vocabulary of 97");
  PackInput wrong = pack_sequences({{1, 2, 3}});
  wrong.cu_seqlens = {0, 2};
  EXPECT_EQ(error_of([&] { model->forward(wrong); }),
            "pack: cu_seqlens[1] is 2, wanted 3, the number of rows");
  wrong.cu_seqlens = {0, 3};
  wrong.position_ids = wrong.position_ids.narrow(0, 0, 2);
  EXPECT_EQ(error_of([&] { model->forward(wrong); }),
            "a pack needs as many positions as tokens; it has 2 and 3");
}

TEST_F(ModelTest, OneErrorListsMissingUnexpectedAndMisshapen) {
  change_weights([](std::vector<NamedTensor>& tensors) {
    std::erase_if(tensors, [](const NamedTensor& t) { return t.name == "model.norm.weight"; });
    tensors.push_back({"model.layers.7.mlp.up_proj.weight", at::ones({2})});
    tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", at::ones({2})});
    for (NamedTensor& t : tensors) {
      if (t.name == "model.layers.1.mlp.down_proj.weight") t.tensor = t.tensor.t();
    }
  });
  EXPECT_EQ(
      load_message(),
      dir_.string() +
          ": the weights do not fit config.json (model_type llama):"
          "\n  1 missing: model.norm.weight"
          "\n  1 unexpected: model.layers.7.mlp.up_proj.weight"
          "\n  1 misshapen: model.layers.1.mlp.down_proj.weight is [48, 32], wanted [32, 48]");
}

TEST_F(ModelTest, ATiedHeadInTheFileMustEqualTheEmbedding) {
  change_weights([](std::vector<NamedTensor>& tensors) {
    for (const NamedTensor& t : std::vector(tensors)) {
      if (t.name == "model.embed_tokens.weight") tensors.push_back({"lm_head.weight", t.tensor});
    }
  });
  EXPECT_EQ(load_message(), "no error");
  change_weights([](std::vector<NamedTensor>& tensors) {
    for (NamedTensor& t : tensors) {
      if (t.name == "lm_head.weight") t.tensor = t.tensor + 1;
    }
  });
  EXPECT_NE(load_message().find("set tie_word_embeddings to false"), std::string::npos);
}

TEST_F(ModelTest, NanWeightsAreNamed) {
  change_weights([](std::vector<NamedTensor>& tensors) {
    for (NamedTensor& t : tensors) {
      if (t.name == "model.norm.weight") t.tensor.narrow(0, 3, 2).fill_(std::nan(""));
      if (t.name == "model.embed_tokens.weight") t.tensor[5][2].fill_(INFINITY);
    }
  });
  EXPECT_EQ(load_message(),
            dir_.string() +
                ": 2 weights are not finite: model.embed_tokens.weight (infinity), "
                "model.norm.weight (2 NaN); the file is damaged or its training diverged");
}

TEST_F(ModelTest, WeightsBeyondTheStorageTypeAreNamed) {
  change_weights([](std::vector<NamedTensor>& tensors) {
    for (NamedTensor& t : tensors) {
      if (t.name == "model.norm.weight") t.tensor[0].fill_(-1.2e5);
    }
  });
  EXPECT_EQ(load_message(), "no error");
  EXPECT_EQ(message_of<Error>([&] { load_model(dir_, at::kHalf, false); }),
            dir_.string() +
                ": model.norm.weight has values up to 1.2e+05, beyond fp16's "
                "65504; load it as bf16 or fp32");
}

TEST_F(ModelTest, ATruncatedFileIsNamed) {
  std::filesystem::resize_file(dir_ / "model.safetensors", 5000);
  EXPECT_NE(load_message().find("model.safetensors"), std::string::npos);
  EXPECT_NE(load_message().find("truncated"), std::string::npos);
  std::filesystem::remove(dir_ / "model.safetensors");
  EXPECT_NE(load_message().find("neither model.safetensors nor"), std::string::npos);
  std::filesystem::remove_all(dir_);
  EXPECT_EQ(load_message(), dir_.string() + ": there is no such model folder");
}

TEST_F(ModelTest, Bf16CopiesFollowTheMastersAfterAnUpdateIsCounted) {
  const auto model = load_model(dir_, at::kBFloat16, true);
  const PackInput input = pack_sequences({{1, 2, 3}});
  EXPECT_EQ(model->parameters()[0].master.scalar_type(), at::kFloat);
  const at::Tensor before = model->forward(input).detach().clone();
  {
    const at::NoGradGuard no_grad;
    model->parameters()[0].master.mul_(3);
  }
  EXPECT_TRUE(before.equal(model->forward(input).detach()));
  ++model->update_count;
  EXPECT_FALSE(before.equal(model->forward(input).detach()));
  model->forward(input).to(at::kFloat).square().sum().backward();
  EXPECT_EQ(model->parameters()[0].master.grad().scalar_type(), at::kFloat);
  EXPECT_GT(model->parameters()[0].master.grad().abs().max().item<double>(), 0);
}

TEST_F(ModelTest, ADigestChangesWithOneBitAndACloneKeepsIt) {
  const auto model = load_model(dir_, at::kFloat, true);
  const auto copy = model->clone(false);
  EXPECT_EQ(model->digest(), copy->digest());
  EXPECT_EQ(model->digest(), load_model(dir_, at::kFloat, true)->digest());
  {
    const at::NoGradGuard no_grad;
    model->parameters()[3].master.view({-1})[1].add_(1e-6);
  }
  EXPECT_NE(model->digest(), copy->digest());
  EXPECT_FALSE(copy->trainable());
  EXPECT_FALSE(copy->parameters()[0].master.requires_grad());
}

TEST_F(ModelTest, TheNumberOfThreadsChangesNothingBeyondRounding) {
  const at::NoGradGuard no_grad;
  const auto model = load_model(dir_, at::kFloat, false);
  const PackInput input = pack_sequences(three_sequences(3));
  const int threads = at::get_num_threads();
  at::set_num_threads(2);
  const at::Tensor many = model->forward(input);
  at::set_num_threads(1);
  const at::Tensor one = model->forward(input);
  at::set_num_threads(threads);
  EXPECT_LT((many - one).abs().max().item<double>(), 1e-5);
}

}  // namespace xrun::model_test
