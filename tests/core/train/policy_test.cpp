#include "core/train/policy.h"

#include <gtest/gtest.h>

#include "core/base/file.h"
#include "core/model/init_model.h"
#include "core/text/chat_template.h"
#include "core/text/tokenizer.h"
#include "core/train/adamw.h"
#include "core/train/reference.h"
#include "tests/core/train/tiny_pairs.h"

namespace xrun {
namespace {

const std::filesystem::path kData = XRUN_SOURCE_DIR "/tests/data";

// Exports a policy over a tokenizer, used with the template of a setting, and returns the folder.
class PolicyExport : public testing::Test {
 protected:
  std::filesystem::path exported(const std::string& setting, const std::string& own_template = "",
                                 const std::string& tool_use = "") {
    const std::filesystem::path tokenizer = folder_.path() / "tokenizer";
    make_dirs(tokenizer);
    write_file_atomic(tokenizer / "tokenizer.json",
                      read_file(kData / "tokenizers/smol/tokenizer.json"));
    if (!own_template.empty()) write_file_atomic(tokenizer / "chat_template.jinja", own_template);
    if (!tool_use.empty()) {
      make_dirs(tokenizer / "additional_chat_templates");
      write_file_atomic(tokenizer / "additional_chat_templates/tool_use.jinja", tool_use);
    }
    InitOptions options;
    options.vocab = 1000;
    options.tokenizer = tokenizer;
    init_model(folder_.path() / "model", options);
    const auto policy = Policy::open(folder_.path() / "model");
    policy->use_template(resolve_template(*policy->tokenizer(), setting).chat_template);
    policy->export_to(folder_.path() / "hf");
    return folder_.path() / "hf";
  }
  static std::string rendered(const std::filesystem::path& dir) {
    const auto tokenizer = Tokenizer::load(dir);
    const Json messages = parse_json(R"([{"role":"user","content":"q"}])", "messages");
    return resolve_template(*tokenizer, "auto", "", /*allow_unmarked=*/true)
        .chat_template->render(messages, Json())
        .text;
  }

  TinyFolder folder_;
};

TEST_F(PolicyExport, CarriesTheTemplateThatWasNamedForATokenizerWithoutOne) {
  const std::filesystem::path dir = exported("chatml");
  EXPECT_EQ(rendered(dir), "<|im_start|>user\nq<|im_end|>\n");
}

TEST_F(PolicyExport, CarriesTheNamedTemplateInPlaceOfTheTokenizersOwn) {
  const std::filesystem::path dir = exported("chatml", "{{ messages[0].content }}");
  EXPECT_EQ(rendered(dir), "<|im_start|>user\nq<|im_end|>\n");
}

TEST_F(PolicyExport, KeepsTheTokenizersOwnTemplateWhereAMarkedCopyTrained) {
  // Renders what our marked SmolLM2 template does, without its marks.
  const std::string own =
      "{% for m in messages %}{% if loop.first and m.role != 'system' %}{{ '<|im_start|>system\\n"
      "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\\n' }}"
      "{% endif %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"
      "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
  EXPECT_EQ(read_file(exported("auto", own) / "chat_template.jinja"), own);
}

TEST_F(PolicyExport, CarriesTheNamedTemplatesUnlessAnotherOneTrained) {
  const std::string marked = "{% generation %}x{% endgeneration %}";
  const auto tool_use = [&](const std::string& setting) {
    const std::filesystem::path dir = exported(setting, marked, marked + "tools");
    return path_exists(dir / "additional_chat_templates/tool_use.jinja");
  };
  EXPECT_TRUE(tool_use("auto"));
  std::filesystem::remove_all(folder_.path() / "hf");
  std::filesystem::remove_all(folder_.path() / "model");
  EXPECT_FALSE(tool_use("chatml"));
}

TEST(Policy, NeedsAModelFolder) { EXPECT_THROW(Policy::open("/nonexistent/model"), Error); }

TEST(Policy, LoadsNothingUntilItIsAsked) {
  TinyFolder folder;
  const auto policy = Policy::open(folder.model());
  AdamWOptions options;
  options.lr = 1;
  AdamW adamw({policy}, options);
  const auto reference = policy->reference();
  EXPECT_FALSE(policy->loaded());
  policy->logprob(*tiny_batch(tiny_pairs(1), 1));
  EXPECT_TRUE(policy->loaded());
}

TEST(Policy, ATokenizerThatIsMissingIsNamedWhenAskedFor) {
  TinyFolder folder;
  const auto policy = Policy::open(folder.model());
  EXPECT_THROW(policy->tokenizer(), Error);
}

}  // namespace
}  // namespace xrun
