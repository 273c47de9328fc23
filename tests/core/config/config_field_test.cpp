// Each config key is declared once, with a doc, and each foreign name leads to one key.

#include "core/config/config_field.h"

#include <gtest/gtest.h>

#include <set>

#include "core/config/foreign_names.h"

namespace xrun::config_field_test {

TEST(ConfigFields, DeclareEachPathOnceWithADoc) {
  std::vector<std::string> seen;
  for (const ConfigField& field : config_fields()) {
    EXPECT_FALSE(field.doc.empty()) << field.path;
    EXPECT_EQ(find_config_field(field.path), &field) << "twice: " << field.path;
    EXPECT_TRUE(field.default_value.is_null() || fits(field, field.default_value)) << field.path;
  }
}

TEST(ConfigFields, ANameOfAnotherLibraryBelongsToOneField) {
  std::set<std::string> seen;
  for (const ConfigField& field : config_fields()) {
    for (const std::string& name : field.foreign) {
      EXPECT_TRUE(seen.insert(name).second) << name;
      EXPECT_EQ(find_config_field(name), nullptr) << name;
      std::string path;
      const std::string hint = foreign_name_hint(name, &path);
      EXPECT_NE(hint.find("`" + field.path), std::string::npos) << name << ": " << hint;
      EXPECT_EQ(path, field.path);
    }
  }
}

TEST(ConfigFields, ANumberOrTextInPlaceOfATableMeansItsFirstMemberThatTakesIt) {
  const auto meant = [](const char* table, const Json& value) {
    return meant_member(*find_config_field(table), value);
  };
  EXPECT_EQ(meant("valid", 0.2), "valid.fraction");
  EXPECT_EQ(meant("valid", 10), "valid.every");
  EXPECT_EQ(meant("save", 100), "save.every");
  EXPECT_EQ(meant("optim", 1e-5), "optim.lr");
  EXPECT_EQ(meant("lora", 8), "lora.rank");
  EXPECT_EQ(meant("export", "bf16"), "export.dtype");
  EXPECT_EQ(meant("shuffle", 256), "") << "a flag or a table";
  EXPECT_EQ(meant("stop", -1), "");
  EXPECT_EQ(meant("lora", true), "");
  EXPECT_EQ(meant("laws", 1), "");
  EXPECT_EQ(meant("batch", 8), "") << "pairs, sequences or prompts";
}

}  // namespace xrun::config_field_test
