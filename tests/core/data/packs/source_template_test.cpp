// A source is refused, with the fix, for a template under which its rows cannot be trained.

#include <filesystem>

#include "core/data/packs/data_source.h"
#include "tests/core/data/rows/pair_fixture.h"

namespace xrun::source_template_test {
namespace {

using DataSources = PairFixture;

// A template whose turns end outside of the trained span.
class OpenEnded : public HandChatml {
 public:
  Rendering render(const Json& messages, const Json& kwargs) const override {
    Rendering out = HandChatml::render(messages, kwargs);
    const uint32_t end = static_cast<uint32_t>(std::string("<|im_end|>").size());
    for (ByteRange& turn : out.turns) turn.end -= end;
    std::vector<RenderSpan> spans;
    for (RenderSpan span : out.spans) {
      const bool is_end = span.generation && span.origin == Origin::kTemplate;
      span.generation = span.generation && !is_end;
      if (!spans.empty() && spans.back().origin == span.origin &&
          spans.back().generation == span.generation) {
        spans.back().end = span.end;
      } else {
        spans.push_back(span);
      }
    }
    out.spans = spans;
    return out;
  }
};

// A template whose blocks cover no answer.
class Unmarked : public HandChatml {
 public:
  Rendering render(const Json& messages, const Json& kwargs) const override {
    Rendering out = HandChatml::render(messages, kwargs);
    out.turns.clear();
    for (RenderSpan& span : out.spans) span.generation = false;
    return out;
  }
};

TEST_F(DataSources, AnUnmarkedTemplateIsRefused) {
  const auto unmarked = std::make_shared<HandChatml>(false);
  const DataOptions some = options(pair_row("q", "yes", "no"));
  EXPECT_NE(error_of([&] {
              DataSet::open(some, tokenizer(), unmarked);
            }).find("has no {% generation %} marks"),
            std::string::npos);
}

TEST_F(DataSources, ABrokenLawStopsBeforeAnythingIsBuiltUnlessItIsOff) {
  const auto broken = std::make_shared<OpenEnded>();
  DataOptions some = options(numbered_pairs(3));
  const std::string message = error_of([&] { DataSet::open(some, tokenizer(), broken); });
  EXPECT_NE(message.find("pairs.jsonl:1: the chat template \"hand\" breaks the law "
                         "\"eot_trained\" in 3 of 3 rows"),
            std::string::npos)
      << message;
  EXPECT_FALSE(std::filesystem::exists(some.cache_root / "data"));
  some.disabled_laws = {"eot_trained"};
  EXPECT_EQ(error_of([&] { DataSet::open(some, tokenizer(), broken); }), "");
  some.disabled_laws = {"eot_trainde"};
  EXPECT_NE(error_of([&] { DataSet::open(some, tokenizer(), broken); }).find("eot_trained"),
            std::string::npos);
}

TEST_F(DataSources, AMaskThatIsEmptyInEveryRowIsMendedByTheTemplateAlone) {
  const auto unmarked = std::make_shared<Unmarked>();
  DataOptions some = options(numbered_pairs(3));
  const auto message = [&] {
    return error_of([&] { DataSet::open(some, tokenizer(), unmarked); });
  };
  const std::string law = message();
  EXPECT_NE(law.find("\"mask_not_empty\" in 3 of 3 rows"), std::string::npos) << law;
  EXPECT_NE(law.find("\n  mark the text of assistant turns in the template"), std::string::npos)
      << law;
  EXPECT_NE(law.find("\n  continue with\n    --set template="), std::string::npos) << law;
  EXPECT_EQ(law.find("laws."), std::string::npos) << law;
  some.disabled_laws = {"mask_not_empty"};
  const std::string rows = message();
  EXPECT_NE(rows.find("empty_mask: no token of the chosen side is trained: no {% generation %} "
                      "block of the template covers an answer"),
            std::string::npos)
      << rows;
  // Every token around the answers is trained.
  some.settings.train_on = TrainOn::kAll;
  some.disabled_laws = {};
  EXPECT_NE(message().find("laws.mask_not_empty=false"), std::string::npos) << message();
}

}  // namespace
}  // namespace xrun::source_template_test
