// The two types take turns, so that a change of clock speed affects both; the median of three
// rounds decides.

#include "core/model/cost/gemm_choice.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/model/cost/measured_value.h"
#include "core/model/ops/scratch.h"
#include "core/model/weights/hf_config.h"

namespace xrun {

namespace {

// Large enough that products reach their full rate, small enough that a processor without bf16
// instructions finishes within seconds.
constexpr int64_t kRows = 512, kMaxIn = 1024, kMaxOut = 3072;
constexpr int kRounds = 3;
constexpr double kMaxMs = 1e6;

using Clock = std::chrono::steady_clock;

// Values like those of a model: zeros would multiply faster.
at::Tensor wave(int64_t rows, int64_t columns, c10::ScalarType dtype) {
  return at::arange(rows * columns, at::kFloat).mul_(0.37).sin_().view({rows, columns}).to(dtype);
}

double product_ms(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& grad,
                  GemmType gemm) {
  const auto begin = Clock::now();
  // A forward and its backward, as a step has them.
  linear(x, weight, {}, gemm).backward(grad);
  const double ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  // Otherwise the next backward would spend time on adding to them.
  x.mutable_grad().reset();
  weight.mutable_grad().reset();
  return ms;
}

double median(std::array<double, kRounds> values) {
  std::sort(values.begin(), values.end());
  return values[kRounds / 2];
}

MeasuredValue stored_choice(const GemmShape& shape, c10::ScalarType dtype) {
  return MeasuredValue("gemm", "choice",
                       Json(Json::Object{{"rows", shape.rows},
                                         {"in", shape.in},
                                         {"out", shape.out},
                                         {"dtype", dtype_name(dtype)}}));
}

// A damaged file must not decide the type of a run's products.
double time_from(const Json& json, const char* name) {
  const double ms = json.at(name).as_double();
  XRUN_CHECK(ms > 0 && ms < kMaxMs, "{} is {}, which is not a time in ms", name, ms);
  return ms;
}

GemmType faster(const GemmTimes& times) {
  return times.float_ms < times.storage_ms ? GemmType::kFloat : GemmType::kStorage;
}

// Returns nullopt if there is no file.
std::optional<GemmChoice> read_choice(const MeasuredValue& stored) {
  const std::optional<Json> json = stored.read();
  if (!json) return std::nullopt;
  GemmChoice choice = gemm_from_json(*json);
  // The times are stored beside the choice, so an edited file may contradict itself.
  XRUN_CHECK(choice.gemm == faster(*choice.times), "{}: the choice is not the faster one",
             stored.file().string());
  return choice;
}

}  // namespace

GemmShape gemm_shape(const ModelConfig& config) {
  // The largest product of a block, cut to a size that is timed within seconds.
  const int64_t inner = config.moe.experts > 0 ? config.moe.ffn : config.ffn;
  return {kRows, std::min(config.hidden, kMaxIn), std::min(inner, kMaxOut)};
}

GemmTimes time_gemm(const GemmShape& shape, c10::ScalarType dtype) {
  const at::AutoGradMode with_gradients(true);
  const at::Tensor x = wave(shape.rows, shape.in, dtype).set_requires_grad(true);
  const at::Tensor weight = wave(shape.out, shape.in, dtype).set_requires_grad(true);
  const at::Tensor grad = wave(shape.rows, shape.out, dtype);
  std::array<double, kRounds> storage{}, wide{};
  for (int round = -1; round < kRounds; ++round) {  // the first round warms up
    const double a = product_ms(x, weight, grad, GemmType::kStorage);
    const double b = product_ms(x, weight, grad, GemmType::kFloat);
    if (round < 0) continue;
    storage[static_cast<size_t>(round)] = a;
    wide[static_cast<size_t>(round)] = b;
  }
  free_scratch();  // buffers of this shape
  return {median(storage), median(wide)};
}

GemmChoice choose_gemm(const ModelConfig& config, c10::ScalarType dtype, const GemmClock& clock) {
  GemmChoice choice;
  if (dtype == at::kFloat) return choice;
  const GemmShape shape = gemm_shape(config);
  const MeasuredValue stored = stored_choice(shape, dtype);
  try {
    if (auto known = read_choice(stored)) return *known;
  } catch (const Error& error) {
    choice.notice = fmt::format("{}; products are timed again", error.what());
  }
  choice.times = clock(shape, dtype);
  choice.gemm = faster(*choice.times);
  stored.write(to_json(choice));
  return choice;
}

Json to_json(const GemmChoice& choice) {
  XRUN_CHECK(choice.times, "a choice without times cannot be stored");
  return Json(Json::Object{{"gemm", gemm_name(choice.gemm)},
                           {"fp32_ms", choice.times->float_ms},
                           {"storage_ms", choice.times->storage_ms}});
}

GemmChoice gemm_from_json(const Json& json) {
  XRUN_CHECK(json.is_object(), "the stored choice of gemm is {}, wanted an object",
             json.kind_name());
  const std::string& name = json.at("gemm").as_string();
  GemmChoice choice;
  choice.gemm = name == gemm_name(GemmType::kFloat) ? GemmType::kFloat : GemmType::kStorage;
  XRUN_CHECK(name == gemm_name(choice.gemm), "gemm is \"{}\", wanted \"fp32\" or \"storage\"",
             name);
  choice.times = GemmTimes{time_from(json, "storage_ms"), time_from(json, "fp32_ms")};
  choice.remembered = true;
  return choice;
}

std::string describe(const GemmChoice& choice) {
  const bool wide = choice.gemm == GemmType::kFloat;
  if (!choice.times) return wide ? "fp32" : "in the storage type of the weights";
  const GemmTimes& t = *choice.times;
  return fmt::format("{}: {:.1f} ms a product with its gradients, {:.1f} in {}, {}",
                     wide ? "fp32" : "bf16", wide ? t.float_ms : t.storage_ms,
                     wide ? t.storage_ms : t.float_ms, wide ? "bf16" : "fp32",
                     choice.remembered ? "as measured before" : "measured now");
}

}  // namespace xrun
