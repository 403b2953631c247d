#include "runtime/execute/stream_batches.h"

namespace weft::execute {

StreamBatches::StreamBatches(const plan::Plan& plan, plan::StreamId stream) {
  const std::vector<plan::Entry>& entries = plan.streams[stream.index()].entries;
  for (std::uint32_t e = 0; e < entries.size(); ++e) {
    const plan::Entry& entry = entries[e];
    if (batches_.empty() || batches_.back().signals || !entry.waits.empty()) {
      const auto first = static_cast<std::uint32_t>(waits_.size());
      for (const plan::Wait& wait : entry.waits) {
        const auto length = static_cast<std::int64_t>(plan.streams[wait.stream.index()].entries.size());
        waits_.push_back({wait.stream.value, std::int64_t{wait.entry} + 1 - wait.distance * length});
      }
      batches_.push_back({e, e, first, static_cast<std::uint32_t>(waits_.size()), false});
    }
    batches_.back().end = e + 1;
    batches_.back().signals = entry.signals || e + 1 == entries.size();
  }
}

}  // namespace weft::execute
