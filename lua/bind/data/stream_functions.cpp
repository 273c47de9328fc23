// xrun.shuffle, xrun.mixture and xrun.pack: the stages of the data stream, on plain lists.

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/config/config_field.h"
#include "core/data/packs/mixture.h"
#include "core/data/packs/pack.h"
#include "core/data/packs/row_stream.h"
#include "core/data/packs/shuffle.h"
#include "lua/bind/data/data_config.h"
#include "lua/bind/modules.h"
#include "lua/state/args.h"
#include "lua/tensor/token_tensors.h"

namespace xrun {

namespace {

int make_shuffle(lua_State* L) {
  const int64_t rows = arg<int64_t>(L, 1, "n");
  const Options options(L, 2);
  RowOrder order;
  if (options.has("block") || options.has("window")) order.kind = RowOrderKind::kBlock;
  order.block = options.get<int64_t>("block");
  order.window = options.get<int64_t>("window");
  const int64_t epoch = options.get<int64_t>("epoch");
  XRUN_CHECK(epoch >= 0, "option `epoch`: got {}, wanted at least 0", epoch);
  push(L, std::make_shared<EpochOrder>(order, rows,
                                       static_cast<uint64_t>(options.get<int64_t>("seed")),
                                       static_cast<uint64_t>(epoch)));
  return 1;
}

int push_row(EpochOrder& order, lua_State* L) {
  push(L, order(arg<int64_t>(L, 2, "i")));
  return 1;
}

int push_size(EpochOrder& order, lua_State* L) {
  push(L, order.size());
  return 1;
}

}  // namespace

void open_shuffle(LuaState& state) {
  Class<EpochOrder>(state, "Shuffle",
                    "An order of n rows that needs no table: a bijection of 0 to n - 1.")
      .metamethod("__call", {{"i", "integer"}}, {"integer"},
                  "The row of the i-th draw, both from 0.", push_row)
      .metamethod("__len", {}, {"integer"}, "The number of rows.", push_size);
  state.function(
      "shuffle",
      {{"n", "integer"},
       {"options?",
        "table",
        {{"seed", "integer", 0},
         {"epoch", "integer", 0},
         {"block", "integer", RowOrder::kBlockRows},
         {"window", "integer", RowOrder::kWindowBlocks}}}},
      {"Shuffle"},
      "The order in which an epoch visits n rows, a pure function of seed and epoch. If block or "
      "window is given, blocks of that many rows move whole, then rows move inside a window of that "
      "many blocks.",
      make_shuffle);
}

namespace {

struct LuaMixture {
  Mixture mixture;
  std::optional<int64_t> length;
};

std::vector<MixtureStage> stages_of(lua_State* L, const Options& options) {
  if (!options.has("stages")) return {};
  XRUN_CHECK(lua_isnoneornil(L, 1),
             "a mixture has weights (argument 1) or stages, not both; pass nil for the weights");
  const Json stages = options.get<Json>("stages");
  check_fields(stages, "mixture.stages");
  return read_stages(stages);
}

std::vector<double> read_weights(lua_State* L) {
  const Json weights = to_json(L, 1);
  const bool numbers = weights.is_array() && weights.size() > 0;
  if (!numbers) throw_argument(L, 1, "weights", "a list of numbers");
  std::vector<double> result;
  for (const Json& weight : weights.as_array()) {
    if (!weight.is_number()) throw_argument(L, 1, "weights", "a list of numbers");
    result.push_back(weight.as_double());
  }
  return result;
}

// Throws Error unless an option's list has one number per source.
void require_one_per_source(const char* option, size_t numbers, size_t sources) {
  XRUN_CHECK(numbers == sources, "option `{}` has {} for {}; give one number per source", option,
             counted(static_cast<int64_t>(numbers), "number"),
             counted(static_cast<int64_t>(sources), "source"));
}

// The stream's length follows from the sources' sizes.
void find_length(LuaMixture& mixture, RowStream::Plan plan, const MixturePlan& of,
                 const Options& options) {
  const size_t sources = of.stages[0].weights.size();
  // Weights alone give no end: a source that is used up is drawn again.
  const std::vector<int64_t> sizes = options.get<std::vector<int64_t>>("sizes");
  require_one_per_source("sizes", sizes.size(), sources);
  for (size_t s = 0; s < sources; ++s) {
    XRUN_CHECK(sizes[s] > 0, "option `sizes`: source {} has {} rows, wanted at least 1", s + 1,
               sizes[s]);
    RowStream::StreamSource& source = plan.sources.emplace_back();
    source.rows = sizes[s];
    // Stages carry the weights, which change during the stream.
    source.weight = of.staged ? 1 : of.stages[0].weights[s];
    if (!of.quotas.empty()) source.quota = of.quotas[s];
  }
  mixture.length = RowStream(std::move(plan)).length();
}

// 0 means that there is no quota, as in the list of the option.
std::vector<int64_t> read_quotas(const Options& options, size_t sources) {
  if (!options.has("quotas")) return {};
  std::vector<int64_t> quotas = options.get<std::vector<int64_t>>("quotas");
  require_one_per_source("quotas", quotas.size(), sources);
  for (int64_t& quota : quotas) {
    XRUN_CHECK(quota >= 0, "option `quotas`: got {}, wanted rows, or 0 for no quota", quota);
    // The list needs an entry for each source; a plan has -1 for "none".
    if (quota == 0) quota = -1;
  }
  return quotas;
}

int make_mixture(lua_State* L) {
  const Options options(L, 2);
  RowStream::Plan plan;
  plan.stages = stages_of(L, options);
  plan.seed = static_cast<uint64_t>(options.get<int64_t>("seed"));
  plan.step_rows = options.get<int64_t>("batch");
  plan.epochs = options.get<int64_t>("epochs");
  plan.mixture_block = options.get<int64_t>("block");
  plan.mixture_order = parse_mixture_order(options.get<std::string>("order"));
  plan.stop = parse_mixture_stop(options.get<std::string>("stop"));
  const bool shuffle = options.get<bool>("shuffle");
  if (!shuffle) plan.order.kind = RowOrderKind::kFile;
  MixturePlan of{.stages = plan.stages};
  of.staged = !plan.stages.empty();
  if (!of.staged) of.stages = {{0, read_weights(L)}};
  of.quotas = read_quotas(options, of.stages[0].weights.size());
  of.step_rows = plan.step_rows;
  of.seed = plan.seed;
  of.shuffle = shuffle;
  of.order = plan.mixture_order;
  of.block = plan.mixture_block;
  auto mixture = std::make_shared<LuaMixture>(LuaMixture{Mixture(of), std::nullopt});
  if (options.has("sizes")) {
    find_length(*mixture, std::move(plan), of, options);
  } else {
    mixture->length = mixture->mixture.end();
  }
  push(L, std::move(mixture));
  return 1;
}

// Sources count from 1, as the list of weights does; draws and rows from 0.
int push_draw(LuaMixture& self, lua_State* L) {
  const int64_t index = arg<int64_t>(L, 2, "i");
  // Without a length the stream has no end.
  XRUN_CHECK(index >= 0 && index < self.length.value_or(index + 1),
             "a mixture of {} rows has no index {}", self.length.value_or(0), index);
  const Mixture::Draw draw = self.mixture(index);
  push(L, int64_t{draw.source} + 1);
  push(L, draw.draw);
  return 2;
}

int push_length(LuaMixture& self, lua_State* L) {
  if (self.length) {
    push(L, *self.length);
  } else {
    lua_pushnil(L);
  }
  return 1;
}

}  // namespace

void open_mixture(LuaState& state) {
  Class<LuaMixture>(state, "Mixture", "Weighted sources as one stream that needs no state.")
      .metamethod("__call", {{"i", "integer"}}, {{"integer", "source"}, {"integer", "draw"}},
                  "The source of row i of the stream (i from 0, sources from 1, as in the list of "
                  "weights), and the row of that source, counted from 0 without end.",
                  push_draw)
      .property("length", "integer|nil",
                "Rows of the stream by `stop` and `sizes`; nil: without end.", push_length);
  state.function(
      "mixture",
      {{"weights", "number[]|nil"},
       {"options?",
        "table",
        {{"seed", "integer", 0},
         {"shuffle", "boolean", true},
         {"block", "integer", Mixture::kBlock},
         {"order", "\"blocks\"|\"round_robin\"", "blocks"},
         {"quotas", "integer[]"},
         {"stages", "table[]"},
         {"batch", "integer", 1},
         {"sizes", "integer[]"},
         {"stop", "\"all\"|\"first\"|\"restart\"", "all"},
         {"epochs", "integer", 1}}}},
      {"Mixture"},
      "Mixes sources by weight, exactly in every block of rows. order = \"round_robin\" is the "
      "smooth weighted round robin; quotas = { 500, 0 } are the rows that a source gives in all "
      "(0: any number); sizes (rows of each source), epochs and stop (\"all\", \"first\", "
      "\"restart\") decide the length; stages = { { start = 0, weights = {...} }, ... } instead "
      "of weights (then nil), with start in steps of batch rows.",
      make_mixture);
}

namespace {

void push_lists(lua_State* L, const std::vector<std::vector<int64_t>>& lists) {
  lua_createtable(L, static_cast<int>(lists.size()), 0);
  for (size_t i = 0; i < lists.size(); ++i) {
    push(L, lists[i]);
    lua_rawseti(L, -2, static_cast<int>(i) + 1);
  }
}

int pack_lengths(lua_State* L) {
  push_lists(
      L, best_fit_decreasing(read_whole_numbers(L, 1, "lengths"), arg<int64_t>(L, 2, "capacity")));
  return 1;
}

}  // namespace

void open_pack(LuaState& state) {
  state.function("pack", {{"lengths", "integer[]|Tensor"}, {"capacity", "integer"}},
                 {"integer[][]"},
                 "Best-fit-decreasing packs of at most `capacity`: lists of indices from 0 into "
                 "`lengths`, a list or a tensor [n]. Always the same for the same lengths.",
                 pack_lengths);
}

}  // namespace xrun
