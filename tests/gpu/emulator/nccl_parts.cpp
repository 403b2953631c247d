#include "tests/gpu/emulator/nccl_parts.h"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <string_view>
#include <vector>

#include "tests/gpu/emulator/failures.h"
#include "tests/gpu/emulator/gpu.h"

namespace weft::emulator {
namespace {

struct KnownBuffer {
  ncclComm_t communicator;
  const std::byte* begin;
  std::size_t bytes;

  bool has(const void* at) const { return at >= begin && at < begin + bytes; }
};

// Guarded by mutex().
struct Buffers {
  std::vector<KnownBuffer> known;
  BufferCalls calls;
};
Buffers& buffers() {
  static Buffers all;
  return all;
}

// By device.
std::deque<std::weak_ptr<Turn>>& launch_order(int device) {
  static std::map<int, std::deque<std::weak_ptr<Turn>>> orders;
  return orders[device];
}

}  // namespace

bool is_valid(const ncclConfig_t* config) {
  if (config == nullptr || (config->blocking != 0 && config->blocking != 1)) return false;
  const bool chosen = config->minCTAs != NCCL_CONFIG_UNDEF_INT || config->maxCTAs != NCCL_CONFIG_UNDEF_INT;
  return !chosen || (config->minCTAs > 0 && config->minCTAs <= config->maxCTAs);
}

std::size_t cuts_of(const ncclConfig_t& config) {
  const char* const protocol = std::getenv("NCCL_PROTO");
  const std::string_view name = protocol == nullptr ? "" : protocol;
  const std::size_t of_protocol = name == "Simple" ? 1 : name == "LL" ? 3 : 2;
  return of_protocol + (config.minCTAs == NCCL_CONFIG_UNDEF_INT ? 0 : 3 * static_cast<std::size_t>(config.minCTAs));
}

void note_buffers(ncclComm_t communicator, const void* in, const void* out) {
  const std::lock_guard lock(mutex());
  const auto is_known = [&](const void* at) {
    return std::ranges::any_of(
        buffers().known, [&](const KnownBuffer& each) { return each.communicator == communicator && each.has(at); });
  };
  if (std::ranges::find(buffers().known, communicator, &KnownBuffer::communicator) == buffers().known.end()) return;
  for (const void* const at : {in, out}) {
    if (at != nullptr) ++(is_known(at) ? buffers().calls.known : buffers().calls.unknown);
  }
}

void forget_buffers_of(ncclComm_t communicator) {
  const std::lock_guard lock(mutex());
  std::erase_if(buffers().known, [&](const KnownBuffer& each) { return each.communicator == communicator; });
}

BufferCalls buffer_calls() {
  const std::lock_guard lock(mutex());
  return buffers().calls;
}

std::shared_ptr<Turn> take_turn(int device) {
  auto turn = std::make_shared<Turn>();
  launch_order(device).push_back(turn);
  return turn;
}

bool comes_next(int device, const std::shared_ptr<Turn>& turn) {
  std::deque<std::weak_ptr<Turn>>& order = launch_order(device);
  const auto is_gone = [](const std::weak_ptr<Turn>& each) {
    const std::shared_ptr<Turn> held = each.lock();
    return held == nullptr || held->over;
  };
  while (!order.empty() && is_gone(order.front())) order.pop_front();
  return !order.empty() && order.front().lock() == turn;
}

}  // namespace weft::emulator

using namespace weft::emulator;

extern "C" {

ncclResult_t ncclMemAlloc(void** memory, std::size_t bytes) {
  return cudaMalloc(memory, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
ncclResult_t ncclMemFree(void* memory) {
  {
    const std::lock_guard lock(mutex());
    const auto holds = [&](const KnownBuffer& each) { return each.has(memory); };
    if (std::ranges::any_of(buffers().known, holds)) {
      misuse(current_device(), "ncclMemFree of memory that a communicator knows");
    }
  }
  return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
ncclResult_t ncclCommRegister(const ncclComm_t communicator, void* begin, std::size_t bytes, void** handle) {
  if (communicator == nullptr) return ncclInvalidArgument;
  if (refusal(__func__) != cudaSuccess) return ncclInternalError;
  const std::lock_guard lock(mutex());
  buffers().known.push_back({communicator, static_cast<const std::byte*>(begin), bytes});
  *handle = begin;
  return ncclSuccess;
}

}  // extern "C"
