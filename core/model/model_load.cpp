// Loading checks everything before it converts anything: memory, names, shapes, then values.

#include "core/model/model_load.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>

#include "core/base/error.h"
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

void add_to_digest(Hasher& hasher, const std::string& name, const at::Tensor& weight) {
  const at::Tensor data = weight.cpu().contiguous();
  hasher.field("name", name);
  hasher.field("type", std::string_view(c10::toString(data.scalar_type())));
  for (const int64_t size : data.sizes()) hasher.field("size", size);
  hasher.bytes({static_cast<const char*>(data.const_data_ptr()), data.nbytes()});
}

namespace {

// The adapter with its factors on a device; the adapter itself if they are there already.
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

// The type of a checkpoint: config.json's, else that of its first weight.
at::ScalarType stored_dtype(const ModelConfig& config, at::ScalarType file) {
  const bool named = config.source.find("dtype") || config.source.find("torch_dtype");
  return named || (file != at::kBFloat16 && file != at::kHalf) ? config.dtype : file;
}

// A file may hold the head beside the embedding it is tied to.
void check_tied_head(const SafetensorsFolder& files, const ModelConfig& config,
                     const FileForm& form, const std::string& where) {
  const std::string head = config.names.head + ".weight";
  if (!config.tied || !files.has(head)) return;
  // A fine-tuned head that differs would be lost without notice.
  // The embedding is the first spec.
  const at::Tensor embedding = read_weight(weight_specs(config).front(), files, form);
  XRUN_CHECK(at::equal(files.read(head), embedding),
             "{}: config.json ties the head to the embedding, but the file has an {} that differs "
             "from it; set tie_word_embeddings to false to use it",
             where, head);
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

// Type and shape of a weight, on one zero.
at::Tensor valueless(const at::Tensor& weight) {
  return at::zeros({}, weight.options()).expand(weight.sizes());
}

}  // namespace

std::shared_ptr<Model> Model::load(const std::filesystem::path& dir, const LoadOptions& options) {
  ModelConfig config = options.classifiers ? read_frozen_config(dir) : read_model_config(dir);
  const std::string where = dir.string();
  // Only from config.json, before a file of weights is opened. The rest of weights in ranges is not
  // here.
  if (!options.make_ranged) {
    check_weights_fit(config, master_type(options), device_memory(options.device).available, where);
  }
  const SafetensorsFolder files(dir);
  const FileForm form = file_form(files, config, where);
  check_weight_names(files, config, form, where);
  check_tied_head(files, config, form, where);
  std::vector<Parameter> parameters;
  WeightValues values(options.dtype);
  const std::shared_ptr<RangedWeights> ranged = make_ranged_weights(config, options);
  Hasher masters, rounded;
  for (const WeightSpec& spec : weight_specs(config)) {
    // One weight at a time: loading peaks at one tensor more than it keeps.
    const at::Tensor read = read_weight(spec, files, form);
    XRUN_CHECK(read.is_floating_point(), "{}: '{}' is {}, wanted a floating-point type", where,
               spec.name, c10::toString(read.scalar_type()));
    values.saw(spec.name, read);
    // The first weight stands for all.
    if (parameters.empty()) config.dtype = stored_dtype(config, read.scalar_type());
    at::Tensor master = read.to(master_type(options, spec.name)).to(options.device);
    if (ranged) {
      add_to_digest(masters, spec.name, master);
      add_to_digest(rounded, spec.name, master.to(options.dtype));
      ranged->put(parameters.size(), master);
      master = valueless(master);
    }
    parameters.push_back({spec.name, std::move(master)});
  }
  values.finish(where);
  std::shared_ptr<Model> model = make(std::move(config), std::move(parameters), options, ranged);
  if (!ranged) return model;
  model->loaded_.rounded = rounded.hex();
  for (size_t i = static_cast<size_t>(model->base_count()); i < model->parameters_.size(); ++i) {
    add_to_digest(masters, model->parameters_[i].name, model->parameters_[i].master.detach());
  }
  model->loaded_.masters = masters.hex();
  return model;
}

std::shared_ptr<Model> Model::make(ModelConfig config, std::vector<Parameter> parameters,
                                   const LoadOptions& options,
                                   std::shared_ptr<RangedWeights> ranged) {
  const at::ScalarType dtype = options.dtype;
  XRUN_CHECK(dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kDouble ||
                 (dtype == at::kHalf && !options.trainable),
             "a model that is {} computes in fp32 or bf16{}, not in {}",
             options.trainable ? "trained" : "only read", options.trainable ? "" : " or fp16",
             dtype_name(dtype));
  LoadOptions placed = options;
  placed.adapter = adapter_on(options.adapter, options.device);
  return std::shared_ptr<Model>(
      new Model(std::move(config), std::move(parameters), placed, std::move(ranged)));
}

}  // namespace xrun
