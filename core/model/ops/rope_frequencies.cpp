// inv_i = theta^(-2i/K), stretched by type:
//   linear    inv_i / factor
//   dynamic   theta grows by (factor n / max - (factor - 1))^(K / (K - 2)), n = max(length, max)
//   llama3    long waves / factor, short waves unchanged, a ramp between
//   yarn      a ramp over i from inv_i to inv_i / factor (Peng et al. 2023)
//   longrope  inv_i / ext_i, one list for short and one for long segments (Ding et al. 2024)

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/model/ops/rope.h"

namespace xrun {

namespace {

// NTK-aware scaling of the base, as transformers grows it with the length.
double dynamic_theta(const RopeConfig& rope, double head_dim, int64_t length) {
  const double most = static_cast<double>(rope.max_length);
  const double n = std::max(static_cast<double>(length), most);
  const double grown = rope.factor * n / most - (rope.factor - 1);
  return rope.theta * std::pow(grown, head_dim / (head_dim - 2));
}

// Interpolates waves that are longer than the original context and keeps short ones.
double llama3(const RopeConfig& rope, float inverse) {
  const double length = static_cast<double>(rope.original_max_length);
  const double wave = 2 * std::numbers::pi / inverse;
  if (wave < length / rope.high_freq_factor) return inverse;
  if (wave > length / rope.low_freq_factor) return inverse / static_cast<float>(rope.factor);
  const double smooth =
      (length / wave - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
  return (1 - smooth) * inverse / rope.factor + smooth * inverse;
}

// The begin and end of yarn's ramp, in pairs of dimensions.
struct YarnRamp {
  double low, high;
  double at(int64_t i) const {
    return std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
  }
};

YarnRamp yarn_ramp(const RopeConfig& rope, double head_dim) {
  const double length = static_cast<double>(rope.original_max_length);
  // The pair that makes `turns` rotations within the original length.
  const auto pair_of = [&](double turns) {
    return head_dim * std::log(length / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(rope.theta));
  };
  YarnRamp ramp{pair_of(rope.beta_fast), pair_of(rope.beta_slow)};
  if (rope.truncate) ramp = {std::floor(ramp.low), std::ceil(ramp.high)};
  ramp = {std::max(ramp.low, 0.0), std::min(ramp.high, head_dim - 1)};
  if (ramp.low == ramp.high) ramp.high += 0.001;  // as transformers does
  return ramp;
}

}  // namespace

int64_t rope_frequency_class(const RopeConfig& rope, int64_t length) {
  switch (rope.type) {
    // Up to max_length nothing is stretched; beyond it every length has its own theta.
    case RopeConfig::Type::kDynamic: return std::max(length, rope.max_length);
    case RopeConfig::Type::kLongrope: return length > rope.original_max_length ? 1 : 0;
    default: return 0;
  }
}

at::Tensor rope_inverse_frequencies(const RopeConfig& rope, int64_t head_dim, int64_t length) {
  const double K = static_cast<double>(head_dim);
  const double theta =
      rope.type == RopeConfig::Type::kDynamic ? dynamic_theta(rope, K, length) : rope.theta;
  const YarnRamp ramp = rope.type == RopeConfig::Type::kYarn ? yarn_ramp(rope, K) : YarnRamp{0, 1};
  const auto& ext = length > rope.original_max_length ? rope.long_factor : rope.short_factor;
  const auto factor = static_cast<float>(rope.factor);
  at::Tensor inverse = at::empty({head_dim / 2}, at::kFloat);
  float* const out = inverse.mutable_data_ptr<float>();
  for (int64_t i = 0; i < head_dim / 2; ++i) {
    // transformers raises theta in fp32
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
    const float power = std::pow(static_cast<float>(theta), exponent), plain = 1.0f / power;
    switch (rope.type) {
      case RopeConfig::Type::kDefault:
      case RopeConfig::Type::kDynamic: out[i] = plain; break;
      case RopeConfig::Type::kLinear: out[i] = plain / factor; break;
      case RopeConfig::Type::kLlama3: out[i] = static_cast<float>(llama3(rope, plain)); break;
      case RopeConfig::Type::kLongrope:
        out[i] = 1.0f / (static_cast<float>(ext[static_cast<size_t>(i)]) * power);
        break;
      case RopeConfig::Type::kYarn: {
        const auto stretched = static_cast<float>(ramp.at(i));
        out[i] = plain / factor * stretched + plain * (1 - stretched);
        break;
      }
    }
  }
  return inverse;
}

}  // namespace xrun
