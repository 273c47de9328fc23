#include "core/text/tokenizer/folder_templates.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/named_templates.h"
#include "core/text/tokenizer/tokenizer_component.h"

namespace xrun {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxBytes = 64 << 20;

void add(NamedTexts& out, const std::string& name, std::string text) {
  const auto known =
      std::find_if(out.begin(), out.end(), [&](const auto& one) { return one.first == name; });
  if (known == out.end()) {
    out.emplace_back(name, std::move(text));
  } else {
    known->second = std::move(text);  // the last one of a name counts, as in transformers
  }
}

NamedTexts read_member(const Json& value, const std::string& where) {
  NamedTexts out;
  if (value.is_string()) {
    if (!value.as_string().empty()) add(out, "default", value.as_string());
    return out;
  }
  if (value.is_object()) {
    for (const auto& [name, text] : value.as_object()) {
      XRUN_CHECK(text.is_string(), "{}.{}: got {}, wanted a template's text", where, name,
                 text.kind_name());
      add(out, name, text.as_string());
    }
    return out;
  }
  XRUN_CHECK(value.is_array(),
             "{}: got {}, wanted a string, an object of templates by name or a "
             "list of named templates",
             where, value.kind_name());
  for (size_t i = 0; i < value.size(); ++i) {
    const ComponentSpec item(value.as_array()[i], fmt::format("{}[{}]", where, i));
    add(out, item.text("name"), item.text("template"));
  }
  return out;
}

}  // namespace

NamedTexts read_folder_templates(const fs::path& dir, const Json& config,
                                 const std::string& config_name) {
  NamedTexts out;
  if (path_exists(dir / "chat_template.jinja")) {
    out.emplace_back("default", read_file(dir / "chat_template.jinja", kMaxBytes));
  }
  for (const std::string& file : named_template_files(dir)) {
    add(out, fs::path(file).stem().string(),
        read_file(dir / kNamedTemplateFolder / file, kMaxBytes));
  }
  const Json* value = config.find("chat_template");
  if (!out.empty() || value == nullptr || value->is_null()) return out;
  return read_member(*value, config_name + ": chat_template");
}

}  // namespace xrun
