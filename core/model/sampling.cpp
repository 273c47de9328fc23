// A row becomes e = exp((x - max) (1 / T)), as in the fused head. Top k, top p (Holtzman et al.
// 2020) and min p (Nguyen et al. 2024) each set the removed tokens to 0, in this order; the draw
// inverts the cumulative sum of the rest:
//   token = min { i : e_0 + ... + e_i > u sum e },  u uniform in [0, 1)

#include "core/model/sampling.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/base/error.h"
#include "core/base/philox.h"
#include "kernels/cpu/kernels.h"

namespace xrun {

namespace {

constexpr double kLowestTemperature = 1e-3, kHighestTemperature = 1e3;
constexpr int kSampleBits = 20;  // of a draw key; the prompt has the rest

// Returns the sum of n numbers in double, in a fixed order: eight lanes, which a compiler may
// vectorise without changing the bits, then their sum.
double lane_sum(const float* e, int64_t n) {
  std::array<double, 8> lanes{};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (size_t lane = 0; lane < 8; ++lane) lanes[lane] += static_cast<double>(e[i + lane]);
  }
  for (size_t lane = 0; i < n; ++i, ++lane) lanes[lane] += static_cast<double>(e[i]);
  return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) +
         ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

// The state of one row between its logits and its token.
class DrawRow {
 public:
  DrawRow(std::span<const float> x, std::vector<float>& scratch, double temperature, int64_t row)
      : x_(x), e_(scratch), scale_(static_cast<float>(temperature > 0 ? 1 / temperature : 1.0)) {
    e_.resize(x.size());
    kernels::cpu_kernels().run(
        kernels::ExpRow{x.data(), e_.data(), &most_, &sum_, width(), scale_});
    XRUN_CHECK(std::isfinite(most_) && std::isfinite(sum_) && sum_ > 0,
               "row {} of the logits has a NaN or an infinity, or no finite value; the weights or "
               "activations of the model are damaged",
               row);
    remaining_sum_ = sum_;
  }

  void keep_top(int64_t k) {
    if (k >= width()) return;
    keep_prefix([](float) { return 1.0; }, static_cast<double>(k));
  }
  void keep_mass(double p) {
    keep_prefix([](float e) { return static_cast<double>(e); }, p * remaining_sum_);
  }
  void keep_above(double share) {
    for (float& e : e_) e = static_cast<double>(e) < share ? 0.0f : e;  // the largest e is 1
    remaining_sum_ = lane_sum(e_.data(), width());
  }

  void truncate(const SamplingOptions& options) {
    if (options.top_k > 0) keep_top(options.top_k);
    if (options.top_p < 1) keep_mass(options.top_p);
    if (options.min_p > 0) keep_above(options.min_p);
  }

  bool kept(size_t id) const { return e_[id] > 0; }
  // The lowest id among equals, as in before().
  int64_t likeliest() const { return std::find(x_.begin(), x_.end(), most_) - x_.begin(); }

  // Returns the token at `share` in [0, 1) of the kept mass. Whole stretches are skipped by their
  // sums, so that only the last one is added up token by token.
  int64_t token_at(double share) const {
    constexpr int64_t kStretch = 512;
    const double wanted = share * remaining_sum_;
    double before = 0;
    for (int64_t begin = 0; begin < width(); begin += kStretch) {
      const int64_t end = std::min(begin + kStretch, width());
      const double mass = lane_sum(e_.data() + begin, end - begin);
      if (before + mass <= wanted) {
        before += mass;
        continue;
      }
      for (int64_t i = begin; i < end; ++i) {
        before += static_cast<double>(e_[static_cast<size_t>(i)]);
        if (before > wanted) return i;
      }
    }
    // the partial sums were rounded to less than `wanted`: the last kept token
    const auto last = std::find_if(e_.rbegin(), e_.rend(), [](float e) { return e > 0; });
    return width() - 1 - (last - e_.rbegin());
  }

  DrawnToken draw(int64_t id) const {
    const double below = static_cast<double>(x_[static_cast<size_t>(id)]) - most_;
    // The arithmetic of kernels/cpu/head_rows.h: a token's log-prob has the same bits in both.
    const auto logprob = [&](double sum) {
      return static_cast<float>(std::fma(below, static_cast<double>(scale_), -std::log(sum)));
    };
    return {static_cast<int32_t>(id), logprob(sum_), logprob(remaining_sum_)};
  }

 private:
  int64_t width() const { return static_cast<int64_t>(x_.size()); }

  // Order of tokens: the larger logit first, the lower id among equals.
  bool before(int32_t a, int32_t b) const {
    const float xa = x_[static_cast<size_t>(a)], xb = x_[static_cast<size_t>(b)];
    return xa > xb || (xa == xb && a < b);
  }

  // The exponent bits of e, which never fall as the logit rises.
  static size_t octave(float e) {
    uint32_t bits = 0;
    std::memcpy(&bits, &e, sizeof bits);
    return bits >> 23;
  }

  // Keeps the shortest prefix of the order of before() whose weights reach `wanted`, or everything.
  // Only one octave of probabilities has to be ordered: sums per octave decide about the rest.
  template <typename Weight>
  void keep_prefix(const Weight& weight, double wanted) {
    // 8 bits of exponent: e is never negative, so its sign bit is 0.
    std::array<double, 256> sums{};
    for (const float e : e_) sums[octave(e)] += weight(e);
    double sum = 0;
    size_t edge = sums.size();
    while (edge > 0 && sum + sums[edge - 1] < wanted) sum += sums[--edge];
    if (edge == 0) return;
    --edge;
    std::vector<int32_t> ids;
    for (size_t i = 0; i < e_.size(); ++i) {
      if (octave(e_[i]) == edge) ids.push_back(static_cast<int32_t>(i));
    }
    const int32_t last = last_of_prefix(ids, weight, wanted - sum);
    for (size_t i = 0; i < e_.size(); ++i) {
      if (octave(e_[i]) < edge || (octave(e_[i]) == edge && before(last, static_cast<int32_t>(i))))
        e_[i] = 0;
    }
    remaining_sum_ = lane_sum(e_.data(), width());
  }

  // Returns the last id of the shortest ordered prefix of `ids` whose weights reach `wanted`, found
  // by bisection.
  template <typename Weight>
  int32_t last_of_prefix(std::vector<int32_t>& ids, const Weight& weight, double wanted) const {
    const auto rank = [this](int32_t a, int32_t b) { return before(a, b); };
    auto low = ids.begin(), high = ids.end();
    while (high - low > 1) {
      const auto middle = low + (high - low) / 2;
      // Linear in expectation: each round halves the rest.
      std::nth_element(low, middle, high, rank);
      double half = 0;
      for (auto it = low; it != middle; ++it) half += weight(e_[static_cast<size_t>(*it)]);
      if (half >= wanted) {
        high = middle;
      } else {
        wanted -= half;
        low = middle;
      }
    }
    return *low;
  }

  std::span<const float> x_;
  std::vector<float>& e_;
  float scale_;
  float most_ = 0;
  double sum_ = 0, remaining_sum_ = 0;  // of all e, and of those that remain
};

}  // namespace

void check_sampling(const SamplingOptions& o, const char* name) {
  const auto refuse = [&](const char* option, auto got, const char* wanted) {
    throw UsageError(fmt::format("{}{} is {}, wanted {}", name, option, got, wanted));
  };
  const bool in_range = o.temperature >= kLowestTemperature && o.temperature <= kHighestTemperature;
  const std::string dash = *name == '\0' ? "_" : "-";
  const auto named = [&](const char* first, const char* second) { return first + dash + second; };
  if (o.temperature != 0 && !in_range)
    refuse("temperature", o.temperature, "0 (the likeliest token) or a number from 0.001 to 1000");
  if (o.top_k < 0) refuse(named("top", "k").c_str(), o.top_k, "0 (off) or more");
  if (!(o.top_p > 0 && o.top_p <= 1))
    refuse(named("top", "p").c_str(), o.top_p, "a number above 0, up to 1 (off)");
  if (!(o.min_p >= 0 && o.min_p <= 1))
    refuse(named("min", "p").c_str(), o.min_p, "a number from 0 (off) to 1");
  if (o.temperature == 0 && o.truncates()) {
    throw UsageError(fmt::format(
        "{0}top{1}k, {0}top{1}p and {0}min{1}p change nothing at {0}temperature 0, which takes the "
        "likeliest token; set a temperature, say 1",
        name, dash));
  }
}

std::vector<DrawnToken> draw_tokens(const at::Tensor& logits, std::span<const DrawKey> keys,
                                    const SamplingOptions& options) {
  check_sampling(options);
  const int64_t n = logits.size(0), width = logits.size(1);
  XRUN_CHECK(n == static_cast<int64_t>(keys.size()) && width > 0 && logits.is_contiguous(),
             "{} draws need as many contiguous rows of logits, got [{}, {}]", keys.size(), n,
             width);
  const float* const x = logits.const_data_ptr<float>();
  std::vector<DrawnToken> draws(keys.size());
  at::parallel_for(0, n, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> scratch;
    for (int64_t r = begin; r < end; ++r) {
      DrawRow row({x + r * width, static_cast<size_t>(width)}, scratch, options.temperature, r);
      const DrawKey& key = keys[static_cast<size_t>(r)];
      // Greedy: the seed has no influence.
      if (options.temperature == 0) {
        draws[static_cast<size_t>(r)] = row.draw(row.likeliest());
        continue;
      }
      row.truncate(options);
      // The key selects the number, not the order of draws, so batches and threads change nothing.
      const double share = philox_unit(options.seed, kStreamSample,
                                       key.prompt << kSampleBits | key.sample, key.position);
      draws[static_cast<size_t>(r)] = row.draw(row.token_at(share));
    }
  });
  return draws;
}

std::vector<int32_t> kept_tokens(const at::Tensor& logits, const SamplingOptions& options) {
  check_sampling(options);
  const at::Tensor dense = logits.contiguous();
  std::vector<float> scratch;
  DrawRow row({dense.const_data_ptr<float>(), static_cast<size_t>(dense.numel())}, scratch,
              options.temperature, 0);
  if (options.temperature > 0) row.truncate(options);
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < dense.numel(); ++i) {
    if (options.temperature == 0 ? i == row.likeliest() : row.kept(static_cast<size_t>(i)))
      ids.push_back(static_cast<int32_t>(i));
  }
  return ids;
}

}  // namespace xrun
