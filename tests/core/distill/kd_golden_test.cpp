// Losses and gradients of NeMo-RL and TRL on the same logits (tests/golden/make/kd_losses.py), and
// the numbers of small examples worked out by hand.

#include <ATen/ops/eye.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/json.h"
#include "tests/core/distill/kd_fixture.h"
#include "tests/parity.h"
#include "tests/tensor_difference.h"
#include "tests/tree.h"

namespace xrun::kd_golden_test {

namespace {

std::vector<int64_t> integers(const Json& list) {
  std::vector<int64_t> values;
  for (const Json& x : list.as_array()) values.push_back(x.as_int());
  return values;
}

at::Tensor matrix(const std::vector<std::vector<double>>& rows) {
  std::vector<double> flat;
  for (const auto& row : rows) flat.insert(flat.end(), row.begin(), row.end());
  return at::tensor(flat, at::kDouble).view({std::ssize(rows), -1});
}

at::Tensor matrix(const Json& rows) {
  std::vector<std::vector<double>> values;
  for (const Json& row : rows.as_array()) {
    values.emplace_back();
    for (const Json& x : row.as_array()) values.back().push_back(x.as_double());
  }
  return matrix(values);
}

// A side whose logits are given: the head is the identity.
KdSide side_of(const at::Tensor& logits, const std::vector<int64_t>& chunk,
               const std::vector<int64_t>& target) {
  KdSide side;
  side.hidden = logits;
  side.weight = at::eye(logits.size(1), at::kDouble);
  std::vector<int64_t> index;
  for (size_t r = 0; r < chunk.size(); ++r) index.push_back(static_cast<int64_t>(r));
  side.index = at::tensor(index, at::kLong);
  side.chunk = at::tensor(chunk, at::kLong);
  side.target = at::tensor(target, at::kLong);
  return side;
}

// The chunks of a case out of all rows of a side, numbered again.
KdSide chosen(const at::Tensor& logits, const std::vector<int64_t>& target, const Json& sizes,
              size_t side, const std::vector<int64_t>& chunks) {
  std::vector<int64_t> rows, ids, targets;
  for (size_t i = 0; i < chunks.size(); ++i) {
    int64_t first = 0;
    const auto size_of = [&](int64_t c) { return integers(sizes.as_array()[c])[side]; };
    for (int64_t c = 0; c < chunks[i]; ++c) first += size_of(c);
    for (int64_t r = first; r < first + size_of(chunks[i]); ++r) {
      rows.push_back(r);
      ids.push_back(static_cast<int64_t>(i));
      targets.push_back(target[r]);
    }
  }
  return side_of(logits.index_select(0, at::tensor(rows, at::kLong)), ids, targets);
}

std::shared_ptr<const VocabularyMap> golden_map(const Json& golden, const char* common) {
  const Json& projection = golden.at("projection");
  const at::Tensor id = matrix(projection.at("id")), weight = matrix(projection.at("weight"));
  std::vector<int64_t> begin = {0};
  std::vector<int32_t> ids;
  std::vector<float> weights;
  for (int64_t s = 0; s < id.size(0); ++s) {
    for (int64_t k = 0; k < id.size(1); ++k) {
      const auto t = static_cast<int32_t>(id[s][k].item<double>());
      if (t < 0) continue;
      ids.push_back(t);
      weights.push_back(static_cast<float>(weight[s][k].item<double>()));
    }
    begin.push_back(std::ssize(ids));
  }
  std::vector<std::pair<int32_t, int32_t>> pairs;
  for (const Json& pair : golden.at("common").at(common).as_array()) {
    pairs.emplace_back(integers(pair)[0], integers(pair)[1]);
  }
  const int64_t Vt = matrix(golden.at("teacher")).size(1);
  return std::make_shared<const VocabularyMap>(
      make_vocabulary_map(id.size(0), Vt, begin, ids, weights, pairs));
}

at::Tensor log_rows(const std::vector<std::vector<double>>& rows) { return matrix(rows).log(); }

}  // namespace

TEST(KdGolden, LossesAndGradientsMatchNemoAndTrl) {
  const Json golden = read_json(source_path("tests/golden/kd_losses.json"));
  const Json& sizes = golden.at("sizes");
  for (const Json& one : golden.at("cases").as_array()) {
    const std::string name = one.at("name").as_string();
    const std::vector<int64_t> chunks = integers(one.at("chunks"));
    KdProblem p;
    p.chunks = std::ssize(chunks);
    const auto student_target = integers(golden.at("student_target"));
    p.student = chosen(matrix(golden.at("student")), student_target, sizes, 0, chunks);
    KdOptions options = {.loss = kd_loss_of(name)};
    if (one_vocabulary(options.loss)) {
      p.teacher = chosen(matrix(golden.at("same")), student_target, sizes, 0, chunks);
    } else {
      p.teacher = chosen(matrix(golden.at("teacher")), integers(golden.at("teacher_target")), sizes,
                         1, chunks);
      if (name != "uld") p.map = golden_map(golden, name == "h-kl" ? "h-kl" : "gold");
    }
    options.temperature = one.at("temperature").as_double();
    options.reverse = one.at("reverse").as_bool();
    options.top_k = one.at("topk").as_int();
    options.beta = one.at("beta").as_double();
    const at::Tensor hidden = p.student.hidden.set_requires_grad(true);
    const at::Tensor loss = kd_loss(p.student, p.teacher, p.chunks, options, p.map).mean();
    loss.backward();
    // NeMo divides by the number of tokens of a chunk plus 1e-10.
    SCOPED_TRACE(name);
    expect_parity(loss.item<double>(), one.at("loss").as_double(), 2e-9);
    const double apart = largest_difference(hidden.grad(), matrix(one.at("gradient")));
    EXPECT_LT(apart, 2e-9);
    note_parity(apart, 2e-9);
  }
}

// tests/golden/make/kd_by_hand.py: each formula for one chunk in plain Python.
TEST(KdGolden, EveryFormOfALossIsItsFormulaOnChunksOf1To9Tokens) {
  const Json golden = read_json(source_path("tests/golden/kd_by_hand.json"));
  // Token r of chunk c is (c + r) % V, as in the script.
  const auto side = [&](const char* name) {
    std::vector<int64_t> chunk, target;
    std::vector<std::vector<double>> rows;
    const auto& chunks = golden.at(name).as_array();
    for (size_t c = 0; c < chunks.size(); ++c) {
      const auto& tokens = chunks[c].as_array();
      for (size_t r = 0; r < tokens.size(); ++r) {
        rows.emplace_back();
        for (const Json& p : tokens[r].as_array()) rows.back().push_back(p.as_double());
        chunk.push_back(static_cast<int64_t>(c));
        target.push_back(static_cast<int64_t>((c + r) % rows.back().size()));
      }
    }
    return side_of(log_rows(rows), chunk, target);
  };
  const KdSide student = side("student"), teacher = side("teacher"), same = side("same");
  std::vector<int64_t> begin = {0};
  std::vector<int32_t> ids;
  std::vector<float> weights;
  for (const Json& entries : golden.at("projection").as_array()) {
    for (const Json& entry : entries.as_array()) {
      ids.push_back(static_cast<int32_t>(entry.as_array()[0].as_int()));
      weights.push_back(static_cast<float>(entry.as_array()[1].as_double()));
    }
    begin.push_back(std::ssize(ids));
  }
  std::vector<std::pair<int32_t, int32_t>> common;
  for (const Json& pair : golden.at("common").as_array()) {
    common.emplace_back(integers(pair)[0], integers(pair)[1]);
  }
  const auto map = std::make_shared<const VocabularyMap>(make_vocabulary_map(
      student.weight.size(1), teacher.weight.size(1), begin, ids, weights, common));
  const int64_t chunks = std::ssize(golden.at("sizes").as_array());
  int64_t compared = 0;
  for (const Json& one : golden.at("cases").as_array()) {
    const std::string name = one.at("name").as_string();
    KdOptions options = {.loss = kd_loss_of(name)};
    options.temperature = one.at("temperature").as_double();
    options.reverse = one.at("reverse").as_bool();
    options.top_k = one.at("topk").as_int();
    if (one.at("mean").is_string()) options.mean = chunk_mean_of(one.at("mean").as_string());
    const bool own = one_vocabulary(options.loss);
    const at::Tensor loss = kd_loss(student, own ? same : teacher, chunks, options,
                                    own || name == "uld" ? nullptr : map);
    const auto& wanted = one.at("loss").as_array();
    ASSERT_EQ(std::ssize(wanted), chunks);
    for (int64_t c = 0; c < chunks; ++c, ++compared) {
      const double want = wanted[static_cast<size_t>(c)].as_double();
      EXPECT_NEAR(loss[c].item<double>(), want, 1e-12 * std::max(1.0, std::abs(want)))
          << name << " " << dump_json(one.at("mean")) << " chunk " << c;
    }
  }
  EXPECT_EQ(compared, 6 * 4 * 2 * (2 * 7 - 2));
}

// Student rows (.5, .25, .25), (.2, .5, .3), teacher rows below; the chunks of the worked example
// after the shift by one token, its first chunk being one-sided.
TEST(KdGolden, ProjectedKlOfTheWorkedExample) {
  const KdSide student = side_of(log_rows({{.5, .25, .25}, {.2, .5, .3}}), {0, 1}, {0, 0});
  const KdSide teacher = side_of(log_rows({{.1, .1, .7, .1}, {.1, .1, .1, .7}, {.2, .6, .1, .1}}),
                                 {0, 0, 1}, {0, 0, 0});
  const auto map = std::make_shared<const VocabularyMap>(
      make_vocabulary_map(3, 4, {0, 1, 2, 4}, {0, 1, 2, 3},
                          {1, 1, static_cast<float>(10.0 / 11), static_cast<float>(1.0 / 11)}, {}));
  const at::Tensor kl = kd_loss(student, teacher, 2, {.top_k = 4}, map);
  // The weights 10/11 and 1/11 are fp32 in a projection.
  EXPECT_NEAR(kl[0].item<double>(), .4370512456, 1e-7);
  EXPECT_NEAR(kl[1].item<double>(), .1389910211, 1e-7);
  EXPECT_NEAR(kl.mean().item<double>(), .2880211334, 1e-7);
}

// Exact tokens 0 -> 1 and 3 -> 0; one token per side, so the means are the rows.
TEST(KdGolden, GoldAndItsTwoTermsByHand) {
  const KdSide student = side_of(log_rows({{.4, .3, .2, .1}}), {0}, {0});
  const KdSide teacher = side_of(log_rows({{.2, .5, .3}}), {0}, {0});
  const auto map = std::make_shared<const VocabularyMap>(make_vocabulary_map(
      4, 3, {0, 1, 2, 4, 5}, {1, 1, 2, 0, 0}, {1, 1, .7f, .3f, 1}, {{0, 1}, {3, 0}}));
  EXPECT_EQ(map->rest_student, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(map->rest_teacher, std::vector<int32_t>{2});
  const double kl = .5 * std::log(.5 / .4) + .2 * std::log(.2 / .1);
  const double reverse = .4 * std::log(.4 / .5) + .1 * std::log(.1 / .2);
  const double l1 = 0;  // |.3 - .3|, the longer tail is left out
  const auto value = [&](KdOptions options) {
    return kd_loss(student, teacher, 1, options, map).item<double>();
  };
  EXPECT_NEAR(value({.loss = KdLoss::kGold}), kl + l1, 1e-12);
  EXPECT_NEAR(value({.loss = KdLoss::kGold, .reverse = true}), reverse + l1, 1e-12);
  EXPECT_NEAR(value({.loss = KdLoss::kRelaxed}), kl + l1, 1e-12);
}

TEST(KdGolden, UldPadsTheSmallerVocabularyWithZeros) {
  const KdSide student = side_of(log_rows({{.1, .5, .25, .15}}), {0}, {0});
  const KdSide teacher = side_of(log_rows({{.3, .7}}), {0}, {0});
  const double l1 = .2 + .05 + .15 + .1;
  EXPECT_NEAR(kd_loss(student, teacher, 1, {.loss = KdLoss::kUld}).item<double>(), l1, 1e-12);
}

// A chain is the first token's distribution times the later token's probability.
TEST(KdGolden, AChainMultipliesTheLaterTokensOfTheText) {
  const KdSide student = side_of(log_rows({{.6, .4}, {.5, .5}}), {0, 0}, {1, 0});
  const KdSide teacher = side_of(log_rows({{.9, .1}, {.2, .8}}), {0, 0}, {0, 1});
  // (.3, .2) against (.72, .08)
  EXPECT_NEAR(kd_loss(student, teacher, 1, {.loss = KdLoss::kUld}).item<double>(), .42 + .12,
              1e-12);
  // Means of the same rows: (.55, .45) against (.55, .45), both sorted.
  EXPECT_NEAR(kd_loss(student, teacher, 1, {.loss = KdLoss::kUld, .mean = ChunkMean::kArithmetic})
                  .item<double>(),
              0, 1e-12);
}

TEST(KdGolden, TopKDividesBothSidesByTheirSumOnTheColumns) {
  const KdSide student = side_of(log_rows({{.2, .3, .5}}), {0}, {0});
  const KdSide teacher = side_of(log_rows({{.6, .3, .1}}), {0}, {0});
  const double q = .6 / .9, p = .2 / .5;
  const double kl = q * std::log(q / p) + (1 - q) * std::log((1 - q) / (1 - p));
  EXPECT_NEAR(kd_loss(student, teacher, 1, {.loss = KdLoss::kTopK, .top_k = 2}).item<double>(), kl,
              1e-12);
}

}  // namespace xrun::kd_golden_test
