// A folder is written beside its final name and renamed when it is whole (staged_folder.h):
// config.json as loaded except for the type, generation_config.json, the tokenizer files and
// model.safetensors.

#include "core/model/weights/export.h"

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/folder.h"
#include "core/base/json.h"
#include "core/model/weights/families.h"
#include "core/model/weights/hf_config.h"
#include "core/model/weights/staged_folder.h"

namespace xrun {

namespace {

constexpr const char* kTokenizerFiles[] = {
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "tokenizer.model",
    "chat_template.jinja",
};

// config.json as loaded, except for the type that the weights are saved in.
Json config_of(const ModelConfig& config, c10::ScalarType dtype) {
  Json json = config.source;
  // transformers 4 reads torch_dtype, 5 both: the spelling of the source is kept.
  const bool four = json.find("torch_dtype") != nullptr && json.find("dtype") == nullptr;
  json.set(four ? "torch_dtype" : "dtype", dtype_name(dtype));
  if (json.find("architectures") == nullptr) {
    const ModelFamily& family = family_named(config.model_type, "config.json");
    json.set("architectures", Json(Json::Array{family.architecture}));
  }
  return json;
}

// "LlamaForCausalLM" to "LlamaForSequenceClassification", "GPT2LMHeadModel" to "GPT2For...".
std::string classifier_of(std::string architecture) {
  for (const std::string_view end : {"ForCausalLM", "LMHeadModel"}) {
    if (architecture.ends_with(end)) architecture.resize(architecture.size() - end.size());
  }
  return architecture + "ForSequenceClassification";
}

// transformers takes the number of labels from their names.
Json classifier_config_of(const ModelConfig& config, c10::ScalarType dtype) {
  Json json = config_of(config, dtype);
  const std::string causal = family_named(config.model_type, "config.json").architecture;
  json.set("architectures", Json(Json::Array{classifier_of(causal)}));
  json.set("id2label", Json(Json::Object{{"0", "LABEL_0"}}));
  json.set("label2id", Json(Json::Object{{"LABEL_0", 0}}));
  return json;
}

void copy_over(const std::filesystem::path& from, const std::filesystem::path& to) {
  write_file_atomic(to, read_file(from));
}

// Readers older than chat_template.jinja take the template from tokenizer_config.json, so the one
// of the source must not stay there.
void replace_config_template(const std::filesystem::path& path, const std::string& chat_template) {
  if (!path_exists(path)) return;
  Json config = read_json(path.string());
  if (config.find("chat_template") == nullptr) return;
  config.set("chat_template", chat_template);
  write_file_atomic(path, dump_json(config, kIndentedJson) + "\n");
}

// A failure leaves `out` as it was.
void write_export(const std::vector<TensorReader>& tensors, const Json& config,
                  const std::filesystem::path& source, const std::filesystem::path& out,
                  const std::string& chat_template) {
  // Only an earlier export is replaced; StagedFolder refuses any other folder that holds something.
  const bool earlier = path_exists(out / "config.json") && path_exists(out / "model.safetensors");
  std::error_code code;
  // With an error code: `out` mostly does not exist, and equivalent would throw.
  XRUN_CHECK(!std::filesystem::equivalent(source, out, code),
             "{}: the export would replace the folder that the model came from; name another",
             out.string());
  StagedFolder folder(out, earlier);
  copy_tokenizer(source, folder.path());
  if (!chat_template.empty()) {
    // The given template replaces the named ones as well.
    remove_tree(folder.path() / kNamedTemplateFolder);
    write_file_atomic(folder.path() / "chat_template.jinja", chat_template);
    replace_config_template(folder.path() / "tokenizer_config.json", chat_template);
  }
  if (path_exists(source / "generation_config.json")) {
    copy_over(source / "generation_config.json", folder.path() / "generation_config.json");
  }
  write_file_atomic(folder.path() / "config.json", dump_json(config, kIndentedJson) + "\n");
  // transformers refuses a file whose metadata does not name its format
  write_safetensors(folder.path() / "model.safetensors", tensors, {{"format", "pt"}});
  folder.commit();
}

}  // namespace

// The files that a tokenizer of ours or of transformers reads.
std::vector<std::string> tokenizer_files(const std::filesystem::path& dir) {
  std::vector<std::string> found;
  for (const char* name : kTokenizerFiles) {
    if (path_exists(dir / name) && is_file(dir / name)) found.push_back(name);
  }
  for (const std::string& name : named_template_files(dir)) {
    found.push_back(std::string(kNamedTemplateFolder) + "/" + name);
  }
  return found;
}

void copy_tokenizer(const std::filesystem::path& from, const std::filesystem::path& to) {
  for (const std::string& name : tokenizer_files(from)) {
    make_dirs((to / name).parent_path());
    copy_over(from / name, to / name);
  }
}

void export_model(const ExportedModel& model, const std::filesystem::path& source,
                  const std::filesystem::path& out, const std::string& chat_template) {
  write_export(model.tensors, config_of(model.config, model.dtype), source, out, chat_template);
}

// For a reward model, as transformers' AutoModelForSequenceClassification loads it.
void export_classifier(ExportedModel model, const at::Tensor& score,
                       const std::filesystem::path& source, const std::filesystem::path& out,
                       const std::string& chat_template) {
  const std::string head = model.config.names.head + ".weight";
  // A classifier has `score` in place of the vocabulary projection.
  std::erase_if(model.tensors, [&](const TensorReader& tensor) { return tensor.name == head; });
  const at::Tensor rounded = score.detach().to(model.dtype);
  model.tensors.push_back(
      {"score.weight", model.dtype, rounded.sizes().vec(), [rounded] { return rounded; }});
  write_export(model.tensors, classifier_config_of(model.config, model.dtype), source, out,
               chat_template);
}

}  // namespace xrun
