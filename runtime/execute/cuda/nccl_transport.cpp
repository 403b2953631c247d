#include "runtime/execute/cuda/nccl_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/comm/backoff.h"
#include "runtime/comm/slices.h"
#include "runtime/execute/channel_groups.h"
#include "runtime/execute/device/devices.h"

namespace weft::execute {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kPeersCome{120};  // to a start, a split, a first collective
constexpr std::chrono::seconds kPeersLeave{10};

// NCCL 2.28 reads these settings only from the environment, once, at the first call that needs them. Values that a user
// has set are kept.
void set_environment() {
  static std::once_flag once;
  std::call_once(once, [] {
    // These give the same bits in every run. NCCL's own choice of algorithm and protocol may change from run to run,
    // and trees and in-switch reductions sum in another order than rings.
    setenv("NCCL_ALGO", "Ring", /*overwrite=*/0);
    setenv("NCCL_PROTO", "Simple", /*overwrite=*/0);
    // Kernels of several communicators start in the order in which the host enqueued them, which is the plan's order on
    // all ranks. In different orders they could deadlock.
    setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", /*overwrite=*/0);
  });
}

// Calls return at once and continue in the background, so that a lost peer leaves no thread inside of NCCL.
ncclConfig_t non_blocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.splitShare = 0;  // with shared resources only one of parent and children may be in use
  return config;
}

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return ncclFloat32;
    case DType::bf16:
      return ncclBfloat16;
    case DType::i32:
      return ncclInt32;
    case DType::i64:
      return ncclInt64;
  }
  throw std::logic_error("a collective of an unknown type");
}

[[noreturn]] void fail(ncclResult_t result, const char* what, ncclComm_t communicator) {
  const char* const detail = ncclGetLastError(communicator);
  const std::string text =
      fmt::format("NCCL: {}: {}{}{}", what, ncclGetErrorString(result),
                  detail == nullptr || *detail == '\0' ? "" : ": ", detail == nullptr ? "" : detail);
  if (result == ncclRemoteError) throw comm::PeerLost(text);
  throw RuntimeFault(text);
}

}  // namespace

NcclCommunicator::NcclCommunicator(const ncclUniqueId& id, comm::World& world) : world_(world), rank_(world.rank()) {
  ncclConfig_t config = non_blocking();
  const ncclResult_t result = ncclCommInitRankConfig(&communicator_, world.size(), id, rank_, &config);
  try {
    wait(result, "ncclCommInitRankConfig");
    check(ncclCommCount(communicator_, &ranks_), "ncclCommCount");
  } catch (...) {
    abort_alone();
    throw;
  }
}

NcclCommunicator::NcclCommunicator(NcclCommunicator& parent, int color) : world_(parent.world_), rank_(parent.rank_) {
  ncclConfig_t config = non_blocking();
  const ncclResult_t result = ncclCommSplit(parent.communicator_, color, parent.rank_, &communicator_, &config);
  try {
    // A thread of NCCL's makes the child, which exists some time after the call and may be used once its state is
    // ncclSuccess.
    parent.wait(result, "ncclCommSplit");
    const Clock::time_point limit = Clock::now() + kPeersCome;
    for (comm::Backoff backoff; std::atomic_ref(communicator_).load() == nullptr; backoff.pause()) {
      parent.check();
      world_.expect_peers();
      if (Clock::now() > limit) throw comm::PeerLost("NCCL: ncclCommSplit: the other ranks didn't come");
    }
    wait(ncclInProgress, "ncclCommSplit");
    check(ncclCommCount(communicator_, &ranks_), "ncclCommCount");
  } catch (...) {
    abort_alone();
    throw;
  }
}

void NcclCommunicator::take_part(NcclCommunicator& parent) {
  ncclConfig_t config = non_blocking();
  ncclComm_t none = nullptr;
  parent.wait(ncclCommSplit(parent.communicator_, NCCL_SPLIT_NOCOLOR, parent.rank_, &none, &config), "ncclCommSplit");
}

NcclCommunicator::~NcclCommunicator() {
  if (!finish()) abort_alone();
}

bool NcclCommunicator::finish() noexcept {
  if (communicator_ == nullptr) return true;
  // ncclCommFinalize() waits for the collectives in flight on all ranks. If a rank is lost it never ends, so there is a
  // limit.
  ncclResult_t result = ncclCommFinalize(communicator_);
  const Clock::time_point limit = Clock::now() + kPeersLeave;
  for (comm::Backoff backoff; result == ncclInProgress && Clock::now() < limit; backoff.pause()) {
    if (ncclCommGetAsyncError(communicator_, &result) != ncclSuccess) break;
  }
  if (result != ncclSuccess) return false;
  ncclCommDestroy(std::exchange(communicator_, nullptr));
  return true;
}

void NcclCommunicator::enqueue_message(const comm::CollectiveCall& call, bool sends, cudaStream_t stream) {
  if (communicator_ == nullptr) throw std::logic_error("a message on a communicator that was aborted");
  const auto count = static_cast<std::size_t>(call.count);
  const int sender = static_cast<int>(call.root), receiver = 1 - sender;
  const ncclResult_t result = sends ? ncclSend(call.out, count, type_of(call.dtype), receiver, communicator_, stream)
                                    : ncclRecv(call.out, count, type_of(call.dtype), sender, communicator_, stream);
  wait(result, sends ? "ncclSend" : "ncclRecv");
}

void NcclCommunicator::enqueue(const comm::CollectiveCall& call, cudaStream_t stream) {
  if (communicator_ == nullptr) throw std::logic_error("a collective on a communicator that was aborted");
  const auto count = static_cast<std::size_t>(call.count);
  const ncclDataType_t type = type_of(call.dtype);
  const std::string what = comm::describe(call);
  ncclResult_t result = ncclInvalidArgument;
  switch (call.kind) {
    case comm::CollectiveKind::all_reduce:
      result = ncclAllReduce(call.out, call.out, count, type, ncclSum, communicator_, stream);
      break;
    case comm::CollectiveKind::reduce_scatter:
      result = ncclReduceScatter(call.in, call.out, count, type, ncclSum, communicator_, stream);
      break;
    case comm::CollectiveKind::all_gather:
      result = ncclAllGather(call.in, call.out, count, type, communicator_, stream);
      break;
    case comm::CollectiveKind::broadcast:
      result = ncclBroadcast(call.out, call.out, count, type, static_cast<int>(call.root), communicator_, stream);
      break;
  }
  // A thread of NCCL launches the kernel, which must be on the stream before the caller enqueues more work.
  wait(result, what.c_str());
}

void NcclCommunicator::check() {
  if (communicator_ == nullptr) throw std::logic_error("a communicator that was aborted");
  ncclResult_t state = ncclSuccess;
  check(ncclCommGetAsyncError(communicator_, &state), "ncclCommGetAsyncError");
  check(state, "a collective");
}

void NcclCommunicator::abort(std::span<NcclCommunicator* const> communicators) noexcept {
  // Within a group each call ends its collectives at once, and none frees anything before the group's end.
  ncclGroupStart();
  for (NcclCommunicator* const each : communicators) {
    if (each->communicator_ != nullptr) ncclCommAbort(std::exchange(each->communicator_, nullptr));
  }
  ncclGroupEnd();
}

void NcclCommunicator::abort_alone() noexcept {
  NcclCommunicator* const own = this;
  abort({&own, 1});
}

void NcclCommunicator::wait(ncclResult_t result, const char* what) {
  const Clock::time_point limit = Clock::now() + kPeersCome;
  check(result, what);
  for (comm::Backoff backoff; result == ncclInProgress; backoff.pause()) {
    check(ncclCommGetAsyncError(communicator_, &result), what);
    check(result, what);
    world_.expect_peers();
    if (Clock::now() > limit) {
      throw comm::PeerLost(fmt::format("NCCL: {}: the other ranks didn't come within {} s", what, kPeersCome.count()));
    }
  }
}

void NcclCommunicator::check(ncclResult_t result, const char* what) {
  if (result != ncclSuccess && result != ncclInProgress) fail(result, what, communicator_);
}

NcclTransport::NcclTransport(comm::World& world, std::optional<graph::Grid> grid, CudaDevice& device)
    : world_(world), grid_(grid), device_(device) {
  set_environment();
  std::vector<std::byte> bytes(sizeof(ncclUniqueId));
  if (world.rank() == 0) {
    ncclUniqueId id{};
    if (const ncclResult_t result = ncclGetUniqueId(&id); result != ncclSuccess) {
      fail(result, "ncclGetUniqueId", nullptr);
    }
    std::memcpy(bytes.data(), &id, sizeof id);
  }
  world.broadcast(bytes, 0);
  ncclUniqueId id{};
  std::memcpy(&id, bytes.data(), sizeof id);
  device.use();
  all_ = std::make_unique<NcclCommunicator>(id, world);
}

NcclTransport::~NcclTransport() {
  // After a failure the other ranks may not take part in finish().
  const bool over = std::uncaught_exceptions() == 0 && std::ranges::all_of(communicators(), &NcclCommunicator::finish);
  if (!over) stop();
}

std::vector<NcclCommunicator*> NcclTransport::communicators() const {
  std::vector<NcclCommunicator*> all;
  for (const auto& channel : channels_) {
    if (channel != nullptr) all.push_back(channel.get());
  }
  if (all_ != nullptr) all.push_back(all_.get());
  return all;
}

void NcclTransport::join(graph::Channel channel) {
  if (channels_[static_cast<std::size_t>(channel)] != nullptr) return;
  device_.use();
  for (const GroupSplit& split : splits_of(grid_, channel, world_.rank())) {
    if (split.channel) {
      channels_[static_cast<std::size_t>(*split.channel)] = std::make_unique<NcclCommunicator>(*all_, split.color);
    } else {
      NcclCommunicator::take_part(*all_);
    }
  }
}

// The world's communicator only serves to split the others: it runs no collective and opens no connections.
std::int64_t NcclTransport::device_bytes(graph::Channel channel) const {
  const auto& communicator = channels_[static_cast<std::size_t>(channel)];
  return communicator != nullptr && communicator->ranks() > 1 ? kNcclCommunicatorBytes : 0;
}

// NCCL works on the plans' own buffers.
void NcclTransport::prepare(Device& /*device*/, std::span<const ChannelCalls> /*plans*/) {}

// Streams wait for other GPUs, not for this host.
void NcclTransport::begin_step(bool /*loads*/) {}

void NcclTransport::enqueue(Device& /*device*/, graph::Channel channel, DeviceStream stream,
                            const comm::CollectiveCall& call) {
  const auto& communicator = channels_[static_cast<std::size_t>(channel)];
  if (communicator == nullptr) throw std::logic_error("a collective on a channel that nobody joined");
  if (graph::is_message(channel)) {
    communicator->enqueue_message(call, is_send(channel), device_.native(stream));
  } else {
    communicator->enqueue(call, device_.native(stream));
  }
}

void NcclTransport::check() {
  // NCCL notices a lost rank only by its sockets; a kernel that reads a lost peer's memory waits for ever.
  world_.expect_peers();
  for (const auto& channel : channels_) {
    if (channel != nullptr) channel->check();
  }
}

void NcclTransport::stop() noexcept {
  NcclCommunicator::abort(communicators());
}

std::unique_ptr<DeviceTransport> make_nccl_transport(comm::World& world, std::optional<graph::Grid> grid,
                                                     Device& device) {
  return std::make_unique<NcclTransport>(world, grid, dynamic_cast<CudaDevice&>(device));
}

}  // namespace weft::execute
