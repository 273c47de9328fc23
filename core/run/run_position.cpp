// {"step":3,"phases":[{"done":3,"total":8,"left":false,"data":{...}}],"stopped":"",
//  "state":{},"outside":[{"step":0,"what":"evaluate","metrics":{"valid/loss":0.69}}]}

#include "core/run/run_position.h"

#include "core/run/checkpoint_files.h"

namespace xrun {

namespace {

// encode_state: a metric may be NaN, which JSON lacks.
Json evaluation_json(const OutsideEvaluation& one) {
  Json values = Json::object();
  for (const auto& [name, value] : one.metrics) values.set(name, value);
  return Json(
      Json::Object{{"step", one.step}, {"what", one.what}, {"metrics", encode_state(values)}});
}

OutsideEvaluation evaluation_from(const Json& json) {
  OutsideEvaluation out{json.at("step").as_int(), json.at("what").as_string(), {}};
  const Json metrics = decode_state(json.at("metrics"));
  for (const auto& [name, value] : metrics.as_object()) {
    out.metrics.emplace_back(name, value.as_double());
  }
  return out;
}

}  // namespace

Json RunPosition::to_json(int64_t step, const Json& state) const {
  Json loops = Json::array();
  for (const RunPhase& phase : phases) {
    Json loop(Json::Object{
        {"done", phase.done}, {"total", phase.total}, {"left", phase.left}, {"data", phase.data}});
    if (!phase.sources.is_null()) loop.set("sources", phase.sources);
    loops.push_back(std::move(loop));
  }
  Json evaluations = Json::array();
  for (const OutsideEvaluation& evaluation : outside)
    evaluations.push_back(evaluation_json(evaluation));
  return Json(Json::Object{{"step", step},
                           {"phases", std::move(loops)},
                           {"stopped", stopped},
                           {"state", encode_state(state)},
                           {"outside", std::move(evaluations)}});
}

RunPosition RunPosition::from_json(const Json& json) {
  RunPosition out;
  for (const Json& saved : json.at("phases").as_array()) {
    out.phases.push_back({saved.at("done").as_int(), saved.at("total").as_int(),
                          saved.at("left").as_bool(), saved.at("data")});
    if (const Json* sources = saved.find("sources")) out.phases.back().sources = *sources;
  }
  out.stopped = json.at("stopped").as_string();
  // Checkpoints of older runs lack it.
  if (const Json* evaluations = json.find("outside")) {
    for (const Json& evaluation : evaluations->as_array())
      out.outside.push_back(evaluation_from(evaluation));
  }
  return out;
}

}  // namespace xrun
