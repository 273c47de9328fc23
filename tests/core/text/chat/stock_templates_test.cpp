// What published templates make of the conversations of
// tests/golden/make/template_conversations.py, under transformers and here. The goldens hold hashes
// alone; template_goldens.py says how they were made.

#include "core/text/chat/stock_templates.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/text/chat/builtin_templates.h"
#include "core/text/chat/template_marks.h"
#include "tests/core/text/chat/template_fixture.h"

namespace xrun::stock_templates_test {

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

// What is trained of a conversation, without white space; "refused" where it does not render.
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

// Names the conversations that render otherwise.
void expect_texts(const std::string& got, const std::string& wanted, const std::string& who) {
  const Json::Array& rows = golden().at("conversations").as_array();
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(got.substr(8 * i, 8), wanted.substr(8 * i, 8))
        << who << " " << rows[i].at("name").as_string();
  }
}

TEST(StockTemplates, EveryBuiltinRendersWhatAPublishedTemplateOfItsFamilyRenders) {
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

TEST(StockTemplates, EveryBuiltinMarksWhatTransformersMarks) {
  for (const auto& [name, ours] : golden().at("ours").as_object()) {
    for (const BuiltinTemplate& builtin : builtin_templates()) {
      if (builtin.name != name) continue;
      const Made made = make_all(*jinja_of(std::string(builtin.source), golden_tokens()));
      EXPECT_EQ(made.turns, ours.at("turns").as_string()) << name;
    }
  }
}

TEST(StockTemplates, PublishedTemplatesRenderAndMarkAsUnderTransformers) {
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

TEST(StockTemplates, EveryPublishedTextOfAFamilyHasItsMarks) {
  int known = 0;
  for (const std::filesystem::path& file : published_templates()) {
    const std::string source = read_file(file);
    const std::string_view family = stock_family(source);
    const auto is_family = [&](const BuiltinTemplate& one) { return one.name == family; };
    if (family.empty() ||
        std::any_of(builtin_templates().begin(), builtin_templates().end(), is_family)) {
      continue;
    }
    ++known;
    const std::optional<MarkedSource> marked = mark_source(source);
    ASSERT_TRUE(marked.has_value()) << file.stem();
    EXPECT_EQ(marked->family, family) << file.stem();
  }
  if (known == 0) GTEST_SKIP() << kNoPublished;
}

TEST(StockTemplates, MarksPutIntoATextChangeNoByteOfWhatItRenders) {
  int marked = 0;
  for (const std::filesystem::path& file : published_templates()) {
    const std::string source = read_file(file);
    const std::optional<MarkedSource> with_marks = mark_source(source);
    if (!with_marks || jinja_of(source)->marks_generation()) continue;
    ++marked;
    const auto tagged = jinja_of(with_marks->text, golden_tokens());
    EXPECT_TRUE(tagged->marks_generation());
    expect_texts(make_all(*tagged).texts, make_all(*jinja_of(source, golden_tokens())).texts,
                 file.stem().string());
    const std::string_view family = stock_family(source);
    EXPECT_TRUE(family.empty() || family == with_marks->family) << file << " " << family;
  }
  if (marked == 0) GTEST_SKIP() << kNoPublished;
}

// Where trl ships a marked copy of a text that we put marks into, and renders the row alike. It
// trains the newline behind an answer, and the heads of gpt-oss and Muse, which the generation
// prompt writes.
TEST(StockTemplates, MarksPutIntoATextTrainWhatThePublishedMarkedCopyTrains) {
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

TEST(StockTemplates, TheFingerprintIsOfTheTextAsJinjaReadsIt) {
  EXPECT_EQ(template_fingerprint("a\r\nb\rc\n"), template_fingerprint("a\nb\nc"));
  EXPECT_NE(template_fingerprint("a\nb\n\n"), template_fingerprint("a\nb\n"));
  EXPECT_NE(template_fingerprint("{{ 'a b' }}"), template_fingerprint("{{ 'a  b' }}"));
}

TEST(StockTemplates, AnUnknownTextHasNoFamily) { EXPECT_EQ(stock_family("{{ messages }}"), ""); }

}  // namespace

}  // namespace xrun::stock_templates_test
