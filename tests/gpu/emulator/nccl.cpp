// The functions of NCCL that Weft calls, between the emulated GPUs of one process. A collective moves its bytes once it
// is at the head of a stream on every rank, and first in the launch order of each rank's GPU. Ranks that disagree on
// the order of collectives therefore wait forever, as with NCCL.
#include <cuda_bf16.h>
#include <fmt/format.h>
#include <nccl.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/gpu/emulator/gpu.h"

namespace weft::emulator {
namespace {

struct Call {
  enum class Kind : std::uint8_t { all_reduce, reduce_scatter, all_gather, broadcast, message } kind;
  const std::byte* in;  // null at a message's receiver
  std::byte* out;       // null at its sender
  std::size_t count;
  ncclDataType_t type;
  int root = 0;

  bool matches(const Call& other) const {
    return kind == other.kind && count == other.count && type == other.type && root == other.root;
  }
};

// The collective at the head of a rank's stream.
struct Arrival {
  bool here = false, over = false, aborted = false;
  Call call{};
};

// Ranks that share a communicator.
struct Group {
  int expected = 0;
  std::vector<Arrival> arrivals;
  int present = 0;  // number of ranks that made their communicator
  struct Split {
    std::vector<std::pair<int, ncclComm_t*>> calls;  // a rank's color, and the address for its child
    std::vector<ncclComm_t> parents;
  } split;

  bool complete() const { return present == expected; }
};

std::map<std::string, std::shared_ptr<Group>>& groups_by_id() {
  static std::map<std::string, std::shared_ptr<Group>> all;
  return all;
}

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat32:
    case ncclInt32:
      return 4;
    case ncclBfloat16:
      return 2;
    case ncclInt64:
      return 8;
    default:
      throw std::logic_error("a type that the emulated NCCL doesn't know");
  }
}

// The sum of element `at` over all ranks in the ring's order, which begins after the rank that gets it.
template <class T>
void add(const std::vector<Arrival>& ranks, std::size_t at, std::size_t first, std::byte* to) {
  T sum{};
  for (std::size_t i = 1; i <= ranks.size(); ++i) {
    T term;
    std::memcpy(&term, ranks[(first + i) % ranks.size()].call.in + at * sizeof(T), sizeof(T));
    if constexpr (std::is_same_v<T, __nv_bfloat16>) {
      sum = i == 1 ? term : __float2bfloat16_rn(__bfloat162float(sum) + __bfloat162float(term));
    } else {
      sum = i == 1 ? term : static_cast<T>(sum + term);
    }
  }
  std::memcpy(to, &sum, sizeof(T));
}

void add(ncclDataType_t type, const std::vector<Arrival>& ranks, std::size_t at, std::size_t first, std::byte* to) {
  switch (type) {
    case ncclFloat32:
      return add<float>(ranks, at, first, to);
    case ncclBfloat16:
      return add<__nv_bfloat16>(ranks, at, first, to);
    case ncclInt32:
      return add<std::int32_t>(ranks, at, first, to);
    default:
      return add<std::int64_t>(ranks, at, first, to);
  }
}

// Reads from copies, since outputs may be inputs.
void move_bytes(std::vector<Arrival>& ranks) {
  const Call& first = ranks.front().call;
  for (const Arrival& rank : ranks) {
    if (!rank.call.matches(first)) throw std::logic_error("NCCL: ranks met with different collectives");
  }
  const std::size_t element = size_of(first.type), bytes = first.count * element, n = ranks.size();
  std::vector<std::vector<std::byte>> out(n);
  for (std::size_t r = 0; r < n; ++r) {
    switch (first.kind) {
      case Call::Kind::all_reduce:
        out[r].resize(bytes);
        // One chunk for each rank, summed around the ring.
        for (std::size_t i = 0; i < first.count; ++i) {
          add(first.type, ranks, i, i * n / first.count, out[r].data() + i * element);
        }
        break;
      case Call::Kind::reduce_scatter:
        out[r].resize(bytes);
        for (std::size_t i = 0; i < first.count; ++i) {
          add(first.type, ranks, r * first.count + i, r, out[r].data() + i * element);
        }
        break;
      case Call::Kind::all_gather:
        for (const Arrival& from : ranks) out[r].insert(out[r].end(), from.call.in, from.call.in + bytes);
        break;
      case Call::Kind::broadcast: {
        const std::byte* const from = ranks[static_cast<std::size_t>(first.root)].call.in;
        out[r].assign(from, from + bytes);
        break;
      }
      case Call::Kind::message: {
        const std::byte* const from = ranks[static_cast<std::size_t>(first.root)].call.in;
        if (ranks[r].call.out != nullptr) out[r].assign(from, from + bytes);
      }
    }
  }
  for (std::size_t r = 0; r < n; ++r) std::copy(out[r].begin(), out[r].end(), ranks[r].call.out);
}

}  // namespace
}  // namespace weft::emulator

struct ncclComm {
  std::shared_ptr<weft::emulator::Group> group;
  int rank = 0;
  int device = 0;
};

namespace weft::emulator {
namespace {

// When all ranks of a parent have passed their colors, each that has one gets its child.
void end_split(Group& parent) {
  auto& [calls, parents] = parent.split;
  std::map<int, std::shared_ptr<Group>> groups;
  for (const auto& [color, child] : calls) {
    if (color == NCCL_SPLIT_NOCOLOR) continue;
    auto& group = groups[color];
    if (group == nullptr) group = std::make_shared<Group>();
    ++group->expected;
  }
  for (std::size_t rank = 0; rank < calls.size(); ++rank) {
    if (calls[rank].first == NCCL_SPLIT_NOCOLOR) continue;
    auto& group = groups[calls[rank].first];
    group->arrivals.resize(static_cast<std::size_t>(group->expected));
    *calls[rank].second = new ncclComm{group, group->present++, parents[rank]->device};
  }
  parent.split = {};
}

// The communicators that a thread aborts in one group. ncclCommAbort() itself ends collectives; the group's end frees
// memory.
struct AbortGroup {
  int depth = 0;
  std::vector<ncclComm_t> aborted;
};
thread_local AbortGroup abort_group;

// Freeing a communicator's memory waits for all work on its device (cudaFree). Work that remains after everything
// runnable has run waits for communicators that the calling thread hasn't aborted. If a peer is lost, it would wait
// forever.
ncclResult_t reclaim(const std::vector<ncclComm_t>& communicators) {
  while (run_one()) {
  }
  ncclResult_t result = state() == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
  for (const ncclComm_t communicator : communicators) {
    if (result == ncclSuccess && !idle_device(communicator->device)) {
      fail(cudaErrorLaunchTimeout, "ncclCommAbort waits for a device that waits for a communicator not aborted yet");
      result = ncclUnhandledCudaError;
    }
    delete communicator;
  }
  return result;
}

// The place of a call in its device's launch order. With NCCL_LAUNCH_ORDER_IMPLICIT and a driver before CUDA 12.3, the
// calls of all communicators run in the order in which the host made them, one by one. A graph orders its calls by its
// edges alone.
struct Turn {
  bool over = false;
};

// By device.
std::deque<std::weak_ptr<Turn>>& launch_order(int device) {
  static std::map<int, std::deque<std::weak_ptr<Turn>>> orders;
  return orders[device];
}

// Whether all calls before it are over or were dropped.
bool comes_next(int device, const std::shared_ptr<Turn>& turn) {
  std::deque<std::weak_ptr<Turn>>& order = launch_order(device);
  const auto is_gone = [](const std::weak_ptr<Turn>& each) {
    const std::shared_ptr<Turn> held = each.lock();
    return held == nullptr || held->over;
  };
  while (!order.empty() && is_gone(order.front())) order.pop_front();
  return !order.empty() && order.front().lock() == turn;
}

ncclResult_t enqueue(const Call& call, ncclComm_t communicator, cudaStream_t stream) {
  const std::lock_guard lock(mutex());
  const std::shared_ptr<Group> group = communicator->group;
  if (!group->complete()) return ncclInvalidUsage;
  const auto rank = static_cast<std::size_t>(communicator->rank);
  std::shared_ptr<Turn> turn;  // null in a capture
  if (!thread_captures()) {
    turn = std::make_shared<Turn>();
    launch_order(communicator->device).push_back(turn);
  }
  const auto arrive = [=, device = communicator->device] {
    Arrival& mine = group->arrivals[rank];
    if (turn != nullptr && !mine.aborted && !comes_next(device, turn)) return false;
    if (!std::exchange(mine.here, true)) mine.call = call, mine.over = false;
    if (std::ranges::all_of(group->arrivals,
                            [](const Arrival& each) { return each.here && !each.over && !each.aborted; })) {
      move_bytes(group->arrivals);
      for (Arrival& each : group->arrivals) each.over = true;
    }
    return mine.over || mine.aborted;
  };
  const auto leave = [=] {
    group->arrivals[rank].here = group->arrivals[rank].over = false;
    if (turn != nullptr) turn->over = true;
  };
  constexpr const char* kNames[] = {"an all-reduce", "a reduce-scatter", "an all-gather", "a broadcast", "a message"};
  const cudaError_t error = enqueue_when(
      stream, fmt::format("{} of rank {} of {}", kNames[static_cast<std::size_t>(call.kind)], rank, group->expected),
      arrive, leave);
  return error == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

}  // namespace
}  // namespace weft::emulator

using namespace weft::emulator;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  static thread_local std::string text;
  text = fmt::format("result {} of the emulated NCCL", static_cast<int>(result));
  return text.c_str();
}
const char* ncclGetLastError(ncclComm_t /*communicator*/) {
  return "";
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static int count = 0;
  const std::lock_guard lock(mutex());
  *id = {};
  fmt::format_to_n(id->internal, sizeof id->internal - 1, "{}", ++count);
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (config == nullptr || config->blocking != 0) return ncclInvalidArgument;
  const std::lock_guard lock(mutex());
  auto& group = groups_by_id()[id.internal];
  if (group == nullptr) {
    group = std::make_shared<Group>();
    group->expected = ranks;
    group->arrivals.resize(static_cast<std::size_t>(ranks));
  }
  ++group->present;
  *communicator = new ncclComm{group, rank, current_device()};
  return group->complete() ? ncclSuccess : ncclInProgress;
}
ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t* child, ncclConfig_t* /*config*/) {
  const std::lock_guard lock(mutex());
  if (key != parent->rank) return ncclInvalidArgument;  // children are ordered like their parent's ranks
  *child = nullptr;
  Group& group = *parent->group;
  auto& [calls, parents] = group.split;
  calls.resize(static_cast<std::size_t>(group.expected));
  parents.resize(calls.size());
  calls[static_cast<std::size_t>(parent->rank)] = {color, child};
  parents[static_cast<std::size_t>(parent->rank)] = parent;
  if (std::ranges::find(parents, nullptr) == parents.end()) end_split(group);
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* state) {
  const std::lock_guard lock(mutex());
  const Group& group = *communicator->group;
  const bool splits =
      !group.split.parents.empty() && group.split.parents[static_cast<std::size_t>(communicator->rank)] == communicator;
  *state = group.complete() && !splits ? ncclSuccess : ncclInProgress;
  return ncclSuccess;
}
ncclResult_t ncclCommCount(ncclComm_t communicator, int* count) {
  const std::lock_guard lock(mutex());
  *count = communicator->group->expected;
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t /*communicator*/) {
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  delete communicator;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  const std::lock_guard lock(mutex());
  communicator->group->arrivals[static_cast<std::size_t>(communicator->rank)].aborted = true;
  if (abort_group.depth == 0) return reclaim({communicator});
  abort_group.aborted.push_back(communicator);
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++abort_group.depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (abort_group.depth == 0) return ncclInvalidUsage;
  if (--abort_group.depth > 0) return ncclSuccess;
  const std::lock_guard lock(mutex());
  return reclaim(std::exchange(abort_group.aborted, {}));
}

ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t communicator, cudaStream_t stream) {
  if (operation != ncclSum) return ncclInvalidArgument;
  return enqueue(
      Call{Call::Kind::all_reduce, static_cast<const std::byte*>(in), static_cast<std::byte*>(out), count, type},
      communicator, stream);
}
ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t operation,
                               ncclComm_t communicator, cudaStream_t stream) {
  if (operation != ncclSum) return ncclInvalidArgument;
  return enqueue(
      Call{Call::Kind::reduce_scatter, static_cast<const std::byte*>(in), static_cast<std::byte*>(out), count, type},
      communicator, stream);
}
ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclComm_t communicator,
                           cudaStream_t stream) {
  return enqueue(
      Call{Call::Kind::all_gather, static_cast<const std::byte*>(in), static_cast<std::byte*>(out), count, type},
      communicator, stream);
}
// Weft sends in communicators of two ranks alone, where a message has both ranks as its members.
ncclResult_t ncclSend(const void* in, std::size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  if (communicator->group->expected != 2 || peer != 1 - communicator->rank) return ncclInvalidArgument;
  return enqueue(Call{Call::Kind::message, static_cast<const std::byte*>(in), nullptr, count, type, 1 - peer},
                 communicator, stream);
}
ncclResult_t ncclRecv(void* out, std::size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  if (communicator->group->expected != 2 || peer != 1 - communicator->rank) return ncclInvalidArgument;
  return enqueue(Call{Call::Kind::message, nullptr, static_cast<std::byte*>(out), count, type, peer}, communicator,
                 stream);
}
ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t communicator, cudaStream_t stream) {
  return enqueue(
      Call{Call::Kind::broadcast, static_cast<const std::byte*>(in), static_cast<std::byte*>(out), count, type, root},
      communicator, stream);
}

}  // extern "C"
