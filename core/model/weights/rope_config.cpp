// rope_parameters (transformers 5), or rope_theta and rope_scaling (4). Factors that the file
// leaves out get the defaults of transformers.

#include "core/model/weights/rope_config.h"

#include <cmath>

#include "core/base/error.h"
#include "core/base/strings.h"

namespace xrun {

namespace {

constexpr std::pair<const char*, RopeConfig::Type> kRopeTypes[] = {
    {"default", RopeConfig::Type::kDefault},   {"linear", RopeConfig::Type::kLinear},
    {"dynamic", RopeConfig::Type::kDynamic},   {"yarn", RopeConfig::Type::kYarn},
    {"longrope", RopeConfig::Type::kLongrope}, {"llama3", RopeConfig::Type::kLlama3},
};

RopeConfig::Type rope_type_named(const ConfigReader& reader, const std::string& name) {
  std::string known;
  for (const auto& [spelled, type] : kRopeTypes) {
    if (name == spelled) return type;
    add_item(known, spelled);
  }
  reader.fail(fmt::format("rope_type '{}' is not supported; supported: {}", name, known));
}

// No defaults: transformers has none for these two.
void read_llama3(const ConfigReader& nested, RopeConfig& rope) {
  for (const char* key : {"low_freq_factor", "high_freq_factor"}) {
    if (!nested.has(key)) nested.fail(fmt::format("rope_type 'llama3' needs a {}", key));
  }
  rope.low_freq_factor = nested.number("low_freq_factor", 1.0);
  rope.high_freq_factor = nested.number("high_freq_factor", 4.0);
  if (!(rope.low_freq_factor > 0) || !(rope.high_freq_factor > rope.low_freq_factor)) {
    nested.fail(
        "low_freq_factor must be positive and high_freq_factor above it; they contradict each "
        "other");
  }
}

// Peng et al. 2023, YaRN: attention is scaled by 0.1 ln(factor) + 1 unless the file says otherwise.
// transformers treats a beta of 0 as absent.
void read_yarn(const ConfigReader& nested, RopeConfig& rope) {
  const auto beta = [&](const char* key, double otherwise) {
    const double value = nested.number(key, 0);
    return value == 0 ? otherwise : value;
  };
  rope.beta_fast = beta("beta_fast", 32.0);
  rope.beta_slow = beta("beta_slow", 1.0);
  rope.truncate = nested.flag("truncate", true);
  if (!(rope.beta_slow > 0) || !(rope.beta_fast >= rope.beta_slow) || !(rope.theta > 1)) {
    nested.fail("yarn needs a rope_theta above 1 and beta_fast at least beta_slow, above 0");
  }
  // The attention scale 0.1 m ln(factor) + 1, for m = mscale.
  const auto magnitude = [&](double scale) {
    return rope.factor <= 1 ? 1.0 : 0.1 * scale * std::log(rope.factor) + 1.0;
  };
  const double scale = nested.number("mscale", 0), scale_all = nested.number("mscale_all_dim", 0);
  // With both keys their quotient, as in transformers.
  const bool both = scale != 0 && scale_all != 0;
  rope.attention_factor = nested.number(
      "attention_factor", both ? magnitude(scale) / magnitude(scale_all) : magnitude(1));
}

// Ding et al. 2024, LongRoPE: one divisor per pair of dimensions, for short and for long sequences;
// attention is scaled by sqrt(1 + ln(factor) / ln(original length)).
void read_longrope(const ConfigReader& nested, int64_t head_dim, RopeConfig& rope) {
  rope.short_factor = nested.numbers("short_factor");
  rope.long_factor = nested.numbers("long_factor");
  for (const auto& [key, list] : {std::pair{"short_factor", &rope.short_factor},
                                  std::pair{"long_factor", &rope.long_factor}}) {
    if (static_cast<int64_t>(list->size()) != head_dim / 2) {
      nested.fail(fmt::format("{} has {} numbers, wanted {}, half of head_dim", key, list->size(),
                              head_dim / 2));
    }
    for (const double factor : *list) {
      if (!(factor > 0) || !std::isfinite(factor)) {
        nested.fail(fmt::format("{} holds {}, its numbers must be positive", key, factor));
      }
    }
  }
  const double length = static_cast<double>(rope.original_max_length);
  rope.attention_factor = nested.number(
      "attention_factor",
      rope.factor <= 1 ? 1.0 : std::sqrt(1.0 + std::log(rope.factor) / std::log(length)));
}

}  // namespace

RopeConfig read_rope(const ConfigReader& reader, int64_t max_length, int64_t head_dim) {
  const bool five = reader.has("rope_parameters");
  const ConfigReader nested = reader.object(five ? "rope_parameters" : "rope_scaling");
  RopeConfig rope;
  // Inside rope_parameters first, then at the top level, as transformers 4 writes it.
  rope.theta = nested.number("rope_theta", reader.number("rope_theta", 10000.0));
  if (!(rope.theta > 0) || !std::isfinite(rope.theta)) reader.fail("rope_theta must be positive");
  if (nested.number("partial_rotary_factor", reader.number("partial_rotary_factor", 1.0)) != 1.0) {
    reader.fail("partial_rotary_factor is not supported; it must be 1");
  }
  const std::string name = nested.text("rope_type", nested.text("type", "default"));
  rope.type = rope_type_named(reader, name);
  // Other keys mean nothing without scaling; files carry them nevertheless.
  if (rope.type == RopeConfig::Type::kDefault) return rope;
  rope.max_length = max_length;
  const char* const original = "original_max_position_embeddings";
  // Phi-3 has it at the top level.
  rope.original_max_length = reader.integer(original, nested.integer(original, max_length));
  if (rope.type == RopeConfig::Type::kLlama3 && !reader.has(original) && !nested.has(original)) {
    reader.fail(fmt::format("rope_type 'llama3' needs an {}", original));
  }
  const bool may_lack_factor =
      rope.type == RopeConfig::Type::kYarn || rope.type == RopeConfig::Type::kLongrope;
  if (!nested.has("factor") && !may_lack_factor) {
    reader.fail(fmt::format("rope_type '{}' needs a factor", name));
  }
  // Without a factor: the ratio of the two lengths.
  rope.factor = nested.number(
      "factor", static_cast<double>(max_length) / static_cast<double>(rope.original_max_length));
  if (!(rope.factor >= 1.0) || !std::isfinite(rope.factor)) {
    reader.fail(fmt::format("the rope factor is {}, wanted at least 1", rope.factor));
  }
  if (rope.type == RopeConfig::Type::kDynamic && head_dim < 4) {
    reader.fail(fmt::format("rope_type 'dynamic' needs a head_dim of 4 or more, not {}", head_dim));
  }
  if (rope.type == RopeConfig::Type::kLlama3) read_llama3(nested, rope);
  if (rope.type == RopeConfig::Type::kYarn) read_yarn(nested, rope);
  if (rope.type == RopeConfig::Type::kLongrope) read_longrope(nested, head_dim, rope);
  if (!(rope.attention_factor > 0) || !std::isfinite(rope.attention_factor)) {
    reader.fail(
        fmt::format("attention_factor is {}, wanted a positive number", rope.attention_factor));
  }
  return rope;
}

}  // namespace xrun
