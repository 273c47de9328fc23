// All problems of a folder go into one message, the first dozen of each kind by name.

#include "core/model/weights/weight_check.h"

#include <ATen/ops/aminmax.h>
#include <ATen/ops/isnan.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/model/weights/hf_config.h"
#include "core/model/weights/layer_kinds.h"
#include "core/model/weights/safetensors.h"

namespace xrun {

namespace {

constexpr size_t kNamesInMessage = 12;
// Any comparison with the memory fails there, and the conversion to int64 stays defined.
constexpr double kMostBytes = double(int64_t{1} << 56);  // of a hostile config

// One line of the error; empty if there are no names.
std::string name_line(const char* what, const std::vector<std::string>& names) {
  if (names.empty()) return "";
  return fmt::format("\n  {} {}: {}", names.size(), what, listed(names, kNamesInMessage));
}

// Old files store masks, which are not weights.
bool is_buffer(const std::string& name, const ModelConfig& config) {
  return std::any_of(config.names.buffers.begin(), config.names.buffers.end(),
                     [&](const std::string& suffix) { return name.ends_with(suffix); });
}

double largest(at::ScalarType type) {
  // binary16's largest finite value, (2 - 2^-10) 2^15.
  if (type == at::kHalf) return 65504.0;
  if (type == at::kBFloat16) return std::numeric_limits<c10::BFloat16>::max();
  return std::numeric_limits<float>::max();
}

const char* short_name(at::ScalarType type) {
  if (type == at::kHalf) return "fp16";
  return type == at::kBFloat16 ? "bf16" : "fp32";
}

// "1 weight is", "2 weights are".
std::string counted(size_t n) { return n == 1 ? "1 weight is" : fmt::format("{} weights are", n); }

}  // namespace

int64_t weight_bytes(const ModelConfig& config, c10::ScalarType dtype) {
  // By kinds of layers: the names of a hostile config's layers would not fit into memory.
  const double bytes =
      LayerKinds(config).sum(weight_elements) * static_cast<double>(elementSize(dtype));
  return static_cast<int64_t>(std::clamp(bytes, 0.0, kMostBytes));
}

void check_weights_fit(const ModelConfig& config, c10::ScalarType dtype, int64_t available,
                       const std::string& where) {
  const int64_t bytes = weight_bytes(config, dtype);
  const auto text_of = [](int64_t count) { return format_bytes(static_cast<double>(count)); };
  XRUN_CHECK(available == 0 || bytes <= available,
             "{}: the weights need {} as {}, {} are available; take a smaller model{}", where,
             text_of(bytes), dtype_name(dtype), text_of(available),
             dtype == c10::ScalarType::Float ? ", or load it as bf16 where it is not trained" : "");
}

std::string tied_head_notice(const std::filesystem::path& dir, const ModelConfig& config) {
  const std::string head = config.names.head + ".weight";
  try {
    if (!config.tied || !SafetensorsFolder(dir).has(head)) return "";
  } catch (const Error&) {
    return "";
  }
  return fmt::format(
      "{}: config.json ties the head to the embedding, and the file holds {} as well; they train "
      "as "
      "one weight, and an export has it once",
      dir.string(), head);
}

void check_weight_files(const std::filesystem::path& dir, const ModelConfig& config) {
  const SafetensorsFolder files(dir);
  check_weight_names(files, config, file_form(files, config, dir.string()), dir.string());
}

// Names and shapes before any data: a wrong folder fails at once.
void check_weight_names(const SafetensorsFolder& files, const ModelConfig& config,
                        const FileForm& form, const std::string& where) {
  // Name and shape of each tensor that the files must hold.
  std::map<std::string, std::vector<int64_t>> wanted;
  for (const WeightSpec& spec : weight_specs(config)) {
    for (StoredTensor& stored : stored_tensors(spec, form)) {
      wanted[stored.name] = std::move(stored.shape);
    }
  }
  std::vector<std::string> absent, unexpected, misshapen;
  for (const std::string& name : files.names()) {
    const auto found = wanted.find(name);
    if (found == wanted.end()) {
      // The tied head is checked by value, by check_tied_head() of model_load.cpp.
      const bool tied_head = config.tied && name == config.names.head + ".weight";
      if (!is_buffer(name, config) && !tied_head) unexpected.push_back(name);
      continue;
    }
    const std::vector<int64_t>& shape = files.entry(name).shape;
    if (found->second != shape) {
      misshapen.push_back(fmt::format("{} is [{}], wanted [{}]", name, fmt::join(shape, ", "),
                                      fmt::join(found->second, ", ")));
    }
    // The names that remain are missing.
    wanted.erase(found);
  }
  for (const auto& [name, shape] : wanted) absent.push_back(name);
  if (absent.empty() && unexpected.empty() && misshapen.empty()) return;
  throw Error(fmt::format("{}: the weights do not fit config.json (model_type {}):{}{}{}", where,
                          config.model_type, name_line("missing", absent),
                          name_line("unexpected", unexpected), name_line("misshapen", misshapen)));
}

// Called for each weight as it is loaded.
void WeightValues::saw(const std::string& name, const at::Tensor& weight) {
  const auto [low, high] = at::aminmax(weight);  // one pass, no copy; NaN wins
  const double least = low.item<double>(), most = high.item<double>();
  if (std::isfinite(least) && std::isfinite(most)) {
    const double size = std::max(std::abs(least), std::abs(most));
    if (size > largest(type_))
      too_large_.push_back(fmt::format("{} has values up to {:.2g}", name, size));
    return;
  }
  // The count distinguishes NaN from infinity, which have other causes.
  const int64_t nans = at::isnan(weight).sum().item<int64_t>();
  broken_.push_back(nans > 0 ? fmt::format("{} ({} NaN)", name, nans)
                             : fmt::format("{} (infinity)", name));
}

// After the last weight, so that one error lists all.
void WeightValues::finish(const std::string& where) const {
  if (!broken_.empty()) {
    throw Error(fmt::format("{}: {} not finite: {}; the file is damaged or its training diverged",
                            where, counted(broken_.size()), listed(broken_, kNamesInMessage)));
  }
  if (!too_large_.empty()) {
    throw Error(fmt::format("{}: {}, beyond {}'s {:.5g}; load it as {}", where,
                            listed(too_large_, kNamesInMessage), short_name(type_), largest(type_),
                            type_ == at::kHalf ? "bf16 or fp32" : "fp32"));
  }
}

}  // namespace xrun
