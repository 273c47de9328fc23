// xrun.kd over the packs of an aligned data set: the step's loss and gradients are those of a dense
// oracle in fp64 that reads each document alone, in any packs.

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "core/align/aligned_rows.h"
#include "core/align/companion_maker.h"
#include "core/data/packs/data_set.h"
#include "core/distill/kd_view.h"
#include "core/distill/projection_build.h"
#include "core/model/weights/init_model.h"
#include "core/train/batches/data_batch.h"
#include "core/train/models/frozen_model.h"
#include "tests/core/align/two_tokenizers.h"
#include "tests/core/distill/aligned_oracle.h"
#include "tests/core/train/trained.h"

namespace xrun::kd_aligned_test {
namespace {

constexpr double kCe = 0.3;  // weight of the cross entropy beside the chunks

constexpr KdLoss kLosses[] = {KdLoss::kProjected, KdLoss::kGold, KdLoss::kRelaxed, KdLoss::kUld,
                              KdLoss::kHybrid};

// Either a student of bytes and a teacher of pieces, or the reverse.
class KdAligned : public TwoTokenizers {
 protected:
  explicit KdAligned(bool bytes_learn = true)
      : student_tokenizer_(bytes_learn ? bytes() : pieces()),
        teacher_tokenizer_(bytes_learn ? pieces() : bytes()) {
    write_bytes_tokenizer(made("bytes"));
    const std::filesystem::path bytes_folder = folder_.path() / "bytes";
    const std::filesystem::path pieces_folder = source_path("recipes/data/tokenizer");
    student_ = Policy::open(model("student", bytes_learn ? bytes_folder : pieces_folder, 1));
    teacher_dir_ = model("teacher", bytes_learn ? pieces_folder : bytes_folder, 2);
    teacher_ = FrozenModel::open(teacher_dir_);
    teacher_as_policy_ = Policy::open(teacher_dir_);
    adamw_ = std::make_shared<AdamW>(std::vector<std::shared_ptr<Trainable>>{student_},
                                     AdamWOptions{.lr = 1e-2});
  }

  std::filesystem::path made(const std::string& name) const {
    make_dirs(folder_.path() / name);
    return folder_.path() / name;
  }
  // Its embedding has rows beyond the tokenizer's ids.
  std::filesystem::path model(const std::string& name, const std::filesystem::path& tokenizer,
                              uint64_t seed) const {
    InitOptions options;
    options.hidden = 32;
    options.heads = 4;
    options.ffn = 48;
    options.scale = 0.2;
    options.seed = seed;
    options.tokenizer = tokenizer;
    options.vocab = Tokenizer::load(tokenizer)->vocab_size() + 5;
    init_model(folder_.path() / name, options);
    return folder_.path() / name;
  }

  //   limit  tokens that the teacher reads; 0: any number
  DataSet documents(const std::vector<std::string>& texts, int64_t limit = 0) const {
    std::string lines;
    for (const std::string& text : texts) lines += "{\"text\":\"" + text + "\"}\n";
    write_file_atomic(folder_.path() / "text.jsonl", lines);
    DataOptions options;
    options.kind = RowKind::kText;
    options.sources.resize(1);
    options.sources[0].path = (folder_.path() / "text.jsonl").string();
    options.settings.end_of_text = false;
    options.cache_root = folder_.path() / "cache";
    const auto retokenizer = std::make_shared<const Retokenizer>(
        student_tokenizer_, teacher_tokenizer_, RetokenizerOptions{.limit = limit});
    return DataSet::open(options, *student_tokenizer_, nullptr)
        .with_companion(std::make_shared<AlignedRows>(
            std::make_shared<TextCompanions>(retokenizer, 1), folder_.path() / "sidecars"));
  }
  static std::vector<std::string> texts() {
    return {"the town has a hill",
            "Albury lies on a river, 水",
            "a",
            "naïve ideas cost 201 crowns",
            "the old bridge of the town was built in 1823",
            "the"};
  }
  std::shared_ptr<Batch> batch(const DataSet& set, std::vector<int64_t> units,
                               int64_t max_tokens) const {
    BatchInfo info;
    info.tokenizer = {student_tokenizer_, "student"};
    info.total_steps = 10;
    return data_batch(set, units, max_tokens, info);
  }
  std::shared_ptr<Batch> batch(const DataSet& set, int64_t max_tokens) const {
    std::vector<int64_t> units;
    for (int64_t i = 0; i < set.size(); ++i) units.push_back(set.unit(i));
    return batch(set, units, max_tokens);
  }

  KdPair pair(KdLoss loss) {
    KdPair made{*student_, *teacher_, {.loss = loss, .temperature = 1.3, .top_k = 40}};
    if (loss == KdLoss::kUld) {
      made.options.top_k = KdOptions().top_k;
      return made;
    }
    const Projection p = build_projection(*student_tokenizer_, *teacher_tokenizer_);
    auto common = loss == KdLoss::kProjected ? std::vector<std::pair<int32_t, int32_t>>()
                                             : exact_map(p, loss == KdLoss::kRelaxed ? 0.6 : 1.0);
    made.map = std::make_shared<const VocabularyMap>(make_vocabulary_map(
        p.student_vocab, p.teacher_vocab, p.begin, p.id, p.weight, std::move(common)));
    return made;
  }
  Objective objective(const KdPair& pair) const {
    return [pair, this](MicroBatch& micro) {
      const View view = micro.all();
      ObjectiveResult result;
      result.losses = {{Unit::kChunk, kd_loss_of(view, pair)},
                       {Unit::kToken, student_->token_logprob(view).mul(-kCe)}};
      return result;
    };
  }

  struct Stepped {
    double loss = 0;
    std::vector<at::Tensor> gradients;
  };
  Stepped step(Batch& batch, const Objective& objective) const {
    Stepped out;
    StepOptions options;
    options.read_gradients = [&] {
      for (const NamedTensor& one : adamw_->gradients()) {
        out.gradients.push_back(one.tensor.clone());
      }
    };
    out.loss = value(train_step({{&batch, objective}}, adamw_.get(), options), "loss");
    return out;
  }

  // The step of p-kl with a teacher that is opened with `cache`.
  Stepped stepped_with(FrozenCache cache, const DataSet& set, int64_t max_tokens) {
    FrozenOptions options;
    options.cache = cache;
    options.top_k = 40;
    const auto teacher = FrozenModel::open(teacher_dir_, options);
    KdPair given{
        *student_, *teacher, {.loss = KdLoss::kProjected, .temperature = 1.3, .top_k = 40}};
    given.map = pair(KdLoss::kProjected).map;
    return step(*batch(set, max_tokens), objective(given));
  }
  void expect_cached_is_online() {
    for (const int64_t limit : {int64_t{0}, int64_t{9}}) {
      const DataSet set = documents(texts(), limit);
      for (const int64_t max_tokens : {int64_t{45}, int64_t{1000}}) {
        const Stepped online = stepped_with(FrozenCache::kNone, set, max_tokens);
        for (const FrozenCache cache : {FrozenCache::kTopColumns, FrozenCache::kHidden}) {
          const Stepped cached = stepped_with(cache, set, max_tokens);
          EXPECT_EQ(cached.loss, online.loss);
          ASSERT_EQ(cached.gradients.size(), online.gradients.size());
          for (size_t i = 0; i < online.gradients.size(); ++i) {
            EXPECT_TRUE(cached.gradients[i].equal(online.gradients[i])) << i;
          }
        }
      }
    }
  }

  // The step's loss and gradients by the dense oracle.
  Stepped oracle(const std::vector<std::string>& texts, const KdPair& pair) {
    const OracleLoss found = aligned_oracle(texts, {*student_, *student_tokenizer_},
                                            {*teacher_as_policy_, *teacher_tokenizer_}, pair, kCe);
    chunks_ = found.chunks;
    found.loss.backward();
    Stepped out{found.loss.item<double>(), {}};
    for (Parameter& parameter : student_->parameters()) {
      out.gradients.push_back(parameter.master.grad().clone());
      parameter.master.mutable_grad().reset();
    }
    return out;
  }

  void expect_oracle() {
    const auto whole = batch(documents(texts()), 1000);
    for (const KdLoss loss : kLosses) {
      const KdPair given = pair(loss);
      const Stepped want = oracle(texts(), given), got = step(*whole, objective(given));
      EXPECT_EQ(whole->micros()[0]->unit_count(Unit::kChunk), chunks_);
      EXPECT_NEAR(got.loss, want.loss, 1e-5 * std::abs(want.loss)) << kd_loss_name(loss);
      EXPECT_LT(distance(got, want), 1e-5) << kd_loss_name(loss);
    }
    EXPECT_GT(chunks_, 20);
  }

  // The norm of the difference over the norm.
  static double distance(const Stepped& a, const Stepped& b) {
    double difference = 0, size = 0;
    EXPECT_EQ(a.gradients.size(), b.gradients.size());
    for (size_t i = 0; i < a.gradients.size(); ++i) {
      const at::Tensor x = a.gradients[i].to(at::kDouble), y = b.gradients[i].to(at::kDouble);
      difference += x.sub(y).square().sum().item<double>();
      size += y.square().sum().item<double>();
    }
    EXPECT_GT(size, 0);
    return std::sqrt(difference / size);
  }

  TinyFolder folder_;
  std::shared_ptr<const Tokenizer> student_tokenizer_, teacher_tokenizer_;
  std::filesystem::path teacher_dir_;
  std::shared_ptr<Policy> student_, teacher_as_policy_;
  std::shared_ptr<FrozenModel> teacher_;
  std::shared_ptr<AdamW> adamw_;
  int64_t chunks_ = 0;  // of the last oracle
};

class KdAlignedPieces : public KdAligned {
 protected:
  KdAlignedPieces() : KdAligned(/*bytes_learn=*/false) {}
};

TEST_F(KdAligned, TheStepMatchesADenseOracle) { expect_oracle(); }

TEST_F(KdAlignedPieces, TheStepMatchesADenseOracle) { expect_oracle(); }

TEST_F(KdAligned, ACachedTeacherGivesTheBitsOfTheOnlineOne) { expect_cached_is_online(); }

// Chunks of several tokens of the teacher.
TEST_F(KdAlignedPieces, ACachedTeacherGivesTheBitsOfTheOnlineOne) { expect_cached_is_online(); }

TEST_F(KdAligned, PacksChangeNeitherLossNorGradient) {
  const DataSet set = documents(texts());
  for (const KdLoss loss : kLosses) {
    const Objective objective = this->objective(pair(loss));
    const Stepped whole = step(*batch(set, 1000), objective);
    std::vector<int64_t> reversed;
    for (int64_t i = set.size(); i-- > 0;) reversed.push_back(set.unit(i));
    const auto many = batch(set, 45), other = batch(set, reversed, 90);
    ASSERT_GT(many->micros().size(), 2u);
    ASSERT_NE(other->micros().size(), many->micros().size());
    for (const auto& apart : {many, other}) {
      const Stepped stepped = step(*apart, objective);
      EXPECT_NEAR(stepped.loss, whole.loss, 1e-6 * std::abs(whole.loss)) << kd_loss_name(loss);
      EXPECT_LT(distance(stepped, whole), 1e-6) << kd_loss_name(loss);
    }
  }
}

TEST_F(KdAlignedPieces, PacksChangeNothingForATeacherOfTheStudentsVocabulary) {
  const DataSet set = documents(texts()).with_row_chunks(0);
  const auto own =
      FrozenModel::open(model("own", source_path("recipes/data/tokenizer"), /*seed=*/3));
  for (const KdLoss loss : {KdLoss::kTopK, KdLoss::kFull}) {
    KdPair given{*student_, *own, {.loss = loss, .temperature = 1.3}};
    if (loss == KdLoss::kTopK) given.options.top_k = 40;
    const Objective objective = this->objective(given);
    const Stepped whole = step(*batch(set, 1000), objective);
    for (const int64_t max_tokens : {int64_t{20}, int64_t{45}}) {
      const auto apart = batch(set, max_tokens);
      ASSERT_GT(apart->micros().size(), 1u);
      const Stepped stepped = step(*apart, objective);
      EXPECT_NEAR(stepped.loss, whole.loss, 1e-6 * std::abs(whole.loss)) << kd_loss_name(loss);
      EXPECT_LT(distance(stepped, whole), 1e-6) << kd_loss_name(loss);
    }
  }
}

// The teacher reads "the" as one token, which nothing predicts: the document has no valid chunk,
// though two of its bytes are trained.
TEST_F(KdAligned, AMicroBatchWithoutAChunkIsAConnectedZero) {
  const DataSet set = documents({"the", "the town has a hill"});
  const auto without = batch(set, {0}, 1000);
  MicroBatch& micro = *without->micros()[0];
  ASSERT_EQ(micro.row_count(), 2);
  ASSERT_EQ(micro.unit_count(Unit::kChunk), 0);
  for (const KdLoss loss : kLosses) {
    const KdPair given = pair(loss);
    const at::Tensor kd = kd_loss_of(micro.all(), given);
    EXPECT_EQ(kd.sizes(), at::IntArrayRef({0}));
    ASSERT_TRUE(kd.requires_grad());
    kd.sum().backward();
    for (Parameter& parameter : student_->parameters()) {
      const at::Tensor gradient = parameter.master.grad();
      ASSERT_TRUE(gradient.defined()) << parameter.name;
      EXPECT_EQ(gradient.abs().max().item<double>(), 0) << parameter.name;
      parameter.master.mutable_grad().reset();
    }
    without->close();
    // In a micro-batch of its own it adds to the tokens alone.
    const auto apart = batch(set, {0, 1}, 20);
    ASSERT_EQ(apart->micros().size(), 2u);
    const Stepped together = step(*batch(set, {0, 1}, 1000), objective(given)),
                  got = step(*apart, objective(given));
    EXPECT_NEAR(got.loss, together.loss, 1e-6 * std::abs(together.loss));
    EXPECT_LT(distance(got, together), 1e-6);
  }
}

}  // namespace
}  // namespace xrun::kd_aligned_test
