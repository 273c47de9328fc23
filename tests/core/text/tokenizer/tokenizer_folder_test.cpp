// Templates and settings are found in a model folder in every published form.

#include "core/text/tokenizer/tokenizer_folder.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/folder.h"
#include "tests/scratch_folder.h"

namespace xrun::tokenizer_folder_test {

namespace {

// Returns "name=text name=text".
std::string read(const ScratchFolder& folder, const char* config) {
  std::string out;
  for (const auto& [name, text] :
       read_folder_templates(folder.path(), parse_json(config, "config"), "CONFIG")) {
    out += fmt::format("{}{}={}", out.empty() ? "" : " ", name, text);
  }
  return out;
}

TEST(TokenizerFolderTemplates, ATextAnObjectAndAListAreEquivalent) {
  const ScratchFolder folder;
  EXPECT_EQ(read(folder, R"({"chat_template": "T"})"), "default=T");
  EXPECT_EQ(read(folder, R"({"chat_template": {"default": "T", "rag": "R"}})"), "default=T rag=R");
  EXPECT_EQ(read(folder, R"({"chat_template": [{"name": "default", "template": "T"},
                                               {"name": "rag", "template": "R"}]})"),
            "default=T rag=R");
  EXPECT_EQ(read(folder, R"({"chat_template": null})"), "");
  EXPECT_EQ(read(folder, R"({"chat_template": ""})"), "");
  EXPECT_EQ(read(folder, "{}"), "");
}

TEST(TokenizerFolderTemplates, FilesPrecedeTheConfiguration) {
  const ScratchFolder folder;
  std::filesystem::create_directory(folder.path() / kNamedTemplateFolder);
  folder.write("additional_chat_templates/tool_use.jinja", "U");
  folder.write("additional_chat_templates/note.txt", "no template");
  // Any file hides the configuration, even without a default.
  EXPECT_EQ(read(folder, R"({"chat_template": "T"})"), "tool_use=U");
  folder.write("chat_template.jinja", "J");
  EXPECT_EQ(read(folder, R"({"chat_template": [{"name": "rag", "template": "R"}]})"),
            "default=J tool_use=U");
}

TEST(TokenizerFolderTemplates, AFolderThatCannotBeListedIsAnError) {
  const ScratchFolder folder;
  folder.write(kNamedTemplateFolder, "a file instead of the folder");
  EXPECT_EQ(error_of([&] { read(folder, R"({"chat_template": "T"})"); }),
            (folder.path() / kNamedTemplateFolder).string() +
                ": cannot list the folder: Not a directory");
}

TEST(TokenizerFolderTemplates, AWrongTemplateIsNamed) {
  const ScratchFolder folder;
  EXPECT_EQ(
      error_of([&] { read(folder, R"({"chat_template": 3})"); }),
      "CONFIG: chat_template: got integer, wanted a string, an object of templates by name or "
      "a list of named templates");
  EXPECT_EQ(error_of([&] { read(folder, R"({"chat_template": {"a": 3}})"); }),
            "CONFIG: chat_template.a: got integer, wanted a template's text");
}

}  // namespace

}  // namespace xrun::tokenizer_folder_test
