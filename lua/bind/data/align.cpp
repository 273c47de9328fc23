// Aligns two tokenizers: token lists, and the rows of a data set with the tokens of a teacher.

#include "lua/bind/data/align.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/align/aligned_rows.h"
#include "core/align/alignment_quality.h"
#include "core/align/chat_companions.h"
#include "core/align/retokenizer.h"
#include "core/align/token_aligner.h"
#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/base/utf8.h"
#include "core/model/weights/hf_config.h"
#include "core/rollout/aligned_rollouts.h"
#include "core/train/models/frozen_model.h"
#include "core/train/models/policy.h"
#include "lua/bind/modules.h"
#include "lua/bind/session.h"
#include "lua/state/args.h"
#include "lua/tensor/token_tensors.h"

namespace xrun {

namespace {

constexpr int64_t kSampledRows = 64;   // aligned at once, for the report
constexpr size_t kShownRowBytes = 60;  // of a row in the warning

// A side of an alignment: anything with a tokenizer.
struct TokenizerOwner {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::string name;
  int64_t max_length = 0;  // tokens that its model reads; 0: there is no model
};

TokenizerOwner read_owner(lua_State* L, int i, const char* what) {
  const ClassInfo* const info = class_of(L, i);
  if (info == &class_info<LuaTokenizer>) {
    return {arg<LuaTokenizer&>(L, i).tokenizer, "the teacher", 0};
  }
  if (info == &class_info<Policy>) {
    const Policy& policy = arg<Policy&>(L, i);
    return {policy.tokenizer(), policy.dir().filename().string(),
            read_model_config(policy.dir()).max_length};
  }
  if (info == &class_info<FrozenModel>) {
    const FrozenModel& frozen = arg<FrozenModel&>(L, i);
    return {frozen.tokenizer(), frozen.dir().filename().string(), frozen.config().max_length};
  }
  throw_argument(L, i, what, "a model of xrun.frozen, a policy or a tokenizer");
}

// ---- class Alignment

std::vector<LuaOption> walk_options() {
  return {{"max_span", "integer", 0}, {"pair_specials", "boolean", true}};
}

WalkOptions read_walk(const Options& options) {
  WalkOptions walk;
  const auto span = options.get<int64_t>("max_span");
  XRUN_CHECK(span >= 0 && span <= std::numeric_limits<int32_t>::max(),
             "align: max_span is {}, wanted 0 (no limit) or a number of tokens", span);
  walk.max_span = static_cast<int32_t>(span);
  walk.pair_specials = options.get<bool>("pair_specials");
  return walk;
}

int make_aligner(lua_State* L) {
  const TokenizerOwner student = read_owner(L, 1, "student"), teacher = read_owner(L, 2, "teacher");
  push(L, std::make_shared<TokenAligner>(student.tokenizer, teacher.tokenizer,
                                         read_walk(Options(L, 3))));
  return 1;
}

// { s_begin, s_end, t_begin, t_end, correct }
void push_pair(lua_State* L, const AlignedPair& pair) {
  push(L, std::vector<int64_t>{pair.s_begin, pair.s_end, pair.t_begin, pair.t_end});
  push(L, pair.correct);
  lua_rawseti(L, -2, 5);
}

int push_pairs(TokenAligner& self, lua_State* L) {
  const std::vector<int32_t> student = read_ids(L, 2, "student_ids");
  const std::vector<int32_t> teacher = read_ids(L, 3, "teacher_ids");
  const Alignment pairs = self.ids(student, teacher).pairs;
  lua_createtable(L, static_cast<int>(pairs.size()), 0);
  for (size_t i = 0; i < pairs.size(); ++i) {
    push_pair(L, pairs[i]);
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
  return 1;
}

// ---- data sets

std::string row_text(const DataHandle& data, int64_t row) {
  std::string text = data.policy->tokenizer()->decode(data.set.stream(row, 0).ids);
  std::replace(text.begin(), text.end(), '\n', ' ');
  return shortened(text, kShownRowBytes);
}

// "data.txt:3 loses 4 of 9: Albury is a town ..."
std::string worst_text(const DataHandle& data, const AlignmentSample& sample) {
  std::vector<std::string> rows;
  for (const AlignmentSample::LossyRow& row : sample.worst) {
    rows.push_back(fmt::format("\n  {} loses {} of {}: {}", data.set.location(row.row),
                               count_text(row.lost), count_text(row.tokens),
                               row_text(data, row.row)));
  }
  return fmt::format("{}", fmt::join(rows, ""));
}

void report_sample(lua_State* L, const DataHandle& data, const AlignmentSample& sample,
                   const std::string& teacher, int64_t max_length) {
  const std::string limit = sample.cut_rows > 0
                                ? fmt::format(
                                      " (it reads at most {} tokens; rows are cut there, unless "
                                      "batch.tokens makes shorter windows)",
                                      count_text(max_length))
                                : "";
  const auto per_chunk = [&](int64_t tokens) {
    return static_cast<double>(tokens) / static_cast<double>(std::max<int64_t>(sample.chunks, 1));
  };
  XRUN_CHECK(sample.chunks > 0 || sample.tokens == 0,
             "{}: no token of {} is in a chunk with the tokens of {}; compare the two tokenizers "
             "with `xrun align --report`",
             data.name, counted(sample.rows, "row"), teacher);
  const bool warns = sample.coverage() < AlignmentQuality::kLeastCoverage;
  std::string line =
      (warns ? "warning: " : "") +
      fmt::format("{}: {:.1f} % of the trained tokens of {} are aligned with {}, {:.2f} in a chunk",
                  data.name, 100 * sample.coverage(), counted(sample.rows, "row"), teacher,
                  per_chunk(sample.tokens - sample.lost));
  if (warns)
    line += "; the rest gets no supervision from it" + limit + ":" + worst_text(data, sample);
  session_of(L).notices.add(line);
}

// Warns of rows that a teacher of the student's vocabulary does not read to their end.
void report_cut(lua_State* L, const DataHandle& data, const TokenizerOwner& teacher) {
  if (teacher.max_length == 0) return;
  int64_t rows = 0, lost = 0;
  for (int64_t i = 0; i < data.set.size(); ++i) {
    const int64_t over = data.set.unit_tokens(data.set.unit(i)) - teacher.max_length;
    rows += over > 0;
    lost += std::max<int64_t>(over, 0);
  }
  if (rows == 0) return;
  session_of(L).notices.add(
      fmt::format("warning: {}: {} reads at most {} tokens, and {} of {} rows have more; they are "
                  "cut there and lose {} (unless batch.tokens makes shorter windows)",
                  data.name, teacher.name, count_text(teacher.max_length), count_text(rows),
                  count_text(data.set.size()), counted(lost, "token")));
}

// ---- teachers

// A teacher, with its template if it reads conversations in another vocabulary.
struct AlignTeacher {
  TokenizerOwner owner;
  std::shared_ptr<const Retokenizer> retokenizer;
  std::shared_ptr<const ChatTemplate> chat_template;  // else null
};

std::shared_ptr<const ChatTemplate> teacher_template(lua_State* L, const Options& options,
                                                     const TokenizerOwner& teacher) {
  const auto setting = options.get<std::string>("template");
  try {
    // Nothing of the teacher is trained, so its template needs no generation marks.
    const ResolvedTemplate resolved =
        resolve_template(*teacher.tokenizer, setting, template_date(L), /*allow_unmarked=*/true);
    return resolved.chat_template;
  } catch (const Error& error) {
    throw Error(
        fmt::format("{} reads conversations in its own template: {}; for align() "
                    "give it as align(teacher, {{ template = ... }})",
                    teacher.name, error.what()));
  }
}

// Teachers of rollouts, made once because every step aligns with them: byte tables and templates.
struct RolloutTeachers {
  using TeacherKey =
      std::tuple<std::shared_ptr<const Tokenizer>, std::shared_ptr<const Tokenizer>, std::string,
                 int32_t, bool>;  // student, teacher, template, WalkOptions
  std::map<TeacherKey, AlignTeacher> known;
};

// Reads the teacher at index i, with options after it.
AlignTeacher read_teacher(lua_State* L, int i, const std::shared_ptr<const Tokenizer>& student,
                          bool chat) {
  const Options options(L, i + 1);
  AlignTeacher teacher{read_owner(L, i, "teacher"), nullptr, nullptr};
  teacher.retokenizer = std::make_shared<const Retokenizer>(
      student, teacher.owner.tokenizer,
      RetokenizerOptions{.limit = teacher.owner.max_length, .walk = read_walk(options)});
  const bool reads_own = teacher.retokenizer->same_vocabulary();
  XRUN_CHECK(!options.has("template") || (chat && !reads_own), "align: {}; leave template out",
             chat ? "a teacher of the student's vocabulary reads the student's own tokens"
                  : "only conversations are rendered by a template");
  if (chat && !reads_own) teacher.chat_template = teacher_template(L, options, teacher.owner);
  return teacher;
}

// The companions of a set's rows, from their cache; null for a teacher that reads the rows' tokens.
std::shared_ptr<const AlignedRows> companions_of(Session& session, const DataSet& set,
                                                 const AlignTeacher& teacher, int workers) {
  if (teacher.retokenizer->same_vocabulary()) return nullptr;
  std::shared_ptr<const CompanionMaker> maker;
  if (teacher.chat_template) {
    maker = std::make_shared<const ChatCompanions>(set, teacher.retokenizer, teacher.chat_template,
                                                   workers);
  } else {
    maker = std::make_shared<const TextCompanions>(teacher.retokenizer, workers);
  }
  auto rows = std::make_shared<const AlignedRows>(std::move(maker), sidecar_root());
  session.data.alignments.push_back(rows);
  return rows;
}

}  // namespace

LuaParameter align_options_parameter() {
  std::vector<LuaOption> options = walk_options();
  options.insert(options.begin(), {"template", "string", "auto"});
  return {"options?", "table", std::move(options)};
}

std::shared_ptr<DataHandle> align_set(lua_State* L, const DataHandle& data, int i) {
  const RowKind kind = data.set.kind();
  const bool chat = kind == RowKind::kChat;
  XRUN_CHECK(chat || kind == RowKind::kText || kind == RowKind::kTokens,
             "{} rows cannot be aligned; align rows of xrun.text, xrun.tokens or xrun.chat, or "
             "sampled answers",
             row_kind_name(kind));
  const AlignTeacher teacher = read_teacher(L, i, data.policy->tokenizer(), chat);
  auto aligned = std::make_shared<DataHandle>(data);
  Session& session = session_of(L);
  const int workers = recipe_context(L).options.threads;
  aligned->align = [&session, teacher, workers](const DataSet& set) {
    const auto rows = companions_of(session, set, teacher, workers);
    return rows ? set.with_companion(rows) : set.with_row_chunks(teacher.owner.max_length);
  };
  const auto rows = companions_of(session, data.set, teacher, workers);
  if (!rows) {
    aligned->set = data.set.with_row_chunks(teacher.owner.max_length);
    report_cut(L, data, teacher.owner);
  } else {
    aligned->set = data.set.with_companion(rows);
    report_sample(L, data, sample_alignment(data.set, *rows, kSampledRows), teacher.owner.name,
                  teacher.owner.max_length);
    const std::string damage = rows->counts().damage;
    if (!damage.empty()) session_of(L).notices.add("warning: " + damage);
  }
  return aligned;
}

std::shared_ptr<Batch> aligned_rollouts(lua_State* L, const Rollouts& rollouts, int i) {
  const auto student = rollouts.info().tokenizer.tokenizer;
  const Options options(L, i + 1);
  const TokenizerOwner owner = read_owner(L, i, "teacher");
  const WalkOptions walk = read_walk(options);
  AlignTeacher& teacher = LuaState::of(L).service<RolloutTeachers>().known[{
      student, owner.tokenizer, options.get<std::string>("template"), walk.max_span,
      walk.pair_specials}];
  if (teacher.retokenizer == nullptr) {
    teacher = read_teacher(L, i, student, /*chat=*/true);
  }
  if (teacher.retokenizer->same_vocabulary()) return with_row_chunks(rollouts);
  return align_rollouts(
      rollouts, {teacher.retokenizer, teacher.chat_template, recipe_context(L).options.threads});
}

void open_align(LuaState& state) {
  Class<TokenAligner>(state, "Alignment", "Two tokenizers of one text, token by token.")
      .method("pairs", {{"student_ids", "integer[]|Tensor"}, {"teacher_ids", "integer[]|Tensor"}},
              {{"table[]"}},
              "The pairs of two token lists of one text, in order: { s_begin, s_end, t_begin, "
              "t_end, correct }, half-open ranges from 0; the side without a partner is -1, -1. "
              "correct: both sides spell the same bytes, or are special tokens of one role. Equal "
              "ids of one vocabulary pair one by one.",
              push_pairs);
  state.function(
      "align",
      {{"student", "Policy|FrozenModel|Tokenizer"},
       {"teacher", "Policy|FrozenModel|Tokenizer"},
       {"options?", "table", walk_options()}},
      {"Alignment"},
      "Compares two tokenizers by the bytes of their tokens. A pair of more than max_span tokens on "
      "a side is not correct; with pair_specials = false special tokens have no partner.",
      make_aligner);
}

}  // namespace xrun
