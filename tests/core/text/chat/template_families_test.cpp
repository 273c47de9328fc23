// Published templates on the conversations of tests/golden/make/template_conversations.py, under
// transformers and here. The goldens hold only hashes; template_goldens.py made them.

#include "core/text/chat/template_families.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/text/chat/template_marks.h"
#include "tests/core/text/chat/template_fixture.h"

namespace xrun::template_families_test {

namespace {

const Json& golden() {
  static const Json json = read_json((kSourceDir / "tests/golden/template_texts.json").string());
  return json;
}

TemplateTokens golden_tokens() {
  TemplateTokens tokens;
  for (const auto& [name, token] : golden().at("tokens").as_object()) {
    tokens.emplace_back(name, token.as_string());
  }
  return tokens;
}

struct Made {
  std::string texts;  // eight digits for each conversation
  std::string turns;
};

Made make_all(const ChatTemplate& chat_template) {
  Made made;
  Json turns = Json::array();
  for (const Json& row : golden().at("conversations").as_array()) {
    Json blocks = Json::array();
    try {
      const Rendering rendering = chat_template.render(row.at("messages"), row.at("kwargs"));
      made.texts += fmt::format("{:016x}", hash_u64(rendering.text)).substr(0, 8);
      blocks = turns_in_points(rendering);
    } catch (const Error&) {
      made.texts += "--------";
    }
    turns.push_back(std::move(blocks));
  }
  made.turns = fmt::format("{:016x}", hash_u64(dump_json(turns)));
  return made;
}

// The trained text of a conversation, without white space; "refused" if it does not render.
std::string trained_text(const ChatTemplate& chat_template, const Json& row) {
  std::string out;
  try {
    const Rendering rendering = chat_template.render(row.at("messages"), row.at("kwargs"));
    for (const ByteRange& turn : rendering.turns) {
      out += rendering.text.substr(turn.begin, turn.end - turn.begin);
    }
  } catch (const Error&) {
    return "refused";
  }
  std::erase_if(out, [](char c) { return c == ' ' || c == '\n'; });
  return out;
}

// Names the conversations that render differently.
void expect_texts(const std::string& got, const std::string& wanted, const std::string& who) {
  const Json::Array& rows = golden().at("conversations").as_array();
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(got.substr(8 * i, 8), wanted.substr(8 * i, 8))
        << who << " " << rows[i].at("name").as_string();
  }
}

// A template in the style of mistral-common: turns of three roles, our own words.
constexpr const char* kMistralLike =
    "{%- for message in messages %}\n"
    "    {%- if message['role'] == 'user' %}\n"
    "        {{- '[INST]' + message['content'] + '[/INST]' }}\n"
    "    {%- elif message['role'] == 'assistant' %}\n"
    "        {{- message['content'] + '</s>' }}\n\n"
    "    {#- Tool messages stand last. #}\n"
    "    {%- elif message['role'] == 'tool' %}\n"
    "        {{- '[TOOL_RESULTS]' + message['content'] }}\n"
    "    {%- endif %}\n"
    "{%- endfor %}\n";

// A template in the style of Nemotron 3, without comments.
constexpr const char* kNemotronLike =
    "{%- for message in messages %}\n"
    "    {%- if message.role == 'assistant' %}\n"
    "        {%- set content = message.content %}\n"
    "        {%- if message.tool_calls %}\n"
    "            {{- '<|im_start|>assistant\\n' }}\n"
    "                {%- set include_content = true %}\n"
    "                {{- content }}\n"
    "                {{- '<|im_end|>\\n' }}\n"
    "        {%- else %}\n"
    "            {%- set c = content %}\n"
    "            {%- if loop.index0 > 0 %}\n"
    "                {{- '<|im_start|>assistant\\n' ~ (content | default('', true) | string | "
    "trim) "
    "~ '<|im_end|>\\n' }}\n"
    "            {%- elif c %}\n"
    "                {{- '<|im_start|>assistant\\n' ~ c ~ '<|im_end|>\\n' }}\n"
    "            {%- else %}\n"
    "                {{- '<|im_start|>assistant\\n<|im_end|>\\n' }}\n"
    "            {%- endif %}\n"
    "        {%- endif %}\n"
    "    {%- else %}\n"
    "        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}\n"
    "    {%- endif %}\n"
    "{%- endfor %}\n";

std::string trained_of(const MarkedSource& marked, const Json& conversation) {
  const Rendering rendering = jinja_of(marked.text)->render(conversation, {});
  std::string text;
  for (const ByteRange turn : rendering.turns) {
    text += "<" + rendering.text.substr(turn.begin, turn.end - turn.begin) + ">";
  }
  return text;
}

TEST(TemplateFamilies, EveryBuiltinRendersAsAPublishedTemplateOfItsFamily) {
  ASSERT_GE(golden().at("conversations").size(), 70u);
  for (const BuiltinTemplate& builtin : builtin_templates()) {
    const std::string name(builtin.name);
    const Made made = make_all(*jinja_of(std::string(builtin.source), golden_tokens()));
    int families = 0;
    for (const auto& [file, stock] : golden().at("stock").as_object()) {
      const Json& family = stock.at("family");
      if (family.is_null() || family.as_string() != name) continue;
      ++families;
      expect_texts(made.texts, stock.at("texts").as_string(), name + " as " + file);
    }
    EXPECT_GE(families, 1) << name;
  }
}

TEST(TemplateFamilies, EveryBuiltinMarksTheSameTextAsTransformers) {
  for (const auto& [name, ours] : golden().at("ours").as_object()) {
    const BuiltinTemplate* const builtin = find_builtin(name);
    if (builtin == nullptr) continue;
    const Made made = make_all(*jinja_of(std::string(builtin->source), golden_tokens()));
    EXPECT_EQ(made.turns, ours.at("turns").as_string()) << name;
  }
}

TEST(TemplateFamilies, PublishedTemplatesRenderAndMarkAsUnderTransformers) {
  if (published_templates().empty()) GTEST_SKIP() << kNoPublished;
  int known = 0;
  for (const std::filesystem::path& file : published_templates()) {
    const std::string source = read_file(file);
    const std::string print = template_fingerprint(source);
    for (const auto& [name, stock] : golden().at("stock").as_object()) {
      if (stock.at("fingerprint").as_string() != print) continue;
      const auto chat_template = jinja_of(source, golden_tokens());
      const Made made = make_all(*chat_template);
      expect_texts(made.texts, stock.at("texts").as_string(), name);
      EXPECT_EQ(chat_template->marks_generation(), !stock.at("turns").is_null()) << name;
      if (chat_template->marks_generation()) {
        EXPECT_EQ(made.turns, stock.at("turns").as_string()) << name;
      }
      ++known;
      break;
    }
  }
  EXPECT_GE(known, 60);
}

TEST(TemplateFamilies, EveryPublishedTextOfAFamilyCanBeMarked) {
  int known = 0;
  for (const std::filesystem::path& file : published_templates()) {
    const std::string source = read_file(file);
    const std::string_view family = stock_family(source);
    if (family.empty() || find_builtin(family) != nullptr) continue;
    ++known;
    const std::optional<MarkedSource> marked = mark_source(source);
    ASSERT_TRUE(marked.has_value()) << file.stem();
    EXPECT_EQ(marked->family, family) << file.stem();
  }
  if (known == 0) GTEST_SKIP() << kNoPublished;
}

TEST(TemplateFamilies, InsertedMarksChangeNoByteOfARendering) {
  int marked = 0;
  for (const std::filesystem::path& file : published_templates()) {
    const std::string source = read_file(file);
    const std::optional<MarkedSource> with_marks = mark_source(source);
    if (!with_marks || jinja_of(source)->marks_generation()) continue;
    ++marked;
    const auto with_them = jinja_of(with_marks->text, golden_tokens());
    EXPECT_TRUE(with_them->marks_generation());
    expect_texts(make_all(*with_them).texts, make_all(*jinja_of(source, golden_tokens())).texts,
                 file.stem().string());
    const std::string_view family = stock_family(source);
    EXPECT_TRUE(family.empty() || family == with_marks->family) << file << " " << family;
  }
  if (marked == 0) GTEST_SKIP() << kNoPublished;
}

// Compares with the marked copies that trl ships, on rows that both render alike. trl also trains
// the newline after an answer, and the heads of gpt-oss and Muse, which the generation prompt
// writes.
TEST(TemplateFamilies, InsertedMarksTrainTheSameTextAsThePublishedMarkedCopy) {
  int compared = 0;
  for (const std::filesystem::path& file : published_templates()) {
    const std::filesystem::path copy =
        file.parent_path() / (file.stem().string() + "_training.jinja");
    const std::optional<MarkedSource> marked = mark_source(read_file(file));
    if (!marked || !std::filesystem::exists(copy)) continue;
    if (marked->family == "gpt-oss" || marked->family == "muse") continue;
    ++compared;
    const auto ours = jinja_of(marked->text, golden_tokens());
    const auto theirs = jinja_of(read_file(copy), golden_tokens());
    const std::string texts = make_all(*ours).texts, copies = make_all(*theirs).texts;
    const Json::Array& rows = golden().at("conversations").as_array();
    size_t alike = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (texts.compare(8 * i, 8, copies, 8 * i, 8) != 0) continue;
      ++alike;
      EXPECT_EQ(trained_text(*ours, rows[i]), trained_text(*theirs, rows[i]))
          << file.stem() << " " << rows[i].at("name").as_string();
    }
    EXPECT_GE(alike, 10u) << file.stem();
  }
  if (compared == 0) GTEST_SKIP() << kNoPublished;
  EXPECT_GE(compared, 8);
}

TEST(TemplateFamilies, TheFingerprintCoversTheTextThatJinjaReads) {
  EXPECT_EQ(template_fingerprint("a\r\nb\rc\n"), template_fingerprint("a\nb\nc"));
  EXPECT_NE(template_fingerprint("a\nb\n\n"), template_fingerprint("a\nb\n"));
  EXPECT_NE(template_fingerprint("{{ 'a b' }}"), template_fingerprint("{{ 'a  b' }}"));
}

TEST(TemplateFamilies, AnUnknownTextHasNoFamily) { EXPECT_EQ(stock_family("{{ messages }}"), ""); }

TEST(TemplateFamilies, MistralsAnswersAreMarkedWithTheirEndOfTurn) {
  const std::optional<MarkedSource> marked = mark_source(kMistralLike);
  ASSERT_TRUE(marked.has_value());
  EXPECT_EQ(marked->family, "mistral");
  EXPECT_EQ(
      trained_of(*marked,
                 messages({{"user", "q"}, {"assistant", "a"}, {"tool", "t"}, {"assistant", "b"}})),
      "<a</s>><b</s>>");
}

TEST(TemplateFamilies, NemotronsAnswersAreMarkedWithAndWithoutCalls) {
  const std::optional<MarkedSource> marked = mark_source(kNemotronLike);
  ASSERT_TRUE(marked.has_value());
  EXPECT_EQ(marked->family, "nemotron-3");
  Json conversation = messages({{"assistant", "a"}, {"user", "q"}, {"assistant", " b "}});
  Json call = Json(Json::Object{
      {"role", "assistant"}, {"content", "c"}, {"tool_calls", Json(Json::Array{Json::object()})}});
  conversation.push_back(std::move(call));
  EXPECT_EQ(trained_of(*marked, conversation), "<a<|im_end|>><b<|im_end|>><c<|im_end|>>");
  EXPECT_EQ(jinja_of(marked->text)->render(conversation, {}).text,
            jinja_of(kNemotronLike)->render(conversation, {}).text);
}

TEST(TemplateFamilies, AnEditThatAppliesTwiceMarksNothing) {
  const std::string twice = std::string(kMistralLike) + kMistralLike;
  EXPECT_FALSE(mark_source(twice).has_value());
}

}  // namespace

}  // namespace xrun::template_families_test
