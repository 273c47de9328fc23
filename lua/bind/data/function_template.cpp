// A chat template as a Lua function(t, messages, kwargs): what it writes to `t` is the rendering.
// Each thread has a Lua state of its own, in which nothing of one row stays for the next.

#include "lua/bind/data/function_template.h"

#include <atomic>
#include <unordered_map>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/interrupt.h"
#include "core/text/chat/chat_template.h"
#include "lua/bind/data/data_functions.h"
#include "lua/state/args.h"
#include "lua/state/lua_state.h"
#include "lua/state/metatable.h"

namespace xrun {

namespace {

// The text that a template function has written so far.
struct WrittenRendering {
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
  LuaState::of(L).service<WrittenRendering>().add(arg<std::string>(L, 2, "text"), origin, trained);
  return 0;
}

}  // namespace

void push_template_writer(lua_State* L) {
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

namespace {

// One thread's state with the function loaded.
struct Renderer {
  explicit Renderer(const WorkerFunction& code) : state(open_worker_state()) {
    lua_State* L = *state;
    const StackGuard guard(L);
    code.push(L);
    function = LuaRef(L, -1);
    push_template_writer(L);
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
    WrittenRendering& written = renderer.state->service<WrittenRendering>();
    // A row before this one may have failed halfway.
    written = WrittenRendering();
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
    return std::move(written.rendering);
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

}  // namespace xrun
