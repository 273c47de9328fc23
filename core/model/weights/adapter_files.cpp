// Tensors are base_model.model.MODULE.lora_A.weight [rank, in] and lora_B.weight [out, rank], even
// where the file of the base transposes its weight. Format: huggingface/peft 0.21,
// tuners/lora/config.py.

#include "core/model/weights/adapter_files.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/strings.h"
#include "core/model/weights/config_reader.h"
#include "core/model/weights/hf_config.h"
#include "core/model/weights/safetensors.h"
#include "core/model/weights/staged_folder.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;
constexpr const char* kAdapterConfig = "adapter_config.json";
constexpr const char* kAdapterWeights = "adapter_model.safetensors";
// PEFT wraps the model in two objects, whose members begin every name.
constexpr const char* kPrefix = "base_model.model.";
constexpr uint64_t kMaxConfigBytes = 1 << 20;

std::string factor_name(const std::string& module, char factor) {
  return kPrefix + (factor == 'A' ? factor_a_name(module) : factor_b_name(module));
}

// True for a value that requests something: not null, false, "", "none" or empty.
bool is_requested(const Json& value) {
  if (value.is_null()) return false;
  if (value.is_bool()) return value.as_bool();
  if (value.is_string()) return !value.as_string().empty() && value.as_string() != "none";
  return !(value.is_array() || value.is_object()) || value.size() > 0;
}

// Keys that do not change the forward, or that this file reads.
constexpr std::string_view kKnownKeys[] = {
    "auto_mapping",
    "base_model_name_or_path",
    "ensure_weight_tying",
    "eva_config",
    "exclude_modules",
    "fan_in_fan_out",
    "inference_mode",
    "init_lora_weights",
    "layers_pattern",
    "layers_to_transform",
    "lora_alpha",
    "lora_dropout",
    "megatron_core",
    "peft_type",
    "peft_version",
    "qalora_group_size",
    "r",
    "revision",
    "runtime_config",
    "target_modules",
    "task_type",
    "use_rslora",
};

// Refuses every other key that is set, since newer versions of PEFT add keys.
void refuse_unsupported(const ConfigReader& reader) {
  const std::string type = reader.text("peft_type", "");
  if (type != "LORA") {
    reader.fail(fmt::format("peft_type is '{}', only LORA adapters are supported", type));
  }
  for (const auto& [key, value] : reader.json().as_object()) {
    if (std::find(std::begin(kKnownKeys), std::end(kKnownKeys), key) != std::end(kKnownKeys))
      continue;
    if (is_requested(value)) {
      reader.fail(fmt::format("{} is {}, which is not supported", key, dump_json(value)));
    }
  }
  // Other initialisations (PiSSA, OLoRA, LoftQ) change the base weights, which the file does not
  // hold.
  const Json* start = reader.json().find("init_lora_weights");
  if (start == nullptr || !start->is_string()) return;
  const std::string& name = start->as_string();
  // These initialisations leave the base unchanged; "true" and absent are PEFT's default.
  if (name == "gaussian" || name == "orthogonal" || name == "eva") return;
  reader.fail(fmt::format(
      "init_lora_weights is '{}', which changes the base model as well; convert it with PEFT's "
      "save_pretrained(path_initial_model_for_weight_conversion=...) first",
      name));
}

AdapterOptions read_adapter_options(const ConfigReader& reader, const ModelConfig& config) {
  refuse_unsupported(reader);
  AdapterOptions options;
  options.rank = reader.integer("r");
  // PEFT's default alpha.
  options.alpha = reader.number("lora_alpha", 8);
  options.by_root = reader.flag("use_rslora", false);
  options.dropout = reader.number("lora_dropout", 0);
  try {
    check_adapter_options(options, config);
  } catch (const Error& error) {
    reader.fail(error.what());
  }
  return options;
}

constexpr size_t kNamesOfModules = 12;

// Collects the factors that do not fit for one error.
class FactorMismatch {
 public:
  void add(const char* what, std::string name) { lists_[what].push_back(std::move(name)); }
  void raise(const std::string& where) const {
    if (lists_.empty()) return;
    std::string text = where + ": the adapter does not fit the model:";
    for (const auto& [what, names] : lists_) {
      text += fmt::format("\n  {} {}: {}", names.size(), what, listed(names, kNamesOfModules));
    }
    throw Error(text);
  }

 private:
  std::map<std::string, std::vector<std::string>> lists_;
};

// Throws one Error that lists all factors that do not fit.
void check_factors(const SafetensorsFile& file, const std::vector<LinearModule>& modules,
                   int64_t rank) {
  std::map<std::string, std::vector<int64_t>> known;
  for (const LinearModule& module : modules) {
    known[factor_name(module.name, 'A')] = {rank, module.in};
    known[factor_name(module.name, 'B')] = {module.out, rank};
  }
  FactorMismatch mismatch;
  for (const SafetensorsEntry& entry : file.entries()) {
    const auto found = known.find(entry.name);
    if (found == known.end()) {
      mismatch.add("unexpected", entry.name);
    } else if (found->second != entry.shape) {
      mismatch.add("misshapen",
                   fmt::format("{} is [{}], wanted [{}]", entry.name, fmt::join(entry.shape, ", "),
                               fmt::join(found->second, ", ")));
    } else if (!at::isFloatingType(entry.dtype)) {
      mismatch.add("not of floating point", entry.name);
    }
  }
  for (const LinearModule& module : modules) {
    const std::string a = factor_name(module.name, 'A'), b = factor_name(module.name, 'B');
    // A map may have no factors, but never one alone.
    if (file.has(a) != file.has(b)) mismatch.add("missing", file.has(a) ? b : a);
  }
  mismatch.raise(file.path().string());
  XRUN_CHECK(!file.entries().empty(), "{}: the file holds no factors", file.path().string());
}

// Returns the roles of the adapted modules if no other module has one of them, else whole names.
Json target_modules(const Adapter& adapter, const ModelConfig& config) {
  std::set<std::string> adapted, parts;
  for (const AdapterFactors& factors : adapter.factors) {
    adapted.insert(factors.module);
    parts.insert(module_role(factors.module));
  }
  bool exact = true;
  for (const LinearModule& module : linear_modules(config)) {
    // A role is exact if every module of that role is adapted.
    exact = exact && (adapted.contains(module.name) || !parts.contains(module_role(module.name)));
  }
  Json list = Json::array();
  for (const std::string& name : exact ? parts : adapted) list.push_back(name);
  return list;
}

// The keys that PEFT's reader needs; others keep its defaults.
Json adapter_config(const Adapter& adapter, const ModelConfig& config, const std::string& base) {
  const AdapterOptions& options = adapter.options;
  const auto whole = static_cast<int64_t>(options.alpha);
  // PEFT writes a whole alpha without a fraction.
  const bool is_whole = static_cast<double>(whole) == options.alpha;
  return Json(Json::Object{
      {"base_model_name_or_path", base},
      {"bias", "none"},
      {"fan_in_fan_out", config.transposed},
      {"inference_mode", true},
      {"init_lora_weights", true},
      {"lora_alpha", is_whole ? Json(whole) : Json(options.alpha)},
      {"lora_dropout", options.dropout},
      {"modules_to_save", Json()},
      {"peft_type", "LORA"},
      {"r", options.rank},
      {"target_modules", target_modules(adapter, config)},
      {"task_type", "CAUSAL_LM"},
      {"use_dora", false},
      {"use_rslora", options.by_root},
  });
}

Json read_adapter_config(const fs::path& dir) {
  const fs::path path = dir / kAdapterConfig;
  return parse_json(read_file(path, kMaxConfigBytes), path.string());
}

}  // namespace

// By its config alone; the weights are checked when they are read.
bool is_adapter(const fs::path& dir) { return is_file(dir / kAdapterConfig); }

std::string adapter_base(const fs::path& dir) {
  const Json config = read_adapter_config(dir);
  return ConfigReader(config, (dir / kAdapterConfig).string()).text("base_model_name_or_path", "");
}

std::shared_ptr<Adapter> read_adapter(const fs::path& dir, const ModelConfig& config) {
  const Json json = read_adapter_config(dir);
  const ConfigReader reader(json, (dir / kAdapterConfig).string());
  auto adapter = std::make_shared<Adapter>();
  adapter->options = read_adapter_options(reader, config);
  const SafetensorsFile file(dir / kAdapterWeights);
  const std::vector<LinearModule> modules = linear_modules(config);
  check_factors(file, modules, adapter->options.rank);
  // The targets are those of the weights: target_modules may be a regular expression, which is not
  // read.
  std::set<std::string> targets;
  for (const LinearModule& module : modules) {
    if (!file.has(factor_name(module.name, 'A'))) continue;
    const auto read = [&](char factor) {
      // Kept in fp32, whatever the file has: the optimizer updates the factors.
      return file.read(factor_name(module.name, factor)).to(at::kFloat).contiguous();
    };
    adapter->factors.push_back({module.name, read('A'), read('B')});
    targets.insert(module_role(module.name));
  }
  adapter->options.targets.assign(targets.begin(), targets.end());
  return adapter;
}

// PEFT's names and shapes, so that other programs load it.
void write_adapter(const Adapter& adapter, const ModelConfig& config, const std::string& base,
                   const fs::path& out) {
  // Only an adapter is replaced, never another folder that holds something.
  StagedFolder folder(out, is_adapter(out) && path_exists(out / kAdapterWeights));
  write_file_atomic(folder.path() / kAdapterConfig,
                    dump_json(adapter_config(adapter, config, base), kIndentedJson) + "\n");
  std::vector<NamedTensor> tensors;
  for (const AdapterFactors& factors : adapter.factors) {
    tensors.push_back({factor_name(factors.module, 'A'), factors.a.detach()});
    tensors.push_back({factor_name(factors.module, 'B'), factors.b.detach()});
  }
  write_safetensors(folder.path() / kAdapterWeights, tensors, {{"format", "pt"}});
  folder.commit();
}

}  // namespace xrun
