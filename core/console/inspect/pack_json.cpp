// A pack as the JSON object of `xrun inspect --json`, with its segments end to end.

#include "core/console/inspect/inspected_pack.h"

namespace xrun {

namespace {

// The label that PyTorch's cross entropy ignores.
constexpr int64_t kIgnored = -100;

Json turns_json(const InspectedSegment& segment) {
  Json turns = Json::array();
  for (const InspectedTurn& turn : segment.turns) {
    turns.push_back(Json(Json::Object{{"role", turn.role},
                                      {"message", turn.message < 0 ? Json() : Json(turn.message)},
                                      {"begin", static_cast<int64_t>(turn.begin)}}));
  }
  return turns;
}

Json row_json(const InspectedSegment& segment) {
  Json row(Json::Object{
      {"file", segment.file},
      {"line", segment.line},
      {"side", segment.side == 0 ? Json() : Json(side_name(segment.side))},
      {"pair", segment.pair < 0 ? Json() : Json(segment.pair)},
      {"weight", static_cast<double>(segment.weight)},
      {"cut_tokens", segment.cut_tokens},
      {"turns", turns_json(segment)},
  });
  if (segment.label) row.set("label", *segment.label);
  return row;
}

// Returns one value per token, in one list for all segments.
template <typename Of>
Json of_tokens(const InspectedPack& pack, const Of& of) {
  Json::Array list;
  for (const InspectedSegment& segment : pack.segments) {
    for (const InspectedToken& token : segment.tokens) list.push_back(of(token));
  }
  return Json(std::move(list));
}

Json number(const std::optional<float>& value) {
  return value ? Json(static_cast<double>(*value)) : Json();
}

Json whole_numbers(const std::vector<int32_t>& values) {
  Json::Array list;
  for (const int32_t value : values) list.emplace_back(int64_t{value});
  return Json(std::move(list));
}

Json fold_json(const InspectedFold& fold) {
  return Json(Json::Object{{"tokens", whole_numbers(fold.tree.tokens)},
                           {"position_ids", whole_numbers(fold.tree.position_ids)},
                           {"prev", whole_numbers(fold.tree.prev)},
                           {"end", whole_numbers(fold.tree.end)},
                           {"flat_of", whole_numbers(fold.flat_of)}});
}

Json known(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json break_json(const InspectedBreak& one) {
  Json rows = Json::array();
  for (const InspectedBreak::BreakSide& side : one.sides) {
    rows.push_back(Json(Json::Object{
        {"file", side.file},
        {"line", side.line},
        {"side", side.side == 0 ? Json() : Json(side_name(side.side))},
        {"token", int64_t{side.token}},
        {"token_text", side.text},
        {"origin", known(side.origin)},
        {"role", known(side.role)},
        {"template_line", side.template_line > 0 ? Json(int64_t{side.template_line}) : Json()},
    }));
  }
  return Json(Json::Object{{"cause", break_cause_name(one.cause)},
                           {"position", one.position},
                           {"rows", std::move(rows)},
                           {"text", one.sentence}});
}

bool any_logprob(const InspectedPack& pack, std::optional<float> InspectedToken::*field) {
  for (const InspectedSegment& segment : pack.segments) {
    for (const InspectedToken& token : segment.tokens) {
      if (token.*field) return true;
    }
  }
  return false;
}

}  // namespace

Json pack_json(const InspectedStep& step, const InspectedPack& pack) {
  // cu_seqlens [S + 1].
  Json::Array borders = {Json(0)}, rows;
  int64_t end = 0;
  for (const InspectedSegment& segment : pack.segments) {
    end += static_cast<int64_t>(segment.tokens.size());
    borders.emplace_back(end);
    rows.push_back(row_json(segment));
  }
  Json out = Json::object();
  out.set("step", step.step);
  out.set("pack", pack.index);
  out.set("tokens", of_tokens(pack, [](const InspectedToken& t) { return Json(int64_t{t.id}); }));
  out.set("labels", of_tokens(pack, [](const InspectedToken& t) {
            return Json(t.target ? int64_t{t.id} : kIgnored);
          }));
  out.set("cu_seqlens", Json(std::move(borders)));
  out.set("position_ids",
          of_tokens(pack, [](const InspectedToken& t) { return Json(int64_t{t.position}); }));
  out.set("weights", of_tokens(pack, [](const InspectedToken& t) {
            return Json(static_cast<double>(t.weight));
          }));
  out.set("rows", Json(std::move(rows)));
  if (pack.fold) out.set("fold", fold_json(*pack.fold));
  if (!pack.unfolded.empty()) out.set("unfolded", pack.unfolded);
  Json breaks = Json::array();
  for (const InspectedBreak& found : pack.breaks) breaks.push_back(break_json(found));
  if (breaks.size() > 0) out.set("breaks", std::move(breaks));
  out.set("data", step.data);
  out.set("max_tokens", step.max_tokens);
  out.set("left_out", pack.left_out);
  Json logprobs = Json::object();
  for (const auto& [name, field] : {std::pair("policy", &InspectedToken::policy),
                                    std::pair("reference", &InspectedToken::reference)}) {
    if (!any_logprob(pack, field)) continue;
    logprobs.set(name, of_tokens(pack, [value = field](const InspectedToken& t) {
                   return number(t.*value);
                 }));
  }
  if (logprobs.size() > 0) out.set("logprobs", std::move(logprobs));
  return out;
}

}  // namespace xrun
