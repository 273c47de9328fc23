// xrun.template: renders and encodes messages without a data set.

#include "core/base/error.h"
#include "core/text/chat/chat_template.h"
#include "core/text/chat/chat_tokens.h"
#include "lua/bind/data/data_functions.h"
#include "lua/bind/data/function_template.h"
#include "lua/bind/modules.h"
#include "lua/state/args.h"
#include "lua/state/lua_state.h"
#include "lua/tensor/token_tensors.h"

namespace xrun {

namespace {

struct LuaTemplate {
  std::shared_ptr<const Tokenizer> tokenizer;
  ResolvedTemplate resolved;
};

int make_template(lua_State* L) {
  const LuaTokenizer& tokenizer = arg<LuaTokenizer&>(L, 1, "tokenizer");
  const std::string setting = opt_arg<std::string>(L, 2, "setting").value_or("auto");
  const Options options(L, 3);
  push(L, std::make_shared<LuaTemplate>(LuaTemplate{
              tokenizer.tokenizer,
              resolve_template(*tokenizer, setting, options.get<std::string>("date", ""),
                               options.get<bool>("unmarked"))}));
  return 1;
}

Json read_arguments(lua_State* L, int i) {
  if (lua_isnoneornil(L, i)) return Json::object();
  Json arguments = to_json(L, i, false);
  if (!arguments.is_object()) throw_argument(L, i, "kwargs", "a table with named keys");
  return arguments;
}

void push_spans(lua_State* L, const Rendering& rendering) {
  lua_createtable(L, static_cast<int>(rendering.spans.size()), 0);
  int number = 0;
  for (const RenderSpan& span : rendering.spans) {
    push(L, Json(Json::Object{{"begin", int64_t{span.begin}},
                              {"end", int64_t{span.end}},
                              {"origin", span.origin == Origin::kTemplate ? "template" : "message"},
                              {"generation", span.generation}}));
    lua_rawseti(L, -2, ++number);
  }
}

int render(LuaTemplate& self, lua_State* L) {
  const Rendering rendering =
      self.resolved.chat_template->render(to_json(L, 2), read_arguments(L, 3));
  push(L, rendering.text);
  push_spans(L, rendering);
  return 2;
}

int encode(LuaTemplate& self, lua_State* L) {
  const ChatTokens tokens = encode_chat(*self.tokenizer, *self.resolved.chat_template,
                                        to_json(L, 2), read_arguments(L, 3));
  push(L, ids_tensor(tokens.ids));
  push(L, mask_tensor(tokens.mask));
  return 2;
}

}  // namespace

void open_template(LuaState& state) {
  Class<LuaTemplate>(state, "Template", "A chat template with the tokenizer that it writes for.")
      .method("render", {{"messages", "table"}, {"kwargs?", "table"}},
              {{"string", "text"}, {"table", "spans"}},
              "The text, and the spans that tile it: { begin, end, origin = \"template\" or "
              "\"message\", generation }, in bytes from 0, end excluded.",
              render)
      .method("encode", {{"messages", "table"}, {"kwargs?", "table"}},
              {{"Tensor", "[T]"}, {"Tensor", "[T]"}},
              "Ids, and a mask that is true where the token is trained. Text of messages never "
              "becomes special tokens.",
              encode)
      .property("name", "string", "\"own\", a built-in name, \"tagged:qwen2.5\" or the file.",
                [](LuaTemplate& self, lua_State* L) {
                  push(L, self.resolved.chat_template->name());
                  return 1;
                })
      .property("notice", "string", "One sentence: the chosen template and why.",
                [](LuaTemplate& self, lua_State* L) {
                  push(L, self.resolved.notice);
                  return 1;
                })
      .property("source", "string", "The template's text.", [](LuaTemplate& self, lua_State* L) {
        push(L, self.resolved.chat_template->source());
        return 1;
      });
  register_doc({.name = "TemplateWriter",
                .kind = DocKind::kClass,
                .doc = "The first argument of template = function(t, messages, kwargs). Trained "
                       "pieces that follow each other are one turn."});
  {
    // Documents the methods; template functions run in states of their own.
    const StackGuard guard(state);
    push_template_writer(state);
  }
  state.function("template",
                 {{"tokenizer", "Tokenizer"},
                  {"setting?", "string"},
                  {"options?", "table", {{"date", "string"}, {"unmarked", "boolean", false}}}},
                 {"Template"},
                 "A chat template by the configuration's `template` setting (\"auto\"). Options: "
                 "date (of strftime_now; today), unmarked (true: a template without generation "
                 "marks is accepted; it trains nothing).",
                 make_template);
}

}  // namespace xrun
