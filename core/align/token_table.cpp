// The bytes follow from the tokenizer's spelling (token_bytes.h): GPT-2's byte alphabet read
// backwards, U+2581 as a space, "<0x0A>" as a byte. An added token is its own text.

#include "core/align/token_table.h"

#include <cstring>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/text/tokenizer/byte_alphabet.h"
#include "core/text/tokenizer/token_bytes.h"
#include "core/text/tokenizer/token_decoders.h"
#include "core/text/tokenizer/tokenizer_pipeline.h"

namespace xrun {

namespace {

// The order matters: role() returns the first of several roles.
constexpr std::pair<std::string_view, std::string_view> kRoles[] = {
    {"eos_token", "eos"}, {"bos_token", "bos"},   {"pad_token", "pad"}, {"sep_token", "sep"},
    {"cls_token", "cls"}, {"mask_token", "mask"}, {"unk_token", "unk"}};

// Returns the roles that the tokenizer's files give its tokens, by id.
std::unordered_map<int32_t, SpecialRoles> named_roles(const Tokenizer& tokenizer) {
  std::unordered_map<int32_t, SpecialRoles> roles;
  for (const auto& [name, role] : kRoles) {
    std::optional<int32_t> id;
    if (name == "eos_token") id = tokenizer.eos_id();
    if (name == "bos_token") id = tokenizer.bos_id();
    if (name == "pad_token") id = tokenizer.pad_id();
    const std::string* text = find_text(tokenizer.named_tokens(), name);
    if (!id && text != nullptr) id = tokenizer.id_of(*text);
    if (!id) continue;
    SpecialRoles& known = roles[*id];
    // A token with another role does not stand for unknown text.
    if (role != "unk" || known.empty()) known.push_back(special_role(role));
  }
  return roles;
}

// Tries the cheapest source first; decoding is slow and comes last.
std::string token_bytes(const Tokenizer& tokenizer, const TextSpelling& spelling,
                        const TokenBytes& decoded, int32_t id) {
  const std::string_view piece = tokenizer.piece(id);
  const AddedToken* added = tokenizer.state().added.find(id);
  if (added != nullptr && !added->normalized) return added->content;
  std::string bytes;
  if (spelling.byte_level && append_unspelled(bytes, piece)) return bytes;
  const int byte = spelling.byte_tokens ? spelled_byte(piece) : -1;
  if (byte >= 0) return std::string(1, char(byte));
  if (spelling.marks_spaces && added == nullptr) return replaced(piece, "\u2581", " ");
  return spelling.exact && added == nullptr ? std::string(piece) : decoded.of(id);
}

}  // namespace

TokenTable::TokenTable(const Tokenizer& tokenizer) : spelling_(text_spelling(tokenizer)) {
  const auto size = size_t(tokenizer.vocab_size());
  begin_.reserve(size + 2);
  role_.assign(size + 1, kNoPiece);
  flags_.assign(size + 1, 0);
  short_.resize(size + 1);
  std::unordered_map<int32_t, SpecialRoles> named = named_roles(tokenizer);
  const TokenBytes decoded(tokenizer);
  // One row more than ids: ids beyond the vocabulary share it.
  for (size_t row = 0; row <= size; ++row) {
    const auto id = int32_t(row);
    XRUN_CHECK(bytes_.size() <= UINT32_MAX, "the pieces of a vocabulary of {} tokens exceed 4 GiB",
               size);
    begin_.push_back(uint32_t(bytes_.size()));
    const bool known = row < size && !tokenizer.piece(id).empty();
    const auto entry = named.find(id);
    if (known && (tokenizer.is_special(id) || entry != named.end())) {
      SpecialRoles roles = entry != named.end() ? std::move(entry->second) : SpecialRoles{};
      roles.push_back(special_role(std::string(kSpelledRole).append(tokenizer.piece(id))));
      add_special(id, std::move(roles));
    } else if (known) {
      bytes_ += token_bytes(tokenizer, spelling_, decoded, id);
      role_[row] = -1;
    }
    if (!known || spelling_.prefix == PrefixSpace::kNone) continue;
    const AddedToken* added = tokenizer.state().added.find(id);
    // An added token that is cut out of the text first begins a new stretch after it.
    const bool splits_text =
        added != nullptr && (!added->normalized || spelling_.scope == PrefixScope::kStretches);
    if (splits_text && spelling_.scope != PrefixScope::kText) flags_[row] |= kRestarts;
  }
  begin_.push_back(uint32_t(bytes_.size()));
  for (const int32_t id : tokenizer.leading_bos()) flags_[row_of(id)] |= kLeads;
  for (size_t row = 0; row <= size; ++row) add_short(row);
}

void TokenTable::add_special(int32_t id, SpecialRoles roles) {
  role_[size_t(id)] = roles.front();
  roles_.emplace(id, std::move(roles));
}

// Nearly all tokens have at most kShort bytes, and the walker copies those without a look-up.
void TokenTable::add_short(size_t row) {
  const std::string_view bytes = this->bytes(int32_t(row));
  const bool is_other = role_[row] != -1 || bytes.size() > kShort || flags_[row] != 0;
  short_[row].length = is_other ? kOther : uint8_t(bytes.size());
  if (!is_other) std::memcpy(short_[row].bytes, bytes.data(), bytes.size());
}

const SpecialRoles* TokenTable::roles(int32_t id) const {
  const auto entry = roles_.find(id);
  return entry == roles_.end() ? nullptr : &entry->second;
}

bool TokenTable::is_leading(int32_t id) const { return (flags_[row_of(id)] & kLeads) != 0; }

}  // namespace xrun
