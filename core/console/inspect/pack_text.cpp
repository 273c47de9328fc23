// A step as lines of text. Foreign text passed shown_text when the values were made, except names
// of files, which pass it here.

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "core/base/strings.h"
#include "core/console/inspect/inspected_pack.h"
#include "core/console/inspect/token_lines.h"
#include "core/console/terminal/palette.h"
#include "core/console/terminal/shown_text.h"
#include "core/console/terminal/table.h"
#include "core/console/terminal/text_width.h"

namespace xrun {

namespace {

constexpr std::string_view kBetween = " · ";
constexpr std::string_view kSideGap = " │ ";

std::string percent(int64_t part, int64_t whole) {
  // Rounds to whole percent; 0 of 0 is 0%.
  return fmt::format("{}%", whole > 0 ? (100 * part + whole / 2) / whole : 0);
}

class StepWriter {
 public:
  StepWriter(const InspectedStep& step, const PackTextStyle& style) : step_(step), style_(style) {}

  std::string write() {
    head();
    for (const InspectedPack& pack : step_.packs) {
      pack_head(pack);
      for (size_t s = 0; s < pack.segments.size();) s += block(pack, s);
    }
    footer();
    return std::move(out_);
  }

 private:
  // Prints facts with separators between them, on one line or several; later lines are indented and
  // begin with the separator. A fact that is wider than a line is broken at blanks.
  void facts(const std::vector<std::string>& parts, const char* sgr, int indent = 0) {
    // An indent of more than half the width would leave too little for text.
    if (2 * indent > style_.width) indent = 0;
    std::vector<std::string> lines;
    for (const std::string& part : parts) {
      if (part.empty()) continue;
      if (!lines.empty() &&
          text_width(lines.back()) + text_width(kBetween) + text_width(part) <= style_.width) {
        lines.back() += std::string(kBetween) + part;
        continue;
      }
      const std::string mark = lines.empty() ? "" : std::string(kBetween.substr(1));
      for (const std::string& line : broken_lines(mark + part, style_.width - indent)) {
        lines.push_back(std::string(static_cast<size_t>(lines.empty() ? 0 : indent), ' ') + line);
      }
    }
    for (const std::string& line : lines) print(paint(line, sgr));
  }

  std::string paint(std::string_view text, const char* sgr) const {
    if (style_.colors == ColorDepth::kNone || text.empty() || sgr == nullptr) {
      return std::string(text);
    }
    return fmt::format("\x1b[{}m{}\x1b[0m", sgr, text);
  }

  void print(std::string_view line) {
    out_ += line;
    out_ += '\n';
  }

  void head() {
    facts({shown_text(step_.recipe, Blanks::kBreaksMarked),
           step_.steps > 0 ? fmt::format("step {} of {}", step_.step, count_text(step_.steps))
                           : fmt::format("step {}", step_.step),
           shown_text(step_.data, Blanks::kBreaksMarked), counted(step_.units, step_.unit_name),
           step_.units_left_out > 0
               ? fmt::format("{} shown", count_text(step_.units - step_.units_left_out))
               : ""},
          "1");
  }

  static int64_t computed(const InspectedPack& pack) {
    return pack.fold ? pack.fold->tree.token_count() : pack.tokens;
  }

  void pack_head(const InspectedPack& pack) {
    print("");
    const auto segments = static_cast<int64_t>(pack.segments.size()) + pack.left_out;
    facts({fmt::format("pack {}", pack.index),
           pack.fold
               ? fmt::format("{} tokens, {} computed of {}, {} full", count_text(pack.tokens),
                             count_text(computed(pack)), count_text(step_.max_tokens),
                             percent(computed(pack), step_.max_tokens))
               : fmt::format("{} of {} tokens, {} full", count_text(pack.tokens),
                             count_text(step_.max_tokens), percent(pack.tokens, step_.max_tokens)),
           count_text(pack.targets) + " trained", counted(segments, "segment"),
           pack.left_out > 0 ? count_text(pack.left_out) + " not shown" : ""},
          "1");
    if (pack.fold) {
      facts({fmt::format("folded {:.1f}x", pack.fold->tree.ratio())}, nullptr);
      for (const std::string& line : fold_tree_lines(*pack.fold, style_.width)) {
        print(paint(line, "2"));
      }
    }
    if (!pack.unfolded.empty()) facts({"not folded: " + pack.unfolded}, nullptr);
    for (const BreakGroup& group : break_groups({&pack, 1})) facts({"! " + group.text()}, "33", 2);
  }

  // Writes the segment at s, or the pair that begins there; returns the number of segments written.
  size_t block(const InspectedPack& pack, size_t s) {
    const InspectedSegment& segment = pack.segments[s];
    const InspectedSegment* const rejected = rejected_after(pack, s);
    print("");
    block_head(segment);
    if (rejected != nullptr) {
      pair(segment, *rejected);
    } else {
      print_lines(token_lines(segment, 0, segment.tokens.size(),
                              token_line_style({&segment}, style_.width, style_.colors)));
      end_of(segment);
    }
    return rejected != nullptr ? 2 : 1;
  }

  void block_head(const InspectedSegment& segment) {
    const std::string location =
        fmt::format("{}:{}", shown_text(segment.file, Blanks::kBreaksMarked), segment.line);
    // A pair begins with its number, a single row with its location.
    facts({segment.pair >= 0 ? fmt::format("pair {}", segment.pair) : location,
           segment.pair >= 0 ? location : size_text(segment),
           segment.label ? fmt::format("label {}", *segment.label) : "",
           segment.weight == 1 ? "" : fmt::format("weight {:g}", segment.weight)},
          "1;36", 2);
  }

  static std::string size_text(const InspectedSegment& segment) {
    return fmt::format("{}, {} trained", counted(std::ssize(segment.tokens), "token"),
                       count_text(segment.targets()));
  }

  void pair(const InspectedSegment& chosen, const InspectedSegment& rejected) {
    const size_t shared = shared_tokens(chosen, rejected);
    const bool beside = style_.width >= kSideBySideWidth;
    if (shared > 0) {
      print_lines(token_lines(chosen, 0, shared,
                              token_line_style({&chosen, &rejected}, style_.width, style_.colors)));
    }
    if (beside) {
      side_by_side(chosen, rejected, shared);
    } else {
      for (const InspectedSegment* side : {&chosen, &rejected}) {
        side_head(*side, shared);
        // Below 50 columns roles would leave too little for text.
        print_lines(side_lines(*side, shared, style_.width, style_.width >= 50));
      }
    }
    // Below both columns, because a remark may need the whole width.
    end_of(chosen);
    end_of(rejected);
  }

  std::string side_title(const InspectedSegment& side, size_t shared) const {
    std::string title = fmt::format("{}: {}", side_name(side.side), size_text(side));
    if (shared == side.tokens.size()) return title + ", all shared";
    return title + fmt::format(", {} shared", count_text(static_cast<int64_t>(shared)));
  }

  void side_head(const InspectedSegment& side, size_t shared) {
    facts({side_title(side, shared)}, "36");
  }

  std::vector<TextLine> side_lines(const InspectedSegment& side, size_t shared, int width,
                                   bool roles) const {
    TokenLineStyle style = token_line_style({&side}, width, style_.colors);
    if (!roles) style.role_width = 0;
    std::vector<TextLine> lines = token_lines(side, shared, side.tokens.size(), style);
    if (lines.empty()) {
      const std::string nothing = cut_to_width("(nothing more)", width);
      lines.push_back({nothing, text_width(nothing)});
    }
    return lines;
  }

  void side_by_side(const InspectedSegment& chosen, const InspectedSegment& rejected,
                    size_t shared) {
    // An odd column goes to the right side.
    const int left = (style_.width - text_width(kSideGap)) / 2;
    const int right = style_.width - text_width(kSideGap) - left;
    print(paint(pad_to_width(side_title(chosen, shared), left), "36") + std::string(kSideGap) +
          paint(cut_to_width(side_title(rejected, shared), right), "36"));
    // The sides have no column of roles.
    const std::vector<TextLine> a = side_lines(chosen, shared, left, false);
    const std::vector<TextLine> b = side_lines(rejected, shared, right, false);
    for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
      std::string line = i < a.size() ? a[i].text : "";
      // Pads by columns, not bytes: the text has escape codes and wide characters.
      line.append(static_cast<size_t>(left - (i < a.size() ? a[i].columns : 0)), ' ');
      line += i < b.size() ? std::string(kSideGap) + b[i].text : " │";
      print(line);
    }
  }

  // Prints the cut and the remarks below a segment.
  void end_of(const InspectedSegment& segment) {
    // In a pair a remark names its side.
    const std::string side = segment.side == 0 ? "" : std::string(side_name(segment.side)) + ": ";
    if (segment.cut_tokens > 0) {
      facts({fmt::format("✂ {}{} cut off here{}", side, counted(segment.cut_tokens, "token"),
                         segment.cut_text.empty() ? "" : ": " + segment.cut_text)},
            "33");
    }
    for (const std::string& remark : segment.remarks) facts({"! " + side + remark}, "33");
  }

  void print_lines(const std::vector<TextLine>& lines) {
    for (const TextLine& line : lines) print(line.text);
  }

  void footer() {
    print("");
    facts({counted(step_.pack_count, "pack"),
           fmt::format("{} of {} tokens trained ({})", count_text(step_.targets),
                       count_text(step_.tokens), percent(step_.targets, step_.tokens)),
           percent(step_.computed, step_.max_tokens * step_.pack_count) + " full"},
          "1");
    for (const SourceLedger& source : step_.ledger.sources) source_line(source);
    legend();
  }

  void source_line(const SourceLedger& source) {
    std::vector<std::string> parts = {
        fmt::format("{}: {} of {} kept", shown_text(source.name, Blanks::kBreaksMarked),
                    count_text(source.kept), counted(source.rows, "row"))};
    for (const auto& [reason, rows] : source.dropped) {
      parts.push_back(fmt::format("{} dropped: {}", count_text(rows),
                                  shown_text(reason, Blanks::kBreaksMarked)));
    }
    if (source.cut > 0) {
      parts.push_back(
          fmt::format("{} cut by {}", count_text(source.cut), counted(source.cut_tokens, "token")));
    }
    if (source.repaired > 0) parts.push_back(count_text(source.repaired) + " repaired");
    if (source.straddlers > 0) parts.push_back(counted(source.straddlers, "straddler"));
    facts(parts, "2", 2);
  }

  // Prints those steps of the weight scale that occur.
  void legend() {
    std::array<bool, kWeightSteps> seen{};
    bool special = false, own = false;
    for (const InspectedPack& pack : step_.packs) {
      for (const InspectedSegment& segment : pack.segments) {
        for (const InspectedToken& token : segment.tokens) {
          seen[static_cast<size_t>(weight_step(token.weight))] = true;
          special = special || token.special;
          own = own || token.origin == TokenOrigin::kTemplate;
        }
      }
    }
    // Without colours, explains the marks below the tokens.
    const bool plain = style_.colors == ColorDepth::kNone;
    std::vector<std::string> parts;
    for (int i = 0; i < kWeightSteps; ++i) {
      if (!seen[static_cast<size_t>(i)]) continue;
      const WeightStep step = static_cast<WeightStep>(i);
      const WeightColor& color = weight_color(step);
      const std::string name = step == WeightStep::kMasked ? std::string(color.name)
                                                           : fmt::format("weight {}", color.name);
      // Printed in the colour that it explains.
      if (!plain) parts.push_back(paint_weight(name, step, {}, style_.colors));
      if (plain && step != WeightStep::kMasked)
        parts.push_back(fmt::format("|{} {}", color.mark, name));
    }
    if (special) parts.push_back(plain ? "_ special token" : paint("special token", "4"));
    if (own) parts.push_back(plain ? "^ the template's own" : paint("the template's own", "3"));
    facts(parts, nullptr);
  }

  const InspectedStep& step_;
  const PackTextStyle style_;
  std::string out_;
};

}  // namespace

std::string step_text(const InspectedStep& step, const PackTextStyle& style) {
  // A terminal may report a width of 0.
  return StepWriter(step, {style.colors, std::max(1, style.width)}).write();
}

}  // namespace xrun
