// The names that recipes give to the settings of a data set.

#include "core/data/rows/data_settings.h"

#include <iterator>

#include "core/base/error.h"
#include "core/base/strings.h"

namespace xrun {

namespace {

// In the order of the enumerators: the index is the value.
constexpr const char* kOverLength[] = {"raise", "drop", "cut"};
constexpr const char* kTrainOn[] = {"assistant", "last", "all"};
constexpr const char* kStop[] = {"restart", "first", "all"};
constexpr const char* kOrder[] = {"blocks", "round_robin"};

template <typename T, size_t N>
T parse_setting(const char* key, const std::string& name, const char* const (&names)[N]) {
  std::vector<std::string> known(std::begin(names), std::end(names));
  std::string list;
  for (size_t i = 0; i < N; ++i) {
    if (name == names[i]) return static_cast<T>(i);
    list += fmt::format("{}\"{}\"", i == 0 ? "" : i + 1 == N ? " or " : ", ", names[i]);
  }
  const std::string near = nearest_name(name, known);
  throw UsageError(fmt::format("{} is \"{}\", wanted {}{}", key, name, list,
                               near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near)));
}

}  // namespace

OverLength parse_over_length(const std::string& name) {
  return parse_setting<OverLength>("over_length", name, kOverLength);
}

TrainOn parse_train_on(const std::string& name) {
  return parse_setting<TrainOn>("train_on", name, kTrainOn);
}

SplitBy parse_split_by(const std::string& name) {
  return parse_setting<SplitBy>("valid.by", name, {"row", "prompt"});
}

MixtureStop parse_mixture_stop(const std::string& name) {
  return parse_setting<MixtureStop>("mixture.stop", name, kStop);
}

MixtureOrder parse_mixture_order(const std::string& name) {
  return parse_setting<MixtureOrder>("mixture.order", name, kOrder);
}

const char* mixture_stop_name(MixtureStop stop) { return kStop[static_cast<int>(stop)]; }
const char* mixture_order_name(MixtureOrder order) { return kOrder[static_cast<int>(order)]; }

const char* over_length_name(OverLength mode) { return kOverLength[static_cast<int>(mode)]; }
const char* train_on_name(TrainOn mode) { return kTrainOn[static_cast<int>(mode)]; }

}  // namespace xrun
