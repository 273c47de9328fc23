#pragma once
// Writes a model as a Hugging Face folder that transformers opens directly.

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/model/weights/hf_config.h"
#include "core/model/weights/safetensors.h"

namespace xrun {

// A model in the form of its checkpoint (Model::exported).
struct ExportedModel {
  const ModelConfig& config;
  c10::ScalarType dtype;              // of the tensors
  std::vector<TensorReader> tensors;  // names and layouts of the family (weight_layout.h)
};

// Writes config.json (as loaded, with the dtype it is saved in) and model.safetensors, and copies
// generation_config.json and the tokenizer's files, template included, from `source`, the folder
// the model came from. A non-empty `chat_template` becomes chat_template.jinja, which transformers
// and we prefer to any other, and named templates are not copied. `out` appears whole or not at
// all; an existing folder is replaced only if it is an earlier export or empty. Throws Error.
void export_model(const ExportedModel& model, const std::filesystem::path& source,
                  const std::filesystem::path& out, const std::string& chat_template = "");

// Writes an export as a sequence classifier with one label, <Family>ForSequenceClassification: the
// weights without the vocabulary projection, and score.weight, `score` [1, D]. transformers reads a
// score at the last token that is not config.json's pad_token_id.
void export_classifier(ExportedModel model, const at::Tensor& score,
                       const std::filesystem::path& source, const std::filesystem::path& out,
                       const std::string& chat_template = "");

// Returns the tokenizer files in `dir`, template included, that travel with a model.
std::vector<std::string> tokenizer_files(const std::filesystem::path& dir);
void copy_tokenizer(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace xrun
