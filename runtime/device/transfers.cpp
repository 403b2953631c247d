#include "runtime/device/transfers.h"

namespace weft {

Transfers find_transfers(const Graph& graph, const State& state, std::byte* device_state, Device& device,
                         std::map<std::string, PinnedCopies>& pinned) {
  std::vector<bool> touched(graph.tensors().size()), written(graph.tensors().size());
  for (const Task& task : graph.tasks()) {
    for (const Access& access : task.accesses) {
      touched[access.view.tensor.index()] = true;
      if (access.mode != AccessMode::read) written[access.view.tensor.index()] = true;
    }
  }
  Transfers found;
  for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
    const Tensor& tensor = graph.tensors()[t];
    if (!touched[t] || (tensor.role != Role::scalar && tensor.role != Role::input)) continue;
    PinnedCopies& copies = pinned[tensor.name];
    for (std::byte*& copy : copies) {
      if (copy == nullptr) copy = device.allocate_pinned(tensor.bytes());
    }
    const Transfer transfer{state.data(tensor.name), copies, device_state + state.offset(tensor.name), tensor.bytes()};
    found.uploads.push_back(transfer);
    if (written[t]) found.downloads.push_back(transfer);
  }
  return found;
}

}  // namespace weft
