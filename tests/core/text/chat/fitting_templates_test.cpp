// The built-in templates that fit a tokenizer end turns with one of its special tokens.

#include "core/text/chat/fitting_templates.h"

#include <gtest/gtest.h>

#include "core/base/strings.h"
#include "tests/core/text/chat/template_fixture.h"

namespace xrun::fitting_templates_test {
namespace {

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

TEST(FittingTemplates, WriteAnEndOfTurnThatIsASpecialToken) {
  const auto tokenizer = Tokenizer::load(source_path("tests/data/tiny_tokenizer"));
  const std::vector<std::string> names = fitting_templates(*tokenizer);
  // ChatML's own, and one that ends turns with the tokenizer's EOS.
  EXPECT_TRUE(has(names, "chatml") && has(names, "qwen2.5") && has(names, "zephyr"))
      << joined(names, ", ");
  EXPECT_FALSE(has(names, "llama-3") || has(names, "gemma")) << joined(names, ", ");
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
}

}  // namespace
}  // namespace xrun::fitting_templates_test
