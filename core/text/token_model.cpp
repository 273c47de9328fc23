#include "core/text/token_model.h"

#include "core/base/error.h"

namespace xrun {

namespace {

std::vector<std::pair<const char*, MakeModel>>& model_types() {
  static std::vector<std::pair<const char*, MakeModel>> types;
  return types;
}

}  // namespace

bool add_model_type(const char* type, MakeModel make) {
  model_types().emplace_back(type, make);
  return true;
}

std::string_view ModelSource::member(std::string_view key) const {
  for (const auto& [name, text] : members) {
    if (name == key) return text;
  }
  throw Error(fmt::format("{}: the key \"{}\" is missing", where, key));
}

Json ModelSource::option(std::string_view key) const {
  for (const auto& [name, text] : members) {
    if (name == key) return parse_json(text, fmt::format("{}.{}", where, key));
  }
  return {};
}

std::unique_ptr<const TokenModel> make_model(const ModelSource& source) {
  const Json json = source.option("type");
  XRUN_CHECK(json.is_null() || json.is_string(), "{}.type: got {}, wanted a string", source.where,
             json.kind_name());
  const std::string type = json.is_null() ? "BPE" : json.as_string();
  std::string known;
  for (const auto& [name, make] : model_types()) {
    if (type == name) return make(source);
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  throw Error(fmt::format("{}: the type \"{}\" is not supported; supported are {}", source.where,
                          type, known));
}

}  // namespace xrun
