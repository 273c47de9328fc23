// Rows that look alike and do not share, made by real templates and tokenized.

#include "core/console/inspect/fold_breaks.h"

#include <gtest/gtest.h>

#include "tests/core/console/inspect/inspect_fixture.h"

namespace xrun::fold_breaks_test {

namespace {

// The thought is written only after the last message, as in Qwen3.
constexpr const char* kThinking = R"({%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\n' -}}
{%- if message.role == 'assistant' -%}
{%- generation -%}
{%- if loop.last -%}{{- '<think>\n\n</think>\n\n' -}}{%- endif -%}
{{- message.content + '<|im_end|>' -}}
{%- endgeneration -%}
{%- else -%}
{{- message.content + '<|im_end|>' -}}
{%- endif -%}
{{- '\n' -}}
{%- endfor -%})";

// Messages end to end, as a base model sees them.
constexpr const char* kBare = R"({%- for message in messages -%}
{%- if message.role == 'assistant' -%}
{%- generation -%}{{- message.content + '<|im_end|>' -}}{%- endgeneration -%}
{%- else -%}{{- message.content -}}{%- endif -%}
{%- endfor -%})";

// The length of the last message is in the prompt.
constexpr const char* kLength = R"({{- '<|im_start|>system\nlength' -}}
{{- '-' ~ (messages[-1].content | length) ~ '<|im_end|>\n' -}}
{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\n' -}}
{%- if message.role == 'assistant' -%}
{%- generation -%}{{- message.content + '<|im_end|>' -}}{%- endgeneration -%}
{%- else -%}{{- message.content + '<|im_end|>' -}}{%- endif -%}
{%- endfor -%})";

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string turn(const std::string& role, const std::string& content) {
  return R"({"role":")" + role + R"(","content":")" + content + "\"}";
}

std::string chat_row(const std::vector<std::string>& turns) {
  std::string all;
  for (const std::string& one : turns) all += (all.empty() ? "" : ",") + one;
  return R"({"messages":[)" + all + "]}\n";
}

class FoldBreaks : public InspectFixture {
 protected:
  InspectedStep inspected(const std::string& rows, const char* source,
                          RowKind kind = RowKind::kChat) {
    DataOptions asked = options(rows);
    asked.kind = kind;
    asked.disabled_laws = {"shared_prompt", "prefix"};
    const DataSet set =
        DataSet::open(asked, tokenizer(), make_jinja_template(source, "test", {}, "2024-07-26"));
    std::vector<int64_t> units(static_cast<size_t>(set.size()));
    std::iota(units.begin(), units.end(), 0);
    InspectedSource from{set, tokenizer(), "recipes/sft.lua", "pairs.jsonl"};
    from.steps = 1;
    from.max_tokens = 1000;
    from.fold = fold;
    InspectedStep step = inspect_step(from, units, set.pack(units, 1000));
    EXPECT_EQ(step.packs.size(), 1u);
    return step;
  }

  // The only break of the rows.
  InspectedBreak only(const InspectedStep& step) {
    std::string all;
    for (const InspectedBreak& one : step.packs.at(0).breaks) all += one.sentence + "\n";
    EXPECT_EQ(step.packs.at(0).breaks.size(), 1u) << all;
    return step.packs.at(0).breaks.empty() ? InspectedBreak() : step.packs.at(0).breaks[0];
  }

  FoldSettings fold = [] {
    FoldSettings settings;
    settings.mode = FoldMode::kAuto;
    settings.min_run = 16;
    return settings;
  }();

  const std::string question_ = "What shall we do on such a fine day, my dear friend?";
};

}  // namespace

TEST_F(FoldBreaks, NamesTheTemplateLineThatRendersEqualMessagesDifferently) {
  const std::string ask = turn("user", question_), answer = turn("assistant", "We walk.");
  const InspectedBreak found =
      only(inspected(chat_row({ask, answer}) + chat_row({ask, answer, turn("user", "And then?"),
                                                         turn("assistant", "We eat.")}),
                     kThinking));
  EXPECT_EQ(found.cause, BreakCause::kTemplate);
  EXPECT_EQ(found.sides[0].template_line, 5);
  EXPECT_EQ(found.sides[1].template_line, 6);
  EXPECT_EQ(found.sides[0].line, 1);
  EXPECT_EQ(found.sides[1].line, 2);
  EXPECT_TRUE(has(found.sentence, "pairs.jsonl:1 and ")) << found.sentence;
  EXPECT_TRUE(has(found.sentence,
                  "in one, from line 5 of the chat template (assistant message), "
                  "and \"W"))
      << found.sentence;
  EXPECT_TRUE(has(found.sentence,
                  "in the other, from the text of the assistant message (line 6 of "
                  "the chat template)"))
      << found.sentence;
  EXPECT_TRUE(has(found.sentence,
                  "; both begin with the same 2 messages, which the template "
                  "renders differently"))
      << found.sentence;
}

TEST_F(FoldBreaks, NamesAPromptThatTheTemplateRendersByTheAnswer) {
  const InspectedBreak found = only(
      inspected(pair_row(question_, "Walk.", "Swim, I think."), kLength, RowKind::kPreference));
  EXPECT_EQ(found.cause, BreakCause::kTemplate);
  EXPECT_EQ(found.sides[0].template_line, 2);
  EXPECT_EQ(found.sides[0].text, "5");
  EXPECT_EQ(found.sides[1].text, "1");
  EXPECT_TRUE(has(found.sentence, "the two answers of ")) << found.sentence;
  EXPECT_TRUE(has(found.sentence,
                  "is \"5\" in the chosen one and \"1\" in the rejected one, from "
                  "line 2 of the chat template"))
      << found.sentence;
  EXPECT_TRUE(has(found.sentence, "; both begin with the same message, ")) << found.sentence;
}

TEST_F(FoldBreaks, NamesTheWordInWhichPromptsDiffer) {
  const auto row = [&](const std::string& day) {
    return chat_row({turn("system", "Today is " + day + ", the weather is fine and warm."),
                     turn("user", question_), turn("assistant", "We walk.")});
  };
  const InspectedBreak found = only(inspected(row("Monday") + row("Friday"), kThinking));
  EXPECT_EQ(found.cause, BreakCause::kText);
  EXPECT_EQ(found.sides[0].role, "system");
  EXPECT_EQ(found.sides[0].template_line, 9);
  EXPECT_TRUE(has(found.sentence, ", too few to fold (batch.fold_min is 16): token "))
      << found.sentence;
  EXPECT_TRUE(has(found.sentence,
                  ", from the text of the system message (line 9 of the chat template), after \""))
      << found.sentence;
  EXPECT_TRUE(has(found.sentence, "; after \"·")) << found.sentence;
  EXPECT_TRUE(has(found.sentence, "F")) << found.sentence;
  EXPECT_TRUE(has(found.sentence, " tokens are equal")) << found.sentence;
}

TEST_F(FoldBreaks, TellsThatOnlyBlanksDiffer) {
  const auto row = [&](const std::string& blank) {
    return chat_row({turn("system", "Be brief." + blank), turn("user", question_),
                     turn("assistant", "We walk.")});
  };
  const InspectedBreak found = only(inspected(row("") + row("\\n"), kThinking));
  EXPECT_EQ(found.cause, BreakCause::kText);
  EXPECT_TRUE(has(found.sentence, "; only blanks differ, the next ")) << found.sentence;
}

TEST_F(FoldBreaks, NamesATokenThatJoinsPromptAndAnswer) {
  const std::string rows = pair_row(question_ + " Answer: ", "the sea", "a walk");
  const InspectedBreak found = only(inspected(rows, kBare, RowKind::kPreference));
  EXPECT_EQ(found.cause, BreakCause::kMerged);
  EXPECT_TRUE(has(found.sentence,
                  "; this token joins the end of the prompt with the beginning of "
                  "the answer"))
      << found.sentence;
}

TEST_F(FoldBreaks, NamesARunBelowTheShortestThatFolds) {
  fold.min_run = 64;
  const std::string rows = pair_row("Where shall we go today?", "To the sea.", "Into the woods.");
  const InspectedBreak found = only(inspected(rows, kThinking, RowKind::kPreference));
  EXPECT_EQ(found.cause, BreakCause::kShort);
  EXPECT_TRUE(has(found.sentence, ", too few to fold (batch.fold_min is 64): token "))
      << found.sentence;
}

TEST_F(FoldBreaks, NamesOtherRotaryFrequencies) {
  fold.frequency_class = [](int64_t length) { return length > 80 ? 1 : 0; };
  const std::string rows =
      pair_row(question_, "Go.", question_ + question_ + question_ + question_);
  const InspectedBreak found = only(inspected(rows, kThinking, RowKind::kPreference));
  EXPECT_EQ(found.cause, BreakCause::kFrequencies);
  EXPECT_TRUE(has(found.sentence, " but not their rotary frequencies")) << found.sentence;
}

TEST_F(FoldBreaks, RowsThatShareAndUnrelatedRowsHaveNone) {
  const std::string rows = pair_row(question_, "We walk by the sea.", "We walk by the lake.") +
                           pair_row("Name all of the planets.", "Mercury, Venus.", "Pluto and Io.");
  fold.min_run = 8;
  const InspectedStep step = inspected(rows, kThinking, RowKind::kPreference);
  EXPECT_TRUE(step.packs.at(0).fold);
  EXPECT_TRUE(step.packs.at(0).breaks.empty()) << step.packs.at(0).breaks[0].sentence;
  EXPECT_EQ(step.packs.at(0).unfolded, "");
}

TEST_F(FoldBreaks, APackNamesTheSettingThatKeepsItUnfolded) {
  const std::string rows = pair_row(question_, "We walk.", "We eat.");
  fold.mode = FoldMode::kNever;
  EXPECT_EQ(inspected(rows, kThinking, RowKind::kPreference).packs.at(0).unfolded, "");
  fold.off = "batch.fold is false";
  const InspectedStep step = inspected(rows, kThinking, RowKind::kPreference);
  EXPECT_TRUE(has(step.packs.at(0).unfolded, "batch.fold is false; folding would compute "))
      << step.packs.at(0).unfolded;
  EXPECT_TRUE(step.packs.at(0).breaks.empty());
  EXPECT_TRUE(has(step_text(step, {}), "not folded: batch.fold is false;"));
  EXPECT_EQ(pack_json(step, step.packs[0]).at("unfolded").as_string(), step.packs[0].unfolded);
  fold.mode = FoldMode::kAuto;
  fold.min_ratio = 4;
  EXPECT_TRUE(has(inspected(rows, kThinking, RowKind::kPreference).packs.at(0).unfolded,
                  "; \"auto\" folds only from 4 tokens per computed token"));
}

TEST_F(FoldBreaks, TextJsonAndPageNameThem) {
  const auto row = [&](const std::string& day) {
    return chat_row({turn("system", "Today is " + day + ", the weather is fine and warm."),
                     turn("user", question_), turn("assistant", "We walk.")});
  };
  const InspectedStep step = inspected(row("Monday") + row("Friday") + row("Sunday"), kThinking);
  const auto groups = break_groups(step.packs);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].count, 2);
  EXPECT_TRUE(groups[0].text().ends_with(" (1 more like it)")) << groups[0].text();
  EXPECT_TRUE(has(step_text(step, {ColorDepth::kNone, 400}), "! " + groups[0].text()));
  EXPECT_TRUE(has(pack_page({step}), "from the text of the system message"));
  const Json json = pack_json(step, step.packs[0]);
  ASSERT_EQ(json.at("breaks").size(), 2u);
  const Json& first = json.at("breaks").as_array()[0];
  EXPECT_EQ(first.at("cause").as_string(), "text");
  EXPECT_EQ(first.at("position").as_int(), step.packs[0].breaks[0].position);
  EXPECT_EQ(first.at("text").as_string(), step.packs[0].breaks[0].sentence);
  const Json& side = first.at("rows").as_array()[0];
  EXPECT_EQ(side.at("line").as_int(), 1);
  EXPECT_TRUE(side.at("side").is_null());
  EXPECT_EQ(side.at("origin").as_string(), "message");
  EXPECT_EQ(side.at("role").as_string(), "system");
  EXPECT_EQ(side.at("template_line").as_int(), 9);
  EXPECT_EQ(
      side.at("token").as_int(),
      json.at("tokens").as_array()[static_cast<size_t>(first.at("position").as_int())].as_int());
}

}  // namespace xrun::fold_breaks_test
