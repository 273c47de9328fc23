#pragma once
// A model as a Hugging Face folder that opens in transformers as it is.

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <filesystem>
#include <string>
#include <vector>

namespace xrun {

class Model;

// Writes config.json (as loaded, with the dtype it is saved in), model.safetensors, and copies
// generation_config.json and the tokenizer's files, template included, from `source`, the folder
// the model came from. A `chat_template` that is not empty becomes chat_template.jinja, which
// transformers and we prefer to any other, and the named ones stay behind. `out` appears whole or
// not at all; an existing folder is replaced only if it is an earlier export or empty. Throws
// Error.
void export_model(const Model& model, const std::filesystem::path& source,
                  const std::filesystem::path& out, c10::ScalarType dtype = c10::ScalarType::Float,
                  const std::string& chat_template = "");

// The same as a sequence classifier of one label, <Family>ForSequenceClassification: the model's
// weights without the vocabulary projection, and score.weight, `score` [1, D]. transformers reads
// a score off the last token that is not config.json's pad_token_id.
void export_classifier(const Model& model, const at::Tensor& score,
                       const std::filesystem::path& source, const std::filesystem::path& out,
                       c10::ScalarType dtype = c10::ScalarType::Float,
                       const std::string& chat_template = "");

// The tokenizer files that `dir` holds, template included, of those that travel with a model.
std::vector<std::string> tokenizer_files(const std::filesystem::path& dir);
void copy_tokenizer(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace xrun
