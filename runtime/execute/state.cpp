#include "runtime/execute/state.h"

#include <fmt/format.h>

#include <stdexcept>

namespace weft::execute {

State::State(std::span<const std::shared_ptr<const graph::Graph>> graphs) {
  constexpr std::int64_t kAlignment = 128;  // two cache lines: no tensor shares a prefetched pair with another
  std::int64_t end = 0;
  for (const auto& graph : graphs) {
    for (const graph::Tensor& tensor : graph->tensors()) {
      if (!graph::is_state(tensor.role)) continue;
      const auto [found, fresh] = entries_.try_emplace(tensor.name, Entry{tensor, end});
      if (fresh) {
        end += (tensor.bytes() + kAlignment - 1) / kAlignment * kAlignment;
      } else if (found->second.tensor.dtype != tensor.dtype || found->second.tensor.shape != tensor.shape ||
                 found->second.tensor.role != tensor.role) {
        throw std::logic_error(fmt::format("two graphs disagree about the state tensor '{}'", tensor.name));
      }
    }
  }
  buffer_ = Buffer(end);
}

const State::Entry& State::entry(std::string_view name) const {
  const auto found = entries_.find(std::string(name));
  if (found == entries_.end()) throw std::logic_error(fmt::format("no state tensor '{}'", name));
  return found->second;
}

void State::check_type(const Entry& entry, DType asked) {
  if (entry.tensor.dtype != asked) {
    throw std::logic_error(fmt::format("state tensor '{}' holds {}, not {}", entry.tensor.name,
                                       to_string(entry.tensor.dtype), to_string(asked)));
  }
}

std::int64_t State::bytes_of(graph::Role role) const {
  std::int64_t sum = 0;
  for (const auto& [name, entry] : entries_) sum += entry.tensor.role == role ? entry.tensor.bytes() : 0;
  return sum;
}

}  // namespace weft::execute
