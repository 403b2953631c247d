#include "runtime/execute/device/transfers.h"

#include <cstring>

namespace weft::execute {
namespace {

void add(TransferBlock& block, std::byte* host, std::byte* device, std::int64_t bytes) {
  block.parts.push_back({host, device, block.bytes, bytes});
  block.bytes += device_aligned(bytes);
}

void allocate(TransferBlock& block, Device& device) {
  if (block.bytes == 0) return;
  for (TransferBlock::Copy& copy : block.copies) {
    copy = {device.allocate_pinned(block.bytes), device.allocate(block.bytes)};
  }
}

}  // namespace

Transfers find_transfers(const graph::Graph& graph, const State& state, std::byte* device_state, Device& device) {
  std::vector<bool> touched(graph.tensors().size()), written(graph.tensors().size());
  for (const graph::Task& task : graph.tasks()) {
    for (const graph::Access& access : task.accesses) {
      touched[access.view.tensor.index()] = true;
      if (access.mode != graph::AccessMode::read) written[access.view.tensor.index()] = true;
    }
  }
  Transfers found;
  for (std::size_t t = 0; t < graph.tensors().size(); ++t) {
    const graph::Tensor& tensor = graph.tensors()[t];
    if (!touched[t] || (tensor.role != graph::Role::scalar && tensor.role != graph::Role::input)) continue;
    std::byte* const host = state.data(tensor.name);
    std::byte* const place = device_state + state.offset(tensor.name);
    add(found.uploads, host, place, tensor.bytes());
    if (written[t]) add(found.downloads, host, place, tensor.bytes());
  }
  allocate(found.uploads, device);
  allocate(found.downloads, device);
  return found;
}

void collect(const TransferBlock& block, std::size_t copy) {
  for (const TransferBlock::Part& part : block.parts) {
    std::memcpy(block.copies[copy].pinned + part.offset, part.host, static_cast<std::size_t>(part.bytes));
  }
}

void deliver(const TransferBlock& block, std::size_t copy) {
  for (const TransferBlock::Part& part : block.parts) {
    std::memcpy(part.host, block.copies[copy].pinned + part.offset, static_cast<std::size_t>(part.bytes));
  }
}

}  // namespace weft::execute
