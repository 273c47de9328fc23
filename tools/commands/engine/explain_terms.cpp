// Every sentence comes from a table beside the code that it describes; tests compare docs/ with it.

#include "tools/commands/engine/explain_terms.h"

#include <fmt/core.h>

#include <utility>

#include "core/data/rows/drop_reasons.h"
#include "core/run/record/metric_docs.h"
#include "core/text/chat/template_laws.h"

namespace xrun {

namespace {

// Variables of the environment, with what they set.
constexpr std::pair<std::string_view, std::string_view> kVariables[] = {
    {"XRUN_CACHE",
     "the folder of caches and downloaded models; by default $XDG_CACHE_HOME/xrun, else "
     "~/.cache/xrun"},
    {"XRUN_MEMORY_MB",
     "the memory in MB that a run may use on its device; by default what the machine reports as "
     "available"},
};

// A law by its name or as a setting: "laws.prefix".
std::string explain_law(std::string name) {
  constexpr std::string_view kLaws = "laws.";
  if (name.starts_with(kLaws)) name.erase(0, kLaws.size());
  const std::string statement = law_statement(name);
  if (statement.empty()) return "";
  return fmt::format("{0}, a law of templates: {1}\n  --set laws.{0}=false switches it off\n", name,
                     statement);
}

std::string explain_drop_reason(const std::string& name) {
  for (const DropReason& reason : drop_reasons()) {
    if (reason.name != name) continue;
    return fmt::format(
        "{}, a reason to drop a row (of {}): {}\n  ledger.json of the run counts such rows, with "
        "file and line of the first\n",
        name, reason.rows == "all" ? "any kind" : reason.rows, reason.meaning);
  }
  return "";
}

std::string explain_metric(const std::string& name) {
  const MetricDoc* doc = find_metric_doc(name);
  if (doc == nullptr) return "";
  return fmt::format("{}, of metrics.jsonl: {}\n", doc->names, doc->meaning);
}

std::string explain_variable(std::string_view name) {
  for (const auto& [variable, meaning] : kVariables) {
    if (variable == name) {
      return fmt::format("{}, a variable of the environment: {}\n", name, meaning);
    }
  }
  return "";
}

}  // namespace

std::vector<ExplainedTerm> explained_terms() {
  std::vector<ExplainedTerm> all;
  for (const std::string& law : law_names()) all.push_back({law, law_statement(law)});
  for (const DropReason& reason : drop_reasons()) {
    all.push_back({std::string(reason.name), std::string(reason.meaning)});
  }
  for (const MetricDoc& doc : metric_docs()) {
    for (const std::string& name : metric_names(doc)) {
      all.push_back({name, std::string(doc.meaning)});
    }
  }
  for (const auto& [name, meaning] : kVariables) {
    all.push_back({std::string(name), std::string(meaning)});
  }
  return all;
}

std::string explain_term(const std::string& name) {
  return explain_law(name) + explain_drop_reason(name) + explain_metric(name) +
         explain_variable(name);
}

}  // namespace xrun
