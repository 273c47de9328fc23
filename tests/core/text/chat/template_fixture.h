#pragma once
// Templates and tokenizers for the tests of chat templates.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "core/base/folder.h"
#include "core/base/json.h"
#include "core/text/chat/chat_template.h"
#include "core/text/chat/template_families.h"
#include "tests/scratch_folder.h"
#include "tests/tree.h"

namespace xrun {

inline const std::filesystem::path kSourceDir = source_path();

inline std::shared_ptr<const ChatTemplate> jinja_of(const std::string& source,
                                                    TemplateTokens tokens = {}) {
  return make_jinja_template(source, "test", std::move(tokens), "2024-07-26");
}

// A built-in template whose BOS and EOS are <s> and </s>.
inline std::shared_ptr<const ChatTemplate> builtin_of(std::string_view name) {
  return jinja_of(std::string(find_builtin(name)->source),
                  {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
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

// A tokenizer.json of tests/data with the given configuration.
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

// The rows of a .jsonl file.
inline std::vector<Json> read_rows(const std::filesystem::path& path) {
  std::vector<Json> rows;
  const std::string bytes = read_file(path);
  for (size_t at = 0; at < bytes.size();) {
    const size_t end = bytes.find('\n', at);
    rows.push_back(parse_json(std::string_view(bytes).substr(at, end - at), path.string()));
    at = end + 1;
  }
  return rows;
}

inline const char* const kNoPublished =
    "no published templates; tools/oracle/README.md says how to get them";

// The folders of published templates: $XRUN_TRL_TEMPLATES (several are separated by colons), else
// those of the trl package in the cache folder. The texts are not part of this tree; tests that
// need one are skipped without it.
inline std::vector<std::filesystem::path> published_templates() {
  std::vector<std::filesystem::path> files;
  const char* set = std::getenv("XRUN_TRL_TEMPLATES");
  const std::string fetched = cache_root() / "trl/trl/chat_templates";
  std::istringstream folders(set == nullptr ? fetched : set);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
      if (entry.path().extension() == ".jinja") files.push_back(entry.path());
    }
  }
  return files;
}

// The text of a published template of a family (template_families.h), or "" if none is available.
inline std::optional<std::string> published_template(std::string_view family) {
  for (const std::filesystem::path& file : published_templates()) {
    std::string source = read_file(file);
    if (stock_family(source) == family) return source;
  }
  return {};
}

// A built-in template without its marks, as a tokenizer with an unknown text may have.
inline std::string without_marks(std::string_view builtin) {
  return std::regex_replace(std::string(find_builtin(builtin)->source),
                            std::regex("\\{%-? *(end)?generation *-?%\\}"), "{#- -#}");
}

// The non-empty generation blocks in code points, as transformers counts them.
inline Json turns_in_points(const Rendering& rendering) {
  const std::string_view text = rendering.text;
  const auto points = [&](size_t end) {
    return std::count_if(text.begin(), text.begin() + static_cast<ptrdiff_t>(end),
                         [](char c) { return (c & 0xC0) != 0x80; });
  };
  Json out = Json::array();
  for (const ByteRange& turn : rendering.turns) {
    out.push_back(Json::Array{int64_t{points(turn.begin)}, int64_t{points(turn.end)}});
  }
  return out;
}

}  // namespace xrun
