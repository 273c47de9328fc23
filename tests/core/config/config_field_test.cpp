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
      EXPECT_EQ(foreign_name_hint(name, &path), "here it is `" + field.path + "`");
      EXPECT_EQ(path, field.path);
    }
  }
}

}  // namespace xrun::config_field_test
