// The laws on real rows: every built-in template with every shared tokenizer. A breach that is not
// listed here is a false alarm.

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/text/chat/template_laws.h"
#include "tests/core/text/chat/template_fixture.h"

namespace xrun::template_laws_data_test {

namespace {

constexpr size_t kRowsOfAFile = 12;

std::vector<LawSample> shared_samples() {
  std::vector<LawSample> samples;
  const auto take = [&](const char* file, const auto& sample_of) {
    for (const Json& row : read_rows(shared_data() / file)) {
      if (samples.size() % kRowsOfAFile == 0 && !samples.empty() &&
          samples.back().where.starts_with(file)) {
        break;
      }
      samples.push_back(sample_of(row));
      samples.back().where = fmt::format("{}:{}", file, samples.size());
    }
  };
  take("preferences/dpo_en.jsonl", [](const Json& row) {
    return LawSample{"", row.at("chosen"), row.at("rejected"), {}};
  });
  for (const char* file : {"chat/alpaca_en.jsonl", "chat/toolcall_en.jsonl"}) {
    take(file, [](const Json& row) {
      Json kwargs = Json::object();
      if (const Json* tools = row.find("tools")) kwargs.set("tools", *tools);
      return LawSample{"", row.at("messages"), {}, kwargs};
    });
  }
  return samples;
}

// True for the breaches that are real.
bool is_expected(const LawBreach& breach, const std::string& name, bool writes_bos) {
  // A tokenizer whose own encoding adds a BOS, and a template that writes none: a real finding.
  if (breach.law == "bos") return !writes_bos;
  // Mistral's v3 templates write the system turn into a last user turn, and nowhere after an
  // answer.
  if (breach.law == "prefix") return name.starts_with("mistral-v3");
  // GLM-4 has no end-of-turn token, and no tokenizer here has Phi's: if a template ends a text with
  // EOS, the end of a turn cannot be plain text.
  return breach.law == "eot_trained" && (name == "glm-4-moe" || name.starts_with("phi-"));
}

TEST(TemplateLaws, RaiseNoFalseAlarmOnSharedRowsSlow) {
  if (!std::filesystem::exists(shared_data() / "preferences/dpo_en.jsonl")) {
    GTEST_SKIP() << "no data at " << shared_data();
  }
  const std::vector<LawSample> samples = shared_samples();
  ASSERT_EQ(samples.size(), 3 * kRowsOfAFile);
  for (const char* folder : {"gpt2", "llama2", "qwen"}) {
    const auto tokenizer = Tokenizer::load(shared_data() / "tokenizers" / folder);
    for (const std::string& name : builtin_template_names()) {
      const auto chat_template = resolve_template(*tokenizer, name, "2024-07-26").chat_template;
      const bool writes_bos = chat_template->source().find("bos_token") != std::string::npos &&
                              tokenizer->bos_id().has_value();
      for (const LawBreach& breach : check_laws(*tokenizer, *chat_template, samples)) {
        EXPECT_TRUE(is_expected(breach, name, writes_bos))
            << folder << " " << name << " breaks " << breach.law << " at " << breach.where << ": "
            << breach.message;
        EXPECT_NE(breach.where.find(".jsonl:"), std::string::npos);
      }
    }
  }
}

}  // namespace

}  // namespace xrun::template_laws_data_test
