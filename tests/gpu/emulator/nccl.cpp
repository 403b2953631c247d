// The functions of NCCL that Weft calls, between the emulated GPUs of one process, as non-blocking communicators have
// them: a call answers ncclInProgress, and a thread of its own goes on with it, until the peers have come or the
// communicator is aborted. A collective moves its bytes once it is at the head of a stream on every rank, and first in
// the launch order of each rank's GPU. Ranks that disagree on the order of collectives therefore wait forever, as with
// NCCL.
#include <cuda_bf16.h>
#include <fmt/format.h>
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/gpu/emulator/failures.h"
#include "tests/gpu/emulator/gpu.h"
#include "tests/gpu/emulator/nccl_parts.h"

namespace weft::emulator {
namespace {

// A send or a receive of a group.
struct Message {
  const void* in;  // null at the receiver
  void* out;       // null at the sender
  std::size_t count;
  ncclDataType_t type;
  int peer;
};

struct Collective {
  enum class Kind : std::uint8_t { all_reduce, reduce_scatter, all_gather, broadcast, message, messages, calls } kind;
  const void* in;  // null at a message's receiver
  void* out;       // null at its sender
  std::size_t count;
  ncclDataType_t type;
  int root = 0;
  std::vector<Message> messages = {};  // of a group, whose members are all ranks
  std::vector<Collective> calls = {};  // of a group
  std::size_t cuts = 1;                // of a message, which its communicator's protocol and channels decide

  // The input's bytes from `offset` on.
  const std::byte* from(std::size_t offset = 0) const { return static_cast<const std::byte*>(in) + offset; }
  bool matches(const Collective& other) const {
    return kind == other.kind && count == other.count && type == other.type && root == other.root &&
           cuts == other.cuts && calls.size() == other.calls.size();
  }
};

// The collective at the head of a rank's stream.
struct Arrival {
  bool here = false, over = false, aborted = false;
  Collective call{};
};

// Ranks that share a communicator.
struct Group {
  explicit Group(int ranks) : expected(ranks), arrivals(static_cast<std::size_t>(ranks)) {}

  const int expected;
  std::vector<Arrival> arrivals;
  int present = 0;          // number of ranks that made their communicator
  std::set<int> connected;  // ranks that came to their first collective
  // The colors of each split's ranks, and the group of each color.
  struct Split {
    std::map<int, int> color_of;
    std::map<int, std::shared_ptr<Group>> groups;
  };
  std::map<std::uint64_t, Split> splits;  // by number
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
    std::memcpy(&term, ranks[(first + i) % ranks.size()].call.from(at * sizeof(T)), sizeof(T));
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

// The messages of a group to or from a peer, in their order.
std::vector<Message> messages_of(const Collective& group, std::size_t peer, bool sent) {
  std::vector<Message> found;
  for (const Message& each : group.messages) {
    if (each.peer == static_cast<int>(peer) && (each.out == nullptr) == sent) found.push_back(each);
  }
  return found;
}

// Nobody reads what another one writes.
void move_messages(const std::vector<Arrival>& ranks) {
  for (std::size_t from = 0; from < ranks.size(); ++from) {
    for (std::size_t to = 0; to < ranks.size(); ++to) {
      const std::vector<Message> sent = messages_of(ranks[from].call, to, true);
      const std::vector<Message> taken = messages_of(ranks[to].call, from, false);
      const auto fit = [](const Message& a, const Message& b) { return a.count == b.count && a.type == b.type; };
      if (!std::ranges::equal(sent, taken, fit)) throw std::logic_error("NCCL: sends and receives of a group differ");
      for (std::size_t i = 0; i < sent.size(); ++i) {
        std::memmove(taken[i].out, sent[i].in, sent[i].count * size_of(sent[i].type));
      }
    }
  }
}

void move_bytes(const std::vector<Arrival>& ranks);

// A group has no order, so the last call comes first.
void move_calls(const std::vector<Arrival>& ranks) {
  for (std::size_t i = ranks.front().call.calls.size(); i-- > 0;) {
    std::vector<Arrival> of_call = ranks;
    for (Arrival& rank : of_call) rank.call = Collective(rank.call.calls[i]);
    move_bytes(of_call);
  }
}

// Reads from copies, since outputs may be inputs.
void move_bytes(const std::vector<Arrival>& ranks) {
  const Collective& first = ranks.front().call;
  for (const Arrival& rank : ranks) {
    if (!rank.call.matches(first)) throw std::logic_error("NCCL: ranks met with different collectives");
  }
  if (first.kind == Collective::Kind::messages) return move_messages(ranks);
  if (first.kind == Collective::Kind::calls) return move_calls(ranks);
  const std::size_t element = size_of(first.type), bytes = first.count * element, n = ranks.size();
  std::vector<std::vector<std::byte>> out(n);
  for (std::size_t r = 0; r < n; ++r) {
    switch (first.kind) {
      case Collective::Kind::all_reduce:
      case Collective::Kind::reduce_scatter:
        out[r].resize(bytes);
        for (std::size_t i = 0; i < first.count; ++i) {
          // One chunk for each rank of each cut, summed around the ring.
          const bool scatters = first.kind == Collective::Kind::reduce_scatter;
          const std::size_t at = scatters ? r * first.count + i : i, cut = i * n * first.cuts / first.count % n;
          const std::size_t chunk = scatters ? r : cut;
          add(first.type, ranks, at, chunk, out[r].data() + i * element);
        }
        break;
      case Collective::Kind::all_gather:
        for (const Arrival& of : ranks) out[r].insert(out[r].end(), of.call.from(), of.call.from(bytes));
        break;
      case Collective::Kind::broadcast:
      case Collective::Kind::message:
        if (const Collective& root = ranks[static_cast<std::size_t>(first.root)].call; ranks[r].call.out != nullptr) {
          out[r].assign(root.from(), root.from(bytes));
        }
        break;
      case Collective::Kind::messages:
      case Collective::Kind::calls:
        break;
    }
  }
  for (std::size_t r = 0; r < n; ++r) std::ranges::copy(out[r], static_cast<std::byte*>(ranks[r].call.out));
}

}  // namespace
}  // namespace weft::emulator

struct ncclComm {
  ncclComm(std::shared_ptr<weft::emulator::Group> of, int in_group, int on, const ncclConfig_t& config)
      : group(std::move(of)),
        rank(in_group),
        device(on),
        blocks(config.blocking == 1),
        cuts(weft::emulator::cuts_of(config)) {}
  ~ncclComm() {
    if (thread.joinable()) thread.join();
    weft::emulator::forget_buffers_of(this);
  }
  ncclComm(const ncclComm&) = delete;
  ncclComm& operator=(const ncclComm&) = delete;

  std::shared_ptr<weft::emulator::Group> group;  // of a split's child: null until all ranks have come
  int rank;
  int device;
  const bool blocks;  // its calls
  const std::size_t cuts;
  std::atomic<int> inside = 0;  // threads in its calls that block
  std::uint64_t splits = 0;
  std::atomic<bool> aborted = false;
  std::atomic<ncclResult_t> state = ncclSuccess;
  std::thread thread;  // goes on with the last call
};

namespace weft::emulator {
namespace {

constexpr std::chrono::microseconds kPause{100};

// Ends with ncclInternalError where the communicator is aborted first.
ncclResult_t wait_until(const ncclComm& communicator, const std::function<bool()>& over) {
  for (;; std::this_thread::sleep_for(kPause)) {
    if (communicator.aborted) return ncclInternalError;
    const std::lock_guard lock(mutex());
    if (over()) return ncclSuccess;
  }
}

// A call of a ready communicator: `work` runs on a thread of its own, and its result becomes the communicator's state.
ncclResult_t go_on(const char* name, ncclComm_t communicator, std::function<ncclResult_t()> work) {
  if (communicator->state != ncclSuccess) return ncclInvalidArgument;  // or it isn't ready
  const std::optional<FailureMode> failure = failure_of(name, CallKind::nccl);
  if (failure == FailureMode::once) return ncclSystemError;
  if (failure == FailureMode::sticky) {
    fail(communicator->device, cudaErrorIllegalAddress, std::string("the test made ") + name + " fail");
    return ncclUnhandledCudaError;
  }
  if (communicator->blocks) {
    ++communicator->inside;
    ncclResult_t result = failure == FailureMode::never ? wait_until(*communicator, [] { return false; }) : work();
    if (failure == FailureMode::late && result == ncclSuccess) communicator->state = ncclRemoteError;
    --communicator->inside;
    return result;
  }
  if (communicator->thread.joinable()) communicator->thread.join();
  communicator->state = ncclInProgress;
  communicator->thread = std::thread([communicator, failure, work = std::move(work)] {
    current_device() = communicator->device;
    std::this_thread::sleep_for(kPause);  // the caller sees that the call is in progress
    if (failure == FailureMode::never) wait_until(*communicator, [] { return false; });
    const ncclResult_t result = work();
    communicator->state = failure == FailureMode::late ? ncclRemoteError : result;
  });
  return ncclInProgress;
}

// As NCCL: the address is written when the call is over, also when it failed or was aborted.
void hand_over(ncclComm_t* to, ncclComm_t child, int device) {
  if (std::atomic_ref(*to).exchange(child) != nullptr) {
    misuse(device, "ncclCommSplit wrote its result to memory that had another owner by then");
  }
}

ncclResult_t split(const std::shared_ptr<Group>& parent, std::uint64_t number, int rank, int color,
                   const ncclComm& parent_of, ncclComm_t child) {
  Group::Split* calls = nullptr;
  {
    const std::lock_guard lock(mutex());
    calls = &parent->splits[number];
    calls->color_of[rank] = color;
  }
  const ncclResult_t met =
      wait_until(parent_of, [&] { return calls->color_of.size() == static_cast<std::size_t>(parent->expected); });
  if (met != ncclSuccess || child == nullptr) return met;
  const std::lock_guard lock(mutex());
  std::vector<int> members;
  for (const auto& [each, of] : calls->color_of) {
    if (of == color) members.push_back(each);
  }
  std::shared_ptr<Group>& group = calls->groups[color];
  if (group == nullptr) group = std::make_shared<Group>(static_cast<int>(members.size()));
  ++group->present;
  child->group = group;
  child->rank = static_cast<int>(std::ranges::find(members, rank) - members.begin());
  child->state = ncclSuccess;
  return ncclSuccess;
}

// The communicators that a thread aborts in one group, and its messages or calls, of one communicator and stream.
// ncclCommAbort() itself ends collectives; the group's end frees memory.
struct CallGroup {
  int depth = 0;
  std::vector<ncclComm_t> aborted;
  std::vector<Message> messages;
  std::vector<Collective> calls;
  ncclResult_t error = ncclSuccess;   // of one of them; then the group's end starts none
  ncclComm_t communicator = nullptr;  // of all of them
  cudaStream_t stream = nullptr;
};
thread_local CallGroup call_group;

// Freeing a communicator's memory waits for all work on its device (cudaFree). Work that remains after everything
// runnable has run waits for communicators that the calling thread hasn't aborted. If a peer is lost, it would wait
// forever.
ncclResult_t reclaim(const std::vector<ncclComm_t>& communicators) {
  if (thread_captures()) {
    misuse(current_device(), "ncclCommAbort freed memory while its thread captured");
  }
  while (run_one()) {
  }
  ncclResult_t result = state() == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
  for (const ncclComm_t communicator : communicators) {
    if (result == ncclSuccess && !idle_device(communicator->device)) {
      fail(communicator->device, cudaErrorLaunchTimeout,
           "ncclCommAbort waits for a device that waits for a communicator not aborted yet");
      result = ncclUnhandledCudaError;
    }
    if (communicator->inside > 0) misuse(communicator->device, "a communicator was freed while a call was within it");
    delete communicator;
  }
  return result;
}

ncclResult_t launch(const Collective& call, const std::shared_ptr<Group>& group, int in_group, int device,
                    cudaStream_t stream) {
  const std::lock_guard lock(mutex());
  const auto rank = static_cast<std::size_t>(in_group);
  std::shared_ptr<Turn> turn;  // null in a capture
  if (!captured(stream_of(stream))) {
    turn = take_turn(device);
  }
  const auto arrive = [=] {
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
  constexpr const char* kNames[] = {"an all-reduce", "a reduce-scatter",    "an all-gather",   "a broadcast",
                                    "a message",     "a group of messages", "a group of calls"};
  const cudaError_t error = enqueue_when(
      stream, fmt::format("{} of rank {} of {}", kNames[static_cast<std::size_t>(call.kind)], rank, group->expected),
      arrive, leave);
  return error == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t refused(const char* name) {
  return refusal(name) == cudaSuccess ? ncclSuccess : ncclInternalError;
}

// A group is of one communicator and stream.
bool joins_group(ncclComm_t communicator, cudaStream_t stream) {
  if (call_group.messages.empty() && call_group.calls.empty()) {
    call_group.communicator = communicator, call_group.stream = stream;
  }
  return call_group.communicator == communicator && call_group.stream == stream && communicator->state == ncclSuccess;
}

// A thread of NCCL's launches the kernel. Before a communicator's first one it connects to the peers, and so waits for
// them.
ncclResult_t enqueue(const char* name, Collective call, ncclComm_t communicator, cudaStream_t stream) {
  call.cuts = communicator->cuts;
  note_buffers(communicator, call.in, call.out);
  if (call_group.depth > 0) {
    const ncclResult_t result = joins_group(communicator, stream) ? refused(name) : ncclInvalidArgument;
    if (result != ncclSuccess) return call_group.error = result;
    call_group.calls.push_back(call);
    return ncclSuccess;
  }
  return go_on(name, communicator, [=] {
    const std::shared_ptr<Group> group = communicator->group;
    {
      const std::lock_guard lock(mutex());
      group->connected.insert(communicator->rank);
    }
    const ncclResult_t met =
        wait_until(*communicator, [&] { return group->connected.size() == static_cast<std::size_t>(group->expected); });
    return met != ncclSuccess ? met : launch(call, group, communicator->rank, communicator->device, stream);
  });
}

// In a group, a message joins the others. Weft sends without one in communicators of two ranks alone, where a message
// has both ranks as its members.
ncclResult_t send_or_receive(const char* name, const Message& message, ncclComm_t communicator, cudaStream_t stream) {
  const int ranks = communicator->group->expected, peer = message.peer;
  if (call_group.depth > 0) {
    const bool wrong = peer < 0 || peer >= ranks || !joins_group(communicator, stream);
    const ncclResult_t result = wrong ? ncclInvalidArgument : refused(name);
    if (result != ncclSuccess) return call_group.error = result;
    call_group.messages.push_back(message);
    return ncclSuccess;
  }
  if (ranks != 2 || peer != 1 - communicator->rank) return ncclInvalidArgument;
  const int root = message.out == nullptr ? communicator->rank : peer;
  return enqueue(name, {Collective::Kind::message, message.in, message.out, message.count, message.type, root},
                 communicator, stream);
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
  if (const ncclResult_t result = refused(__func__); result != ncclSuccess) return result;
  static int count = 0;
  const std::lock_guard lock(mutex());
  *id = {};
  fmt::format_to_n(id->internal, sizeof id->internal - 1, "{}", ++count);
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  *communicator = nullptr;
  if (!is_valid(config) || config->blocking != 0) return ncclInvalidArgument;
  std::shared_ptr<Group> group;
  {
    const std::lock_guard lock(mutex());
    auto& known = groups_by_id()[id.internal];
    if (known == nullptr) known = std::make_shared<Group>(ranks);
    group = known;
  }
  auto made = std::make_unique<ncclComm>(group, rank, current_device(), *config);
  const ncclResult_t result = go_on(__func__, made.get(), [group, own = made.get()] {
    {
      const std::lock_guard lock(mutex());
      ++group->present;
    }
    return wait_until(*own, [&] { return group->present == group->expected; });
  });
  if (result == ncclInProgress) *communicator = made.release();
  return result;
}
ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t* child, ncclConfig_t* config) {
  // Children are ordered like their parent's ranks.
  if (key != parent->rank || !is_valid(config)) return ncclInvalidArgument;
  *child = nullptr;
  const std::uint64_t number = parent->splits;
  const ncclResult_t result = go_on(__func__, parent, [=, of_child = *config] {
    const ncclComm_t made = color == NCCL_SPLIT_NOCOLOR ? nullptr : new ncclComm(nullptr, 0, parent->device, of_child);
    if (made != nullptr) made->state = ncclInternalError;
    const ncclResult_t ended = split(parent->group, number, parent->rank, color, *parent, made);
    hand_over(child, made, parent->device);
    return ended;
  });
  if (result != ncclInProgress) return result;
  ++parent->splits;
  return ncclSuccess;  // as NCCL: only the parent's state tells that the split isn't over
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* state) {
  if (communicator == nullptr) return ncclInvalidArgument;
  if (const ncclResult_t result = refused(__func__); result != ncclSuccess) return result;
  *state = communicator->state;
  return ncclSuccess;
}
ncclResult_t ncclCommCount(ncclComm_t communicator, int* count) {
  if (const ncclResult_t result = refused(__func__); result != ncclSuccess) return result;
  *count = communicator->group->expected;
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(ncclComm_t communicator, int* rank) {
  if (const ncclResult_t result = refused(__func__); result != ncclSuccess) return result;
  *rank = communicator->rank;
  return ncclSuccess;
}
ncclResult_t ncclCommFinalize(ncclComm_t communicator) {
  return go_on(__func__, communicator, [] { return ncclSuccess; });
}
ncclResult_t ncclCommDestroy(ncclComm_t communicator) {
  if (const ncclResult_t result = refused(__func__); result != ncclSuccess) return result;
  delete communicator;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  if (communicator == nullptr) return ncclSuccess;
  const std::optional<FailureMode> failure = failure_of(__func__, CallKind::nccl);
  while (failure == FailureMode::never) std::this_thread::sleep_for(kPause);
  if (failure) return ncclSystemError;
  communicator->aborted = true;
  if (communicator->thread.joinable()) communicator->thread.join();
  const std::lock_guard lock(mutex());
  if (communicator->group != nullptr) {
    communicator->group->arrivals[static_cast<std::size_t>(communicator->rank)].aborted = true;
  }
  if (call_group.depth == 0) return reclaim({communicator});
  call_group.aborted.push_back(communicator);
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  if (const ncclResult_t result = refused(__func__); result != ncclSuccess) return result;
  ++call_group.depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (!call_group.messages.empty() || !call_group.calls.empty() || call_group.error != ncclSuccess) {
    if (--call_group.depth > 0) return ncclSuccess;
    const bool of_calls = !call_group.calls.empty();
    if (of_calls && !call_group.messages.empty()) call_group.error = ncclInvalidUsage;  // Weft mixes none
    Collective call{of_calls ? Collective::Kind::calls : Collective::Kind::messages, nullptr, nullptr, 0, ncclInt32};
    call.messages = std::exchange(call_group.messages, {});
    call.calls = std::exchange(call_group.calls, {});
    if (call_group.error != ncclSuccess) return std::exchange(call_group.error, ncclSuccess);
    return enqueue(__func__, call, call_group.communicator, call_group.stream);
  }
  if (const ncclResult_t result = refused(__func__); result != ncclSuccess) return result;
  if (call_group.depth == 0) return ncclInvalidUsage;
  if (--call_group.depth > 0) return ncclSuccess;
  const std::lock_guard lock(mutex());
  return reclaim(std::exchange(call_group.aborted, {}));
}

ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t communicator, cudaStream_t stream) {
  if (operation != ncclSum) return ncclInvalidArgument;
  return enqueue(__func__, {Collective::Kind::all_reduce, in, out, count, type}, communicator, stream);
}
ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t operation,
                               ncclComm_t communicator, cudaStream_t stream) {
  if (operation != ncclSum) return ncclInvalidArgument;
  return enqueue(__func__, {Collective::Kind::reduce_scatter, in, out, count, type}, communicator, stream);
}
ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclComm_t communicator,
                           cudaStream_t stream) {
  return enqueue(__func__, {Collective::Kind::all_gather, in, out, count, type}, communicator, stream);
}
ncclResult_t ncclSend(const void* in, std::size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  return send_or_receive(__func__, {in, nullptr, count, type, peer}, communicator, stream);
}
ncclResult_t ncclRecv(void* out, std::size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      cudaStream_t stream) {
  return send_or_receive(__func__, {nullptr, out, count, type, peer}, communicator, stream);
}
ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t communicator, cudaStream_t stream) {
  return enqueue(__func__, {Collective::Kind::broadcast, in, out, count, type, root}, communicator, stream);
}

}  // extern "C"
