// xrun.tokenizer: text to ids and back, without a model.

#include "core/text/tokenizer/tokenizer.h"

#include "core/base/error.h"
#include "core/model/weights/model_registry.h"
#include "lua/bind/modules.h"
#include "lua/state/args.h"
#include "lua/tensor/token_tensors.h"

namespace xrun {

namespace {

int make_tokenizer(lua_State* L) {
  const auto tokenizer = Tokenizer::load(resolve_model(
      local_input(L, InputKind::kModel, arg<std::string>(L, 1, "dir")), {}, "tokenizer"));
  // A damaged file is then an error of this line of the recipe, not of the first text.
  tokenizer->finish_loading();
  push(L, std::make_shared<LuaTokenizer>(LuaTokenizer{tokenizer}));
  return 1;
}

int encode(LuaTokenizer& self, lua_State* L) {
  const std::string text = arg<std::string>(L, 2, "text");
  const Options options(L, 3);
  EncodeOptions how;
  // Off by default: in conversations the template writes BOS and EOS.
  how.add_post_processor = options.get<bool>("specials");
  const Encoding encoding = self->encode(text, how);
  push(L, ids_tensor(encoding.ids));
  push(L, offsets_tensor(encoding.offsets));
  return 2;
}

int decode(LuaTokenizer& self, lua_State* L) {
  const Options options(L, 3);
  const std::vector<int32_t> ids = read_ids(L, 2, "ids");
  push(L, self->decode(ids, !options.get<bool>("specials")));
  return 1;
}

int push_id_or_nil(lua_State* L, std::optional<int32_t> id) {
  if (id) {
    push(L, int64_t{*id});
  } else {
    lua_pushnil(L);
  }
  return 1;
}

int id_of(LuaTokenizer& self, lua_State* L) {
  return push_id_or_nil(L, self->id_of(arg<std::string>(L, 2, "piece")));
}

int piece_of(LuaTokenizer& self, lua_State* L) {
  const int64_t id = arg<int64_t>(L, 2, "id");
  XRUN_CHECK(id >= 0 && id < self->vocab_size(), "argument 1 (id): got {}, wanted 0 to {}", id,
             self->vocab_size() - 1);
  push(L, self->piece(static_cast<int32_t>(id)));
  return 1;
}

int push_vocab_size(LuaTokenizer& self, lua_State* L) {
  push(L, self->vocab_size());
  return 1;
}

template <std::optional<int32_t> (Tokenizer::*Id)() const>
int push_special(LuaTokenizer& self, lua_State* L) {
  return push_id_or_nil(L, ((*self).*Id)());
}

}  // namespace

void open_tokenizer(LuaState& state) {
  Class<LuaTokenizer>(state, "Tokenizer",
                      "A model folder's tokenizer, as its own library reads it.")
      .method("encode",
              {{"text", "string"}, {"options?", "table", {{"specials", "boolean", false}}}},
              {{"Tensor", "[T]"}, {"Tensor", "[T, 2]"}},
              "Ids, and for each token its bytes of the text, begin and end. Text that spells a "
              "special token stays plain; { specials = true } adds those of the post-processor.",
              encode)
      .method("decode",
              {{"ids", "integer[]|Tensor"}, {"options?", "table", {{"specials", "boolean", true}}}},
              {"string"},
              "The text of ids, a list or a tensor [T]; { specials = false } leaves special "
              "tokens out.",
              decode)
      .method("id_of", {{"piece", "string"}}, {"integer|nil"},
              "The id of a piece as the vocabulary spells it.", id_of)
      .method("piece", {{"id", "integer"}}, {"string"},
              "The piece of an id, as the vocabulary spells it.", piece_of)
      .property("bos_id", "integer|nil", "The token that begins a text.",
                push_special<&Tokenizer::bos_id>)
      .property("eos_id", "integer|nil", "The token that ends a text.",
                push_special<&Tokenizer::eos_id>)
      .property("pad_id", "integer|nil", "The token that fills up a batch.",
                push_special<&Tokenizer::pad_id>)
      .metamethod("__len", {}, {"integer"}, "The largest id + 1.", push_vocab_size);
  state.function("tokenizer", {{"dir", "string"}}, {"Tokenizer"},
                 "Loads the tokenizer of a model folder, or of a model by name.", make_tokenizer);
}

}  // namespace xrun
