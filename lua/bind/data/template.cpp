// Chat templates as Lua functions, and xrun.template: messages to text and tokens, alone.

#include <atomic>
#include <unordered_map>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/interrupt.h"
#include "core/text/chat/chat_template.h"
#include "core/text/chat/chat_tokens.h"
#include "lua/bind/data/data_functions.h"
#include "lua/bind/modules.h"
#include "lua/state/args.h"
#include "lua/state/lua_state.h"
#include "lua/state/metatable.h"
#include "lua/tensor/token_tensors.h"

namespace xrun {

namespace {

// The pieces that a function has written so far.
struct TemplateSpelling {
  Rendering rendering;

  void add(std::string_view text, Origin origin, bool trained) {
    if (text.empty()) return;
    const uint32_t begin = static_cast<uint32_t>(rendering.text.size());
    rendering.text += text;
    const uint32_t end = static_cast<uint32_t>(rendering.text.size());
    std::vector<RenderSpan>& spans = rendering.spans;
    const bool goes_on = trained && !spans.empty() && spans.back().generation;
    if (!spans.empty() && spans.back().origin == origin && spans.back().generation == trained) {
      spans.back().end = end;
    } else {
      spans.push_back({begin, end, origin, trained});
    }
    if (!trained) return;
    if (goes_on) {
      rendering.turns.back().end = end;
    } else {
      rendering.turns.push_back({begin, end});
    }
  }
};

template <Origin origin, bool trained>
int add_text(lua_State* L) {
  LuaState::of(L).service<TemplateSpelling>().add(arg<std::string>(L, 2, "text"), origin, trained);
  return 0;
}

// Pushes the object `t`, the first argument of a template function.
void push_writer(lua_State* L) {
  lua_newtable(L);
  const auto method = [&](const char* name, const char* doc, lua_CFunction function) {
    push_function(
        L, {std::string("TemplateWriter:") + name, DocKind::kMethod, {{"text", "string"}}, {}, doc},
        function);
    lua_setfield(L, -2, name);
  };
  method("special", "The template's own text, which may become special tokens.",
         add_text<Origin::kTemplate, false>);
  method("text", "Data, which never becomes a special token.", add_text<Origin::kMessage, false>);
  method("train", "Data that is trained.", add_text<Origin::kMessage, true>);
  method("train_special", "The template's own text that is trained: the end of a turn.",
         add_text<Origin::kTemplate, true>);
  // No state may pass from one row to the next: the function gets an empty table that reads this
  // one.
  lua_newtable(L);
  lua_newtable(L);
  lua_pushvalue(L, -3);
  lua_setfield(L, -2, "__index");
  push_function(L,
                {"TemplateWriter:__newindex",
                 DocKind::kMetamethod,
                 {{"name", "string"}, {"value", "any"}},
                 {},
                 "Refused: nothing of one row may stay for the next."},
                [](lua_State*) -> int {
                  throw UsageError("a template may not assign to its first argument");
                });
  lua_setfield(L, -2, "__newindex");
  set_hidden_metatable(L);
  lua_remove(L, -2);
}

// One thread's state with the function loaded.
struct Renderer {
  explicit Renderer(const WorkerFunction& code) : state(open_worker_state()) {
    lua_State* L = *state;
    const StackGuard guard(L);
    code.push(L);
    function = LuaRef(L, -1);
    push_writer(L);
    writer = LuaRef(L, -1);
  }
  std::unique_ptr<LuaState> state;
  LuaRef function, writer;
};

class FunctionTemplate : public ChatTemplate {
 public:
  explicit FunctionTemplate(std::shared_ptr<const WorkerFunction> function)
      : function_(std::move(function)) {
    // A number, not `this`: a later template may have the address of an earlier one.
    static std::atomic<uint64_t> next{0};
    serial_ = next++;
  }

  Rendering render(const Json& messages, const Json& kwargs) const override {
    const Renderer& renderer = of_this_thread();
    lua_State* L = *renderer.state;
    const StackGuard guard(L);
    TemplateSpelling& spelling = renderer.state->service<TemplateSpelling>();
    // A row before this one may have failed halfway.
    spelling = TemplateSpelling();
    renderer.function.push(L);
    renderer.writer.push(L);
    push_row(L, messages);
    push_row(L, kwargs.is_object() ? kwargs : Json::object());
    try {
      protected_call(L, 3, 0);
    } catch (const Error&) {
      // An interruption stops a worker by an error of its own, which is not the template's.
      check_interrupt();
      throw;
    }
    return std::move(spelling.rendering);
  }
  // train() is how such a template marks, so one that marks nothing trains nothing.
  bool marks_generation() const override { return true; }
  const std::string& source() const override { return function_->source(); }
  std::string name() const override { return "lua"; }
  std::string digest() const override { return hash_hex(source()); }

 private:
  const Renderer& of_this_thread() const {
    // A Lua state belongs to one thread; each makes its own at its first row.
    thread_local std::unordered_map<uint64_t, std::unique_ptr<Renderer>> renderers;
    std::unique_ptr<Renderer>& own = renderers[serial_];
    if (!own) own = std::make_unique<Renderer>(*function_);
    return *own;
  }

  std::shared_ptr<const WorkerFunction> function_;
  uint64_t serial_;  // names this template among a thread's states
};

}  // namespace

std::shared_ptr<const ChatTemplate> make_lua_template(
    std::shared_ptr<const WorkerFunction> function) {
  return std::make_shared<FunctionTemplate>(std::move(function));
}

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
    push_writer(state);
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
