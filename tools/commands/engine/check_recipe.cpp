// Each finding of `xrun check` is a text with its location and fix.

#include "tools/commands/engine/check_recipe.h"

#include <algorithm>
#include <cctype>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/config/config.h"
#include "core/console/terminal/table.h"
#include "core/model/weights/hf_config.h"
#include "core/model/weights/weight_check.h"
#include "core/text/chat/template_laws.h"
#include "core/train/models/frozen_model.h"
#include "core/train/models/policy.h"
#include "lua/bind/run/run_loop.h"
#include "lua/prompt/preview.h"

namespace xrun {

namespace {

constexpr size_t kListed = 3;  // bad rows of a source

// "2 dropped (no_prompt 1, too_long 1), 3 cut by 120 tokens, 1 repaired"; "" if there are none.
std::string losses_text(const SourceLedger& source) {
  std::vector<std::string> parts;
  if (source.dropped_total() > 0) {
    std::string reasons;
    for (const auto& [reason, count] : source.dropped) {
      add_item(reasons, fmt::format("{} {}", reason, count_text(count)));
    }
    parts.push_back(fmt::format("{} dropped ({})", count_text(source.dropped_total()), reasons));
  }
  if (source.cut > 0) {
    parts.push_back(
        fmt::format("{} cut by {}", count_text(source.cut), counted(source.cut_tokens, "token")));
  }
  if (source.repaired > 0) parts.push_back(fmt::format("{} repaired", count_text(source.repaired)));
  std::string out;
  for (const std::string& part : parts) add_item(out, part);
  return out;
}

Finding source_finding(const SourceLedger& source) {
  Finding finding{Verdict::kOk, "ledger",
                  fmt::format("{}: {} of {} kept, {}, {} trained", source.name,
                              count_text(source.kept), counted(source.rows, "row"),
                              counted(source.tokens, "token"), count_text(source.trained_tokens))};
  const std::string losses = losses_text(source);
  const auto add_notes = [&] {
    for (const auto& [text, rows] : source.notes) {
      finding.text += fmt::format("\nnote: {} ({})", text, source.noted_rows(text));
      if (is_warning(text)) finding.verdict = Verdict::kNote;
    }
  };
  if (losses.empty()) {
    add_notes();
    return finding;
  }
  finding.verdict = Verdict::kNote;
  finding.text += "; " + losses;
  for (const auto& lines :
       {source.bad_lines(kListed), source.cut_lines(1), source.repaired_lines(1)}) {
    for (const std::string& line : lines) finding.text += "\n" + line;
  }
  add_notes();
  finding.fix = source.bad_rows_file.empty()
                    ? "--set strict=true stops at the first such row"
                    : fmt::format("all of them: {}; --set strict=true stops at the first",
                                  source.bad_rows_file);
  return finding;
}

}  // namespace

void split_location(Finding& finding) {
  size_t colon = 0;
  while ((colon = finding.text.find(':', colon)) != std::string::npos) {
    size_t end = colon + 1;
    while (end < finding.text.size() &&
           std::isdigit(static_cast<unsigned char>(finding.text[end]))) {
      ++end;
    }
    // A blank before the colon means prose, not a path.
    const bool located = colon > 0 && end > colon + 1 && finding.text.compare(end, 2, ": ") == 0 &&
                         finding.text.find_first_of(" \n") > colon;
    if (located) {
      finding.location = finding.text.substr(0, end);
      finding.text.erase(0, end + 2);
      return;
    }
    colon = end;
  }
}

Finding error_finding(const std::string& subject, const ErrorReport& report) {
  // A data error is located in the data, not in the recipe.
  if (report.data) {
    Finding finding{Verdict::kWrong, "data", report.message};
    split_location(finding);
    return finding;
  }
  Finding finding{Verdict::kWrong, subject, report.message, report.hint, report.position()};
  if (!report.operation.empty() && !finding.text.starts_with(report.operation))
    finding.text = report.operation + ": " + finding.text;
  if (finding.location.empty()) split_location(finding);
  for (const std::string& value : report.values) finding.text += "\n" + value;
  // Without a hint, shows the line itself.
  if (finding.fix.empty() && !report.source_line.empty()) {
    finding.fix = "see: " + std::string(trimmed(report.source_line));
  }
  return finding;
}

Finding config_finding(const Config& config, bool all) {
  TextTable table({"", "", ""});
  const Json json = config.to_json();
  int64_t defaults = 0, given = 0;
  for (const auto& [path, origin] : json.at("origins").as_object()) {
    const bool is_default = origin.as_string() == "default";
    ++(is_default ? defaults : given);
    const Json* value = config.find(path);
    if ((is_default && !all) || value == nullptr) continue;
    table.add({path, dump_json(*value), origin.as_string()});
  }
  std::string lines = table.text();
  lines.erase(0, lines.find('\n') + 1);  // the header
  while (lines.ends_with('\n')) lines.pop_back();
  return {
      Verdict::kOk, "config",
      fmt::format("{} set, {} at their defaults{}{}", counted(given, "value"), count_text(defaults),
                  all ? "" : " (--all shows them)", lines.empty() ? "" : "\n" + lines)};
}

std::vector<Finding> ledger_findings(const Session& session) {
  std::vector<Finding> findings;
  for (const SourceLedger& source : session.data.ledger.sources) {
    findings.push_back(source_finding(source));
  }
  return findings;
}

std::vector<Finding> template_findings(Preview& preview) {
  std::vector<Finding> findings;
  std::string off, held;
  const Json* laws = preview.recipe().context().config.find("laws");
  // A law is checked unless the configuration switches it off.
  for (const std::string& law : law_names()) {
    const Json* chosen = laws == nullptr || !laws->is_object() ? nullptr : laws->find(law);
    const bool disabled = chosen != nullptr && chosen->is_bool() && !chosen->as_bool();
    std::string& list = disabled ? off : held;
    add_item(list, law);
  }
  const LoopPause* pause = preview.pause();
  const bool has_template =
      pause != nullptr &&
      std::any_of(pause->loop->sources.begin(), pause->loop->sources.end(),
                  [](const StepSource& source) { return uses_template(source.data->set.kind()); });
  if (has_template && !held.empty()) {
    findings.push_back({Verdict::kOk, "template", "these laws hold on the data: " + held});
  }
  if (has_template && !off.empty()) {
    findings.push_back({Verdict::kNote, "template", "not checked: " + off,
                        "they are switched off by `laws` in the configuration"});
  }
  for (const std::string& notice : preview.session().notices.lines) {
    constexpr std::string_view kTemplate = "template: ";
    const bool of_template = notice.starts_with(kTemplate);
    const std::string text = notice.substr(of_template ? kTemplate.size() : 0);
    const bool usual = text == "the tokenizer's own";
    findings.push_back({usual ? Verdict::kOk : Verdict::kNote, of_template ? "template" : "notice",
                        usual ? text + " chat template" : text});
  }
  return findings;
}

std::vector<Finding> weight_findings(const LoopPause& pause) {
  const RunModels models = pause.run->models();
  try {
    for (const auto& policy : models.policies) {
      check_weight_files(policy->dir(), read_model_config(policy->dir()));
    }
    for (const auto& frozen : models.frozen)
      check_weight_files(frozen->base_dir(), frozen->config());
  } catch (const Error& error) {
    return {{Verdict::kWrong, "model", error.what()}};
  }
  return {};
}

Finding memory_finding(const LoopPause& pause) {
  if (pause.run->models().optimizers.empty()) {
    return {Verdict::kNote, "memory", "no plan: xrun.run was given no optimizer",
            "xrun.run(cfg, { policy = policy, adamw = adamw }) saves both"};
  }
  try {
    return {Verdict::kOk, "memory", MemoryReport::plan(pause.run->models(), *pause.loop).text()};
  } catch (const Error& error) {
    return {Verdict::kWrong, "memory", error.what(),
            "make the change that it names, or set XRUN_MEMORY_MB if more memory is there"};
  }
}

}  // namespace xrun
