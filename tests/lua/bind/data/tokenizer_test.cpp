// xrun.tokenizer and xrun.template.

#include "lua/bind/modules.h"
#include "tests/lua/state/lua_fixture.h"
#include "tests/tree.h"

namespace xrun::tokenizer_test {

class LuaText : public LuaTest {
 protected:
  LuaText() {
    open_tokenizer(state_);
    open_template(state_);
  }
  // Runs a chunk that has `tok`, the tokenizer of the tests.
  std::string run_with(const std::string& code) { return run(kOpen + code); }
  const std::string kOpen =
      "local tok = xrun.tokenizer('" + source_path("tests/data/tiny_tokenizer')\n");
};

TEST_F(LuaText, TextComesBackFromItsTokens) {
  EXPECT_EQ(run_with("local ids, offsets = tok:encode('caf\\195\\169 <s>')\n"
                     "return tok:decode(ids), ids:size(0) == offsets:size(0), offsets:size(1),\n"
                     "  tok:decode({ ids[0]:item() })"),
            "caf\u00e9 <s>, true, 2, c");
}

TEST_F(LuaText, PiecesAndIdsNameEachOther) {
  EXPECT_EQ(run_with("local id = tok:id_of('a')\n"
                     "return tok:piece(id), tok:id_of('no such piece'), #tok > id"),
            "a, nil, true");
}

TEST_F(LuaText, IdsOutsideTheVocabularyAreRefused) {
  EXPECT_NE(error(kOpen + "return tok:decode({ -1 })").find("-1 is not a token id"),
            std::string::npos);
  EXPECT_NE(error(kOpen + "return tok:piece(99999)").find("got 99999, wanted 0 to"),
            std::string::npos);
  error_has("return xrun.tokenizer('no/such/folder')", "no/such/folder");
}

TEST_F(LuaText, ATemplateRendersWithSpansAndMasks) {
  EXPECT_EQ(run_with("local chat = xrun.template(tok, 'chatml')\n"
                     "local turns = { { role = 'user', content = 'Hi' },\n"
                     "  { role = 'assistant', content = 'Ho' } }\n"
                     "local text, spans = chat:render(turns)\n"
                     "local trained = ''\n"
                     "for _, span in ipairs(spans) do\n"
                     "  if span.generation then\n"
                     "    trained = trained .. text:sub(span.begin + 1, span['end'])\n"
                     "  end\n"
                     "end\n"
                     "local ids, mask = chat:encode(turns)\n"
                     "return (trained:gsub('\\n', '/')), mask:sum():item() > 0,\n"
                     "  ids:size(0) == mask:size(0), spans[1].origin, chat.name"),
            "Ho<|im_end|>, true, true, template, chatml");
  EXPECT_EQ(run_with("local chat = xrun.template(tok, 'chatml')\n"
                     "local turn = { { role = 'user', content = 'Hi' } }\n"
                     "local text = chat:render(turn, { add_generation_prompt = true })\n"
                     "return text:sub(-10):gsub('\\n', '/')"),
            "assistant/, 1");
}

TEST_F(LuaText, ATemplateRefusesValuesThatAreNotConversations) {
  const std::string open = kOpen + "local chat = xrun.template(tok, 'chatml')\n";
  EXPECT_NE(error(open + "return chat:render({})").find("the conversation is empty"),
            std::string::npos);
  EXPECT_NE(error(open + "return chat:render({ { role = 'user', content = 'x' } }, { 1 })")
                .find("a table with named keys"),
            std::string::npos);
  error_has("return xrun.template(3)", "argument 1 (tokenizer): got ");
}

}  // namespace xrun::tokenizer_test
