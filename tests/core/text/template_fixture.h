#pragma once
// Templates and tokenizers for the tests of chat templates.

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/text/chat_template.h"
#include "tests/core/data/scratch_folder.h"

namespace xrun {

inline const std::filesystem::path kSourceDir = XRUN_SOURCE_DIR;

inline std::shared_ptr<const ChatTemplate> jinja_of(const std::string& source,
                                                    TemplateTokens tokens = {}) {
  return make_jinja_template(source, "test", std::move(tokens), "2024-07-26");
}

// {"role", "content"} pairs as messages.
inline Json messages(std::initializer_list<std::pair<const char*, const char*>> turns) {
  Json out = Json::array();
  for (const auto& [role, content] : turns) {
    out.push_back(Json(Json::Object{{"role", role}, {"content", content}}));
  }
  return out;
}

inline std::string render_text(const std::string& source, const Json& kwargs = {}) {
  return jinja_of(source)->render(messages({{"user", "x"}}), kwargs).text;
}

// A tokenizer.json of the tests' data with a configuration of the test's own.
inline std::shared_ptr<const Tokenizer> load_with_config(const ScratchFolder& folder,
                                                         const std::string& tokenizer,
                                                         const Json& config) {
  folder.write("tokenizer.json",
               read_file(kSourceDir / "tests/data" / tokenizer / "tokenizer.json"));
  folder.write("tokenizer_config.json", dump_json(config));
  return Tokenizer::load(folder.path());
}

inline std::filesystem::path shared_data() {
  const char* set = std::getenv("XRUN_TEST_DATA");
  return set != nullptr ? std::filesystem::path(set) : kSourceDir / "../shared/data";
}

inline std::string stock_template(const std::string& family) {
  return read_file(kSourceDir / "tests/data/templates" / (family + ".jinja"));
}

}  // namespace xrun
