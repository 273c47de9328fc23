// Loading checks memory, names and shapes before it reads a weight, and the values as it reads.
//
// The digest of a model is the XXH3-128 of the digests of its weights, so that processes that hold
// ranges share the reading: each digests some whole weights and otherwise reads only its ranges.

#include "core/model/model_load.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/folder.h"
#include "core/base/hash.h"
#include "core/model/decoder.h"
#include "core/model/ops/device_memory.h"
#include "core/model/ops/matrix_product.h"
#include "core/model/weights/adapter.h"
#include "core/model/weights/trained_weights.h"
#include "core/model/weights/weight_check.h"
#include "core/model/weights/weight_layout.h"

namespace xrun {

bool trains_base(const LoadOptions& options) { return options.trainable && !options.adapter; }

at::ScalarType master_type(const LoadOptions& options) {
  const bool upcast = trains_base(options) && options.dtype != at::kDouble;
  return upcast ? at::kFloat : options.dtype;
}
at::ScalarType master_type(const LoadOptions& options, const std::string& name) {
  return is_trained(options.train, name) ? master_type(options) : options.dtype;
}

std::string weight_digest(const std::string& name, const at::Tensor& weight) {
  const at::Tensor data = weight.cpu().contiguous();
  Hasher hasher;
  hasher.field("name", name);
  hasher.field("type", std::string_view(c10::toString(data.scalar_type())));
  for (const int64_t size : data.sizes()) hasher.field("size", size);
  hasher.bytes({static_cast<const char*>(data.const_data_ptr()), data.nbytes()});
  return hasher.hex();
}

std::string model_digest(const std::vector<std::string>& weights) {
  Hasher hasher;
  for (const std::string& digest : weights) hasher.field("weight", digest);
  return hasher.hex();
}

namespace {

// Returns the adapter with its factors on a device; the adapter itself if they are there already.
std::shared_ptr<const Adapter> adapter_on(std::shared_ptr<const Adapter> adapter,
                                          c10::Device device) {
  // All factors are on one device, so the first stands for them.
  if (!adapter || adapter->factors.empty() ||
      adapter->factors.front().a.device().type() == device.type()) {
    return adapter;
  }
  auto moved = std::make_shared<Adapter>(*adapter);
  for (AdapterFactors& factors : moved->factors) {
    factors.a = factors.a.to(device);
    factors.b = factors.b.to(device);
  }
  return moved;
}

// Returns the type of a checkpoint: the one that config.json names, else that of its first weight.
at::ScalarType stored_dtype(const ModelConfig& config, at::ScalarType file) {
  const bool named = config.source.find("dtype") || config.source.find("torch_dtype");
  return named || (file != at::kBFloat16 && file != at::kHalf) ? config.dtype : file;
}

// Throws Error if the files hold a head that differs from the embedding that it is tied to.
void check_tied_head(const SafetensorsFolder& files, const ModelConfig& config,
                     const FileForm& form, const std::string& where) {
  const std::string head = config.names.head + ".weight";
  if (!config.tied || !files.has(head)) return;
  // A fine-tuned head would otherwise be lost without notice. The embedding is the first spec.
  const at::Tensor embedding = read_weight(weight_specs(config).front(), files, form);
  XRUN_CHECK(at::equal(files.read(head), embedding),
             "{}: config.json ties the head to the embedding, but the file has an {} that differs "
             "from it; set tie_word_embeddings to false to use it",
             where, head);
}

// A folder whose names and shapes were checked.
struct ModelFolder {
  std::string where;
  ModelConfig config;
  SafetensorsFolder files;
  FileForm form;
  std::vector<WeightSpec> specs;
};

ModelFolder open_folder(const std::filesystem::path& dir, const ModelConfig& config) {
  const std::string where = dir.string();
  SafetensorsFolder files(dir);
  const FileForm form = file_form(files, config, where);
  check_weight_names(files, config, form, where);
  ModelFolder folder{where, config, std::move(files), form, weight_specs(config)};
  // The first weight stands for all.
  const std::string first = stored_tensors(folder.specs.front(), form).front().name;
  folder.config.dtype = stored_dtype(config, folder.files.entry(first).dtype);
  return folder;
}

ModelConfig config_to_load(const std::filesystem::path& dir, const LoadOptions& options) {
  return options.classifiers ? read_frozen_config(dir) : read_model_config(dir);
}

// Adds the values of a weight, or of a range of it, to those checked by values.finish().
void check_values(const ModelFolder& folder, const WeightSpec& spec, const at::Tensor& read,
                  WeightValues& values) {
  XRUN_CHECK(read.is_floating_point(), "{}: '{}' is {}, wanted a floating-point type", folder.where,
             spec.name, c10::toString(read.scalar_type()));
  values.saw(spec.name, read);
}

std::shared_ptr<RangedWeights> make_ranged_weights(const ModelConfig& config,
                                                   const LoadOptions& options) {
  if (!options.make_ranged) return nullptr;
  std::vector<RangedParameter> parameters;
  for (const WeightSpec& spec : weight_specs(config)) {
    const bool trained = trains_base(options) && is_trained(options.train, spec.name);
    parameters.push_back({spec.name, spec.shape, master_type(options, spec.name), trained});
  }
  return options.make_ranged(parameters, options.dtype, options.device);
}

// Reads one weight at a time, so that loading peaks at one tensor more than it keeps.
std::vector<Parameter> read_whole(const ModelFolder& folder, const LoadOptions& options) {
  std::vector<Parameter> parameters;
  WeightValues values(options.dtype);
  for (const WeightSpec& spec : folder.specs) {
    const at::Tensor read = read_weight(spec, folder.files, folder.form);
    check_values(folder, spec, read, values);
    parameters.push_back({spec.name, read.to(master_type(options, spec.name)).to(options.device)});
  }
  values.finish(folder.where);
  return parameters;
}

// Reads the ranges of this process.
std::vector<Parameter> read_ranges(const ModelFolder& folder, const LoadOptions& options,
                                   RangedWeights& ranged) {
  std::vector<Parameter> parameters;
  WeightValues values(options.dtype);
  for (const WeightSpec& spec : folder.specs) {
    const RangedWeights::HeldRange held = ranged.held(parameters.size());
    if (held.count > 0) {
      const at::Tensor read =
          read_weight_range(spec, folder.files, folder.form, held.begin, held.count);
      check_values(folder, spec, read, values);
      ranged.put(parameters.size(), read);
    }
    // One zero with the type and the shape of the weight.
    const at::Tensor zero =
        at::zeros({}, at::TensorOptions(options.device).dtype(master_type(options, spec.name)));
    parameters.push_back({spec.name, zero.expand(spec.shape)});
  }
  values.finish(folder.where);
  return parameters;
}

}  // namespace

std::vector<WeightDigest> digest_weights(const std::filesystem::path& dir,
                                         const LoadOptions& options, size_t first, size_t last) {
  const ModelFolder folder = open_folder(dir, config_to_load(dir, options));
  if (first == 0) check_tied_head(folder.files, folder.config, folder.form, folder.where);
  std::vector<WeightDigest> digests;
  WeightValues values(options.dtype);
  for (size_t i = first; i < last; ++i) {
    const WeightSpec& spec = folder.specs.at(i);
    const at::Tensor read = read_weight(spec, folder.files, folder.form);
    check_values(folder, spec, read, values);
    const at::Tensor master = read.to(master_type(options, spec.name));
    WeightDigest digest{weight_digest(spec.name, master), ""};
    digest.rounded = master.scalar_type() == options.dtype
                         ? digest.master
                         : weight_digest(spec.name, master.to(options.dtype));
    digests.push_back(std::move(digest));
  }
  values.finish(folder.where);
  return digests;
}

std::vector<std::filesystem::path> weight_files(const std::filesystem::path& dir) {
  std::vector<std::filesystem::path> files;
  for (std::filesystem::path& path : list_folder(dir)) {
    const std::string name = path.filename().string();
    const bool is_weight = name.ends_with(".safetensors");
    if (is_weight || name == "config.json" || name == "adapter_config.json") {
      files.push_back(std::move(path));
    }
  }
  return files;
}

std::string weight_files_state(const std::filesystem::path& dir) {
  std::string state;
  for (const std::filesystem::path& file : weight_files(dir)) {
    std::error_code code;
    const auto changed = std::filesystem::last_write_time(file, code);
    XRUN_CHECK(!code, "{}: cannot be examined: {}", file.string(), code.message());
    state += fmt::format("{} {} {}\n", file.filename().string(), size_of_file(file),
                         changed.time_since_epoch().count());
  }
  return state;
}

std::shared_ptr<Model> Model::load(const std::filesystem::path& dir, const LoadOptions& options) {
  const ModelConfig config = config_to_load(dir, options);
  // From config.json alone, before a file of weights is opened. Not for weights in ranges, of which
  // this process holds only a part.
  if (!options.make_ranged) {
    check_weights_fit(config, master_type(options), device_memory(options.device).available,
                      dir.string());
  }
  const ModelFolder folder = open_folder(dir, config);
  const std::shared_ptr<RangedWeights> ranged = make_ranged_weights(config, options);
  if (!ranged) {
    check_tied_head(folder.files, folder.config, folder.form, folder.where);
    return make(folder.config, read_whole(folder, options), options, nullptr);
  }
  std::shared_ptr<Model> model =
      make(folder.config, read_ranges(folder, options, *ranged), options, ranged);
  if (options.digests != nullptr) {
    XRUN_CHECK(weight_files_state(dir) == options.digests->state,
               "{}: the files in this folder changed since the run opened it; restore the folder "
               "or begin a new run",
               dir.string());
    model->set_loaded_digests(*options.digests);
  }
  return model;
}

void Model::set_loaded_digests(const FolderDigests& digests) {
  std::vector<std::string> masters, rounded;
  for (const WeightDigest& weight : digests.weights) {
    masters.push_back(weight.master);
    rounded.push_back(weight.rounded);
  }
  // An adapter's factors are whole.
  for (size_t i = static_cast<size_t>(base_count()); i < parameters_.size(); ++i) {
    masters.push_back(weight_digest(parameters_[i].name, parameters_[i].master.detach()));
  }
  loaded_ = {model_digest(masters), model_digest(rounded)};
}

std::shared_ptr<Model> Model::make(ModelConfig config, std::vector<Parameter> parameters,
                                   const LoadOptions& options,
                                   std::shared_ptr<RangedWeights> ranged) {
  const at::ScalarType dtype = options.dtype;
  XRUN_CHECK(dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kDouble ||
                 (dtype == at::kHalf && !options.trainable),
             "a model that is {} computes in {}, not in {}",
             options.trainable ? "trained" : "only read",
             options.trainable ? "fp32 or bf16" : "fp32, bf16 or fp16", dtype_name(dtype));
  LoadOptions placed = options;
  placed.adapter = adapter_on(options.adapter, options.device);
  return std::shared_ptr<Model>(
      new Model(std::move(config), std::move(parameters), placed, std::move(ranged)));
}

}  // namespace xrun
