// Exports of a policy: whole folders, with an adapter merged and also separate.

#include "core/base/error.h"
#include "core/model/model.h"
#include "core/model/weights/adapter_files.h"
#include "core/model/weights/export.h"
#include "core/model/weights/safetensors.h"
#include "core/text/chat/chat_template.h"
#include "core/text/tokenizer/tokenizer.h"
#include "core/train/models/policy.h"

namespace xrun {
namespace {

constexpr const char* kAdapterFolder = "adapter";  // of an export

// Returns the template that an export must include besides the tokenizer's files; "": none. A
// marked copy of the tokenizer's own template renders the same text, so the tokenizer's stays.
std::string template_to_export(const ChatTemplate& used, const Tokenizer& tokenizer) {
  if (!tokenizer.chat_templates().empty()) {
    try {
      // Resolved again, since a marked copy has another source than the file of the tokenizer.
      const ResolvedTemplate own = resolve_template(tokenizer, "auto", "", /*allow_unmarked=*/true);
      if (own.chat_template->source() == used.source()) return "";
    } catch (const Error&) {
      // The folder's own cannot be used, so another one was named.
    }
  }
  return used.source();
}

}  // namespace

std::string Policy::exported_template() const {
  return chat_template_ ? template_to_export(*chat_template_, *tokenizer()) : "";
}

c10::ScalarType Policy::export_dtype() {
  return options_.export_dtype.value_or(model().config().dtype);
}

int64_t Policy::export_bytes() const {
  int64_t bytes = 0;
  // From the headers, so that the disk space needed is known without loading weights.
  const SafetensorsFolder weights(dir_);
  for (const std::string& name : weights.names()) {
    const SafetensorsEntry& entry = weights.entry(name);
    int64_t elements = 1;
    for (const int64_t size : entry.shape) elements *= size;
    bytes += elements *
             static_cast<int64_t>(c10::elementSize(options_.export_dtype.value_or(entry.dtype)));
  }
  return bytes;
}

void Policy::export_to(const std::filesystem::path& out, std::optional<c10::ScalarType> dtype) {
  // hf/ has the merged weights, hf/adapter/ the factors alone.
  const c10::ScalarType type = dtype.value_or(export_dtype());
  export_model(model().exported(type), dir_, out, exported_template());
  if (model().adapter()) {
    write_adapter(*model().adapter(), model().config(), dir_.string(), out / kAdapterFolder);
  }
}

void Policy::export_classifier_to(const std::filesystem::path& out, const at::Tensor& score) {
  export_classifier(model().exported(export_dtype()), score, dir_, out, exported_template());
}

}  // namespace xrun
