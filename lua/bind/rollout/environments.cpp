// Both forms of an environment become one Lua function per conversation, called once per turn.
// max_turns ends an environment that always answers; the deadline of a call ends one that never
// does.

#include "lua/bind/rollout/environments.h"

#include <cmath>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/dist/agreement.h"
#include "core/text/chat/message_ranges.h"
#include "lua/bind/session.h"
#include "lua/state/args.h"

namespace xrun {

namespace {

// Takes an environment; returns a function that opens a conversation and returns the function of
// its turns. Returns nil for a value that is not an environment.
constexpr std::string_view kOpen = R"(
local environment = ...
-- Not raw reads: the methods may come from a metatable.
local function has(name) return type(environment[name]) == "function" end
if type(environment) == "function" then
  return function()
    local thread = coroutine.create(environment)
    return function(turn)
      local ok, messages, reward = coroutine.resume(thread, turn)
      if not ok then error(messages, 0) end
      if coroutine.status(thread) == "dead" and messages ~= nil then
        error("a function that is an environment yields its messages with coroutine.yield and returns "
          .. "nil, reward at the end; it returned a " .. type(messages), 0)
      end
      return messages, reward
    end
  end
end
if type(environment) ~= "table" or not (has("reply") or has("start")) then return nil end
return function()
  local own
  return function(turn)
    if not own then
      own = environment.start and environment:start(turn) or environment
      if type(own) ~= "table" or type(own.reply) ~= "function" then
        error("start returned a " .. type(own) .. ", wanted a table with the function reply", 0)
      end
    end
    return own:reply(turn)
  end
end
)";

// Returns the message. Throws Error if it is not one, at the turn that returned it: a template
// would fail much later.
Json message_of(const Json& value) {
  XRUN_CHECK(value.is_object(), "a message is {}, wanted {{ role = ..., content = ... }}",
             dump_json(value));
  const std::string& role = message_role(value);
  XRUN_CHECK(!role.empty(), "a message has no role, wanted \"user\" or \"tool\"");
  XRUN_CHECK(role != "assistant",
             "a message has the role \"assistant\", whose turns the policy samples; wanted "
             "\"user\" or \"tool\"");
  const Json* const content = value.find("content");
  XRUN_CHECK(content != nullptr && content->is_string(),
             "the content of a message is {}, wanted a text",
             content == nullptr ? "nil" : dump_json(*content));
  return value;
}

// Returns the messages at index i: nil, a text, a message or a list of them. A text is a tool's
// message if the turn has called a tool, else the user's.
Json read_messages(lua_State* L, int i, bool called) {
  if (lua_isnil(L, i)) return Json::array();
  if (lua_type(L, i) == LUA_TSTRING) {
    return Json(Json::Array{Json(Json::Object{{"role", called ? "tool" : "user"},
                                              {"content", read_string(L, i, nullptr)}})});
  }
  XRUN_CHECK(lua_istable(L, i),
             "it returned {}, wanted nil (the end), a text, a message or a list of messages",
             describe_value(L, i));
  const Json value = to_json(L, i);
  if (value.is_object()) return Json(Json::Array{message_of(value)});
  Json list = Json::array();
  for (const Json& one : value.as_array()) list.push_back(message_of(one));
  return list;
}

double read_reward(lua_State* L, int i) {
  if (lua_isnil(L, i)) return 0;
  XRUN_CHECK(lua_type(L, i) == LUA_TNUMBER && std::isfinite(lua_tonumber(L, i)),
             "its second value is {}, wanted a reward: a finite number or nil",
             describe_value(L, i));
  return lua_tonumber(L, i);
}

// Shown once per session, since every step has the same template.
struct CallFormNotice {
  bool reported = false;
};

}  // namespace

bool has_environment(const Options& given) {
  if (given.has("environment")) return true;
  for (const char* name : {"max_turns", "on_error", "deadline_s"}) {
    if (given.has(name)) {
      throw UsageError(fmt::format("{} is an option of an environment, and there is none", name));
    }
  }
  return false;
}

LuaEnvironment::LuaEnvironment(lua_State* L, int i, const Batch& prompts)
    : state_(L), prompts_(prompts) {
  const Options given(L, i);
  if (!has_environment(given)) return;
  options_.max_turns = given.get<int64_t>("max_turns", options_.max_turns);
  settings_ = read_reward_settings(L, i);
  const StackGuard guard(L);
  given.push_value("environment");
  const int environment = lua_gettop(L);
  push_builtin_text(L, kOpen, "=environment");
  lua_pushvalue(L, environment);
  protected_call(L, 1, 1);
  XRUN_CHECK(lua_isfunction(L, -1),
             "environment is {}, wanted a table with the function reply(self, turn), or a function "
             "that runs as a coroutine",
             describe_value(L, environment));
  open_ = LuaRef(L, lua_gettop(L));
  // Made once, since the extra columns of a prompt do not change from turn to turn.
  columns_ = std::make_unique<FieldTable>(prompts);
  options_.reply = [this](size_t conversation, const Rollout& so_far) {
    return reply(conversation, so_far);
  };
  options_.notify = [L](const std::string& notice) {
    auto& shown = LuaState::of(L).service<CallFormNotice>();
    if (!shown.reported) session_of(L).console->print_escaped(notice);
    shown.reported = true;
  };
}

EnvironmentOptions LuaEnvironment::options() const { return options_; }

void LuaEnvironment::push_turn(const Rollout& so_far) const {
  lua_State* L = state_;
  const RolloutTurn& turn = so_far.turns.back();
  lua_createtable(L, 0, 16);
  columns_->add_fields(L, static_cast<size_t>(so_far.prompt));
  set_field(L, "row", so_far.row);
  set_field(L, "group", so_far.prompt);
  set_field(L, "index", so_far.sample);
  set_field(L, "prompt", so_far.prompt_text);
  set_field(L, "prompt_ids", *so_far.prompt_ids);
  set_field(L, "turn", so_far.turns.size());
  set_field(L, "text", turn.text);
  set_field(L, "finish", turn.finish);
  set_field(L, "tool_calls", turn.calls);
  set_field(L, "ids",
            std::vector<int32_t>(so_far.ids.begin() + turn.begin, so_far.ids.begin() + turn.end));
}

std::string LuaEnvironment::failure_text(const Rollout& so_far, const std::string& failure) const {
  return fmt::format(
      "{}: the environment failed at turn {} of sample {}: {}\n  prompt: {}\n  turn: {}",
      row_text(prompts_.info(), so_far.row), so_far.turns.size(), so_far.sample, failure,
      shown_start(so_far.prompt_text), shown_start(so_far.turns.back().text));
}

TurnReply LuaEnvironment::reply(size_t conversation, const Rollout& so_far) {
  lua_State* L = state_;
  // Every turn comes here, so a stop waits for one call at most.
  check_stop(L);
  const StackGuard guard(L);
  LuaRef& answer = answers_[conversation];
  if (!answer) {
    // The first turn of the conversation, with which the environment's state begins.
    open_.push(L);
    protected_call(L, 0, 1);
    answer = LuaRef(L, lua_gettop(L));
  }
  answer.push(L);
  push_turn(so_far);
  TurnReply reply;
  reply.failure = call_with_deadline(L, 2, settings_.deadline_s);
  if (reply.failure.empty()) {
    const int last = lua_gettop(L);
    try {
      reply.reward = read_reward(L, last);
      reply.messages = read_messages(L, last - 1, so_far.turns.back().calls.size() > 0);
    } catch (const Error& error) {
      // A reward that was read before the messages failed must not count.
      reply = {.failure = error.what()};
    }
  }
  if (reply.failure.empty()) return reply;
  const std::string text = failure_text(so_far, reply.failure);
  XRUN_CHECK(settings_.on_error != FailedReward::kError,
             "{}\nhint: on_error = \"mask\" leaves such conversations out, \"zero\" gives them the "
             "reward 0",
             text);
  // Only one is shown: a broken environment fails in the same way each time.
  if (first_failure_.empty()) first_failure_ = text;
  return reply;
}

std::shared_ptr<Rollouts> LuaEnvironment::without_aborted(
    const std::shared_ptr<Rollouts>& rollouts) const {
  std::vector<int64_t> whole;
  for (int64_t i = 0; i < rollouts->size(); ++i) {
    if (!rollouts->rollouts()[static_cast<size_t>(i)]->aborted()) whole.push_back(i);
  }
  // Each rank has all rollouts, so either all ranks gather below or none does.
  if (std::ssize(whole) == rollouts->size()) return rollouts;
  std::string first;  // the failure of the lowest rank that had one
  for (const std::string& failure : gather_results(
           prompts_.info().ranks, "failures of environments", [&] { return first_failure_; })) {
    if (first.empty()) first = failure;
  }
  const bool masks = settings_.on_error == FailedReward::kMask;
  session_of(state_).console->print_escaped(
      fmt::format("{} of {} were aborted and {}; the first:\n{}",
                  rollouts->size() - std::ssize(whole), counted(rollouts->size(), "conversation"),
                  masks ? "are left out" : "have the reward 0", first));
  return masks ? rollouts->subset(whole) : rollouts;
}

}  // namespace xrun
