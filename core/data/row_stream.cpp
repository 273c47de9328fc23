#include "core/data/row_stream.h"

#include <algorithm>

#include "core/data/shuffle.h"

namespace xrun {

RowStream::RowStream(std::vector<Source> sources, MixtureStop stop, uint64_t seed, bool shuffle,
                     int64_t epochs)
    : sources_(std::move(sources)), seed_(seed), shuffle_(shuffle) {
  std::vector<int32_t> live;
  std::vector<double> weights;
  for (size_t s = 0; s < sources_.size(); ++s) {
    const bool drawn = sources_[s].rows > 0 && sources_[s].weight != 0;
    weights.push_back(drawn ? sources_[s].weight : 0);
    if (drawn) live.push_back(static_cast<int32_t>(s));
  }
  if (live.empty()) {
    length_ = 0;
  } else if (live.size() == 1) {
    only_ = live[0];
    if (epochs > 0) length_ = sources_[static_cast<size_t>(only_)].rows * epochs;
  } else {
    mixture_.emplace(weights, seed, shuffle);
    if (epochs == 0 || stop == MixtureStop::kRestart) return;
    for (const int32_t s : live) {
      const int64_t end = mixture_->length_for(s, sources_[static_cast<size_t>(s)].rows * epochs);
      if (!length_) length_ = end;
      length_ = stop == MixtureStop::kFirst ? std::min(*length_, end) : std::max(*length_, end);
    }
  }
}

RowStream::Place RowStream::at(int64_t index) const {
  const Mixture::Draw draw = mixture_ ? (*mixture_)(index) : Mixture::Draw{only_, index};
  const uint64_t rows = static_cast<uint64_t>(sources_[static_cast<size_t>(draw.source)].rows);
  const uint64_t epoch = static_cast<uint64_t>(draw.draw) / rows;
  const uint64_t place = static_cast<uint64_t>(draw.draw) % rows;
  if (!shuffle_) return {draw.source, static_cast<int64_t>(place)};
  const Shuffle order(rows, seed_, epoch, shuffle_of_rows(draw.source));
  return {draw.source, static_cast<int64_t>(order(place))};
}

}  // namespace xrun
