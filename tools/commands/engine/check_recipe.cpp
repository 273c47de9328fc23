// Findings: each check of `xrun check` as text with its location and fix.

#include "tools/commands/engine/check_recipe.h"

#include <algorithm>
#include <cctype>

#include "core/base/error.h"
#include "core/base/strings.h"
#include "core/config/config.h"
#include "core/console/inspect/inspected_pack.h"
#include "core/console/terminal/progress.h"
#include "core/console/terminal/table.h"
#include "core/data/rows/row_encoder.h"
#include "core/model/flops.h"
#include "core/model/weights/hf_config.h"
#include "core/prefix/folded_pack.h"
#include "core/prefix/shared_prefix.h"
#include "core/text/chat/template_laws.h"
#include "core/train/held_prefix.h"
#include "core/train/policy.h"
#include "lua/bind/run_loop.h"
#include "lua/prompt/inspect_loop.h"
#include "lua/prompt/preview.h"

namespace xrun {

namespace {

constexpr size_t kListed = 3;          // bad rows of a source, causes of unshared prefixes
constexpr int64_t kCheckedUnits = 64;  // of a step, whose rows are read for shared prefixes

// Splits "dpo.lua:12: text" into location and text; a message without a location is unchanged.
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

// A row that is too long for a micro-batch is an error that names it.
std::optional<Finding> fit_finding(const StepLoop& loop) {
  for (const StepSource& source : loop.sources) {
    try {
      source.data->set.check_fits(pack_limits(loop.max_tokens, loop.fold));
    } catch (const Interrupted&) {
      throw;  // an Error too, but not a finding
    } catch (const Error& error) {
      Finding finding{Verdict::kWrong, "batch", error.what()};
      split_location(finding);
      return finding;
    }
  }
  return std::nullopt;
}

// Tokens that a step saves by computing prefixes once for several of its packs.
int64_t held_tokens(const std::vector<PackedBatch>& packs, const FoldSettings& fold,
                    const Policy& policy) {
  const PolicyOptions& options = policy.options();
  const AdapterOptions* const lora = options.lora ? &*options.lora : nullptr;
  if (!HeldPrefix::obstacle(read_model_config(policy.dir()), lora, options.device).empty())
    return 0;
  std::vector<const PackedBatch*> all;
  for (const PackedBatch& pack : packs) all.push_back(&pack);
  int64_t saved = 0;
  for (const SharedPrefix& prefix : shared_prefixes(all, fold)) {
    if (prefix.has_one_class(fold)) saved += prefix.separate - prefix.together;
  }
  return saved;
}

// The share of a step's model FLOPs that is left after folding, forward and backward; 1 without it.
double flops_left(const std::vector<PackedBatch>& packs, const FoldSettings& fold,
                  const Policy& policy) {
  const ModelConfig config = read_model_config(policy.dir());
  double whole = 0, left = 0;
  for (const PackedBatch& pack : packs) {
    const double one =
        pack_flops(config, pack.cu_seqlens).forward() + head_flops(config, pack.rows.size());
    const auto tree = fold_where_it_pays(pack, fold);
    whole += one;
    left += tree ? pack_flops(config, tree->node_begin, tree->parent).forward() +
                       head_flops(config, std::ssize(tree->edge_target))
                 : one;
  }
  return whole > 0 ? left / whole : 1;
}

// "; folds 1.8x: 2,304 tokens computed as 1,280, 57 % of the FLOPs"; "" if nothing is folded.
std::string fold_text(const StepLoop& loop, size_t which, int64_t step, int64_t tokens,
                      int64_t in_packs) {
  const Policy& policy = *loop.sources[which].data->policy;
  const std::vector<PackedBatch> packs = loop.packs(step, which);
  // Folding saves tokens within a pack, a held prefix saves them across packs.
  const int64_t held = held_tokens(packs, loop.fold, policy), computed = in_packs - held;
  if (computed >= tokens) return "";
  std::string text = fmt::format("; folds {:.1f}x: {} tokens computed as {}",
                                 static_cast<double>(tokens) / static_cast<double>(computed),
                                 count_text(tokens), count_text(computed));
  // The backward of a held prefix repeats its forward, which this count does not know.
  if (held == 0) {
    text += fmt::format(", {:.0f} % of the FLOPs", 100 * flops_left(packs, loop.fold, policy));
  }
  return text;
}

// "; 8 answers of up to 128 tokens to each fold at least 3.1x" of a step over prompts; "" if none
// does. An answer that is shorter leaves more to share.
std::string answers_text(const StepLoop& loop, const StepSource& source, int64_t step) {
  if (!source.answers || !loop.fold.folds() || source.answers->samples < 2) return "";
  const int64_t samples = source.answers->samples, longest = source.answers->max_tokens;
  int64_t tokens = 0, computed = 0;
  for (const int64_t unit : source.data->set.step_units(source.plan, step)) {
    const int64_t prompt = std::ssize(source.data->set.prompt_ids(unit));
    tokens += samples * (prompt + longest);
    computed += (prompt < loop.fold.min_run ? samples : 1) * prompt + samples * longest;
  }
  if (computed == tokens) return "";
  return fmt::format("; {} of up to {} to each fold at least {:.1f}x", counted(samples, "answer"),
                     counted(longest, "token"),
                     static_cast<double>(tokens) / static_cast<double>(computed));
}

Finding packs_finding(const LoopPause& pause, size_t which, const InspectedStep& packs) {
  const StepLoop& loop = *pause.loop;
  const StepSource& source = loop.sources[which];
  const int64_t room = loop.max_tokens * packs.pack_count;
  Finding finding{
      Verdict::kOk, "steps",
      fmt::format(
          "{} of {} from {}; step {}: {} in {}, {:.0f} % full, {} trained",
          counted(loop.steps, "step"), counted(source.plan.units, source.data->set.unit_name()),
          count_text(source.data->set.size()), pause.step, counted(packs.tokens, "token"),
          counted(packs.pack_count, "micro-batch", "es"),
          room == 0 ? 0.0 : 100.0 * static_cast<double>(packs.computed) / static_cast<double>(room),
          count_text(packs.targets))};
  finding.text += source.data->set.kind() == RowKind::kPrompts
                      ? answers_text(loop, source, pause.step)
                      : fold_text(loop, which, pause.step, packs.tokens, packs.computed);
  const auto unfolded =
      std::find_if(packs.packs.begin(), packs.packs.end(),
                   [](const InspectedPack& one) { return !one.unfolded.empty(); });
  if (!loop.fold.folds() && unfolded != packs.packs.end()) {
    finding.text +=
        fmt::format("; micro-batch {} is not folded: {}", unfolded->index, unfolded->unfolded);
  }
  const DataSet& set = source.data->set;
  if (set.kind() == RowKind::kFeedback) {
    int64_t good = 0;
    for (int64_t i = 0; i < set.size(); ++i) good += set.label(set.unit(i)) != 0 ? 1 : 0;
    finding.text +=
        fmt::format("; {} good, {} bad", count_text(good), count_text(set.size() - good));
    if (good == 0 || good == set.size()) {
      finding.verdict = Verdict::kNote;
      finding.fix = "KTO learns from good and bad answers: check the labels of the data";
    }
  }
  const auto rows = static_cast<double>(set.size());
  const double repeats = static_cast<double>(source.plan.units) / rows;
  // Without a number of epochs: the passes that the loop's steps make.
  const double epochs = source.plan.epochs > 0 ? static_cast<double>(source.plan.epochs)
                                               : static_cast<double>(loop.steps) * repeats;
  const std::string passes = format_epochs(epochs);
  finding.text += fmt::format("; {} epoch{}", passes, passes == "1" ? "" : "s");
  if (repeats > 1 && epochs > 1) {
    finding.verdict = Verdict::kNote;
    finding.text += fmt::format("; each step holds every row {:.3g} times", repeats);
    finding.fix = source.lower_batch_text();
  }
  return finding;
}

// Why rows that look alike do not share their prefixes; nullopt if they share, or if none do.
std::optional<Finding> prefix_finding(const InspectedStep& step) {
  const std::vector<BreakGroup> groups = break_groups(step.packs);
  if (groups.empty()) return std::nullopt;
  // Short prefixes are not a fault of the data.
  const bool short_only = groups.size() == 1 && groups[0].example->cause == BreakCause::kShort;
  Finding finding{short_only ? Verdict::kOk : Verdict::kNote, "prefixes", ""};
  for (size_t g = 0; g < std::min(groups.size(), kListed); ++g) {
    finding.text += (g == 0 ? "" : "\n") + groups[g].text();
  }
  switch (groups[0].example->cause) {
    case BreakCause::kTemplate:
      finding.fix = "a template that renders a message alike whatever follows it lets them share";
      break;
    case BreakCause::kMerged: finding.fix = "remove the blanks at the end of the prompts"; break;
    case BreakCause::kText:
      finding.fix = "make these texts equal, or move what differs behind what is equal";
      break;
    case BreakCause::kFrequencies: break;
    case BreakCause::kShort: finding.fix = "a smaller batch.fold_min folds them"; break;
  }
  return finding;
}

}  // namespace

Finding error_finding(const std::string& subject, const ErrorReport& report) {
  if (report.data) {
    Finding finding{Verdict::kWrong, "data", report.message};
    split_location(finding);
    return finding;
  }
  Finding finding{Verdict::kWrong, subject, report.message, report.hint, report.position()};
  if (!report.operation.empty()) finding.text = report.operation + ": " + finding.text;
  if (finding.location.empty()) split_location(finding);
  for (const std::string& value : report.values) finding.text += "\n" + value;
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

std::vector<Finding> loop_findings(const LoopPause& pause) {
  if (const auto finding = fit_finding(*pause.loop)) return {*finding};
  std::vector<Finding> findings;
  const std::vector<InspectedStep> steps = inspect_loop(pause, "", pause.step, kCheckedUnits);
  for (size_t i = 0; i < steps.size(); ++i) {
    findings.push_back(packs_finding(pause, i, steps[i]));
    if (auto prefixes = prefix_finding(steps[i])) findings.push_back(*std::move(prefixes));
  }
  return findings;
}

Finding memory_finding(const LoopPause& pause) {
  if (pause.run->models().optimizers.empty()) {
    return {Verdict::kNote, "memory", "no plan: xrun.run was given no optimizer",
            "xrun.run(cfg, { policy = policy, adamw = adamw }) saves both"};
  }
  try {
    return {Verdict::kOk, "memory", MemoryReport::plan(pause.run->models(), *pause.loop).text()};
  } catch (const Interrupted&) {
    throw;  // an Error too, but not a finding
  } catch (const Error& error) {
    return {Verdict::kWrong, "memory", error.what(),
            "make the change that it names, or set XRUN_MEMORY_MB if more memory is there"};
  }
}

}  // namespace xrun
