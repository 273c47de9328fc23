#include "core/config/config_field.h"

#include <gtest/gtest.h>

namespace xrun::config_field_test {

TEST(ConfigFields, DeclareEachPathOnceWithADoc) {
  std::vector<std::string> seen;
  for (const ConfigField& field : config_fields()) {
    EXPECT_FALSE(field.doc.empty()) << field.path;
    EXPECT_EQ(find_config_field(field.path), &field) << "twice: " << field.path;
    EXPECT_TRUE(field.default_value.is_null() || fits(field, field.default_value)) << field.path;
  }
}

}  // namespace xrun::config_field_test
