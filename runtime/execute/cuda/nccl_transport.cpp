#include "runtime/execute/cuda/nccl_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/comm/backoff.h"
#include "runtime/execute/channel_groups.h"
#include "runtime/execute/watchdog.h"

namespace weft::execute {
namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

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

[[noreturn]] void fail(ncclResult_t result, std::string_view what, ncclComm_t communicator) {
  const char* const detail = ncclGetLastError(communicator);
  const std::string text =
      fmt::format("NCCL: {}: {}{}{}", what, ncclGetErrorString(result),
                  detail == nullptr || *detail == '\0' ? "" : ": ", detail == nullptr ? "" : detail);
  if (result == ncclRemoteError) throw comm::PeerLost(text);
  throw RuntimeFault(text);
}

}  // namespace

NcclCommunicator::~NcclCommunicator() {
  NcclCommunicator* const own = this;
  if (!finish()) abort({&own, 1}, limits_);
}

template <class What>
void NcclCommunicator::wait(ncclResult_t result, const What& what) {
  const Clock::time_point limit = after(limits_.peers_come);
  expect(result, what);
  for (comm::Backoff backoff; result == ncclInProgress; backoff.pause()) {
    expect(ncclCommGetAsyncError(communicator_, &result), what);
    expect(result, what);
    world_.expect_peers();
    if (Clock::now() > limit) {
      throw comm::PeerLost(
          fmt::format("NCCL: {}: the other ranks didn't come within {:g} s", what(), limits_.peers_come));
    }
  }
}

template <class What>
void NcclCommunicator::expect(ncclResult_t result, const What& what) {
  if (result != ncclSuccess && result != ncclInProgress) fail(result, what(), communicator_);
}

ncclComm_t NcclCommunicator::usable() const {
  if (communicator_ == nullptr) throw std::logic_error("a call of a communicator that was aborted");
  return communicator_;
}

void NcclCommunicator::init(const ncclUniqueId& id) {
  ncclConfig_t config = non_blocking();
  wait(ncclCommInitRankConfig(&communicator_, world_.size(), id, world_.rank(), &config),
       [] { return "ncclCommInitRankConfig"; });
  expect(ncclCommCount(communicator_, &ranks_), [] { return "ncclCommCount"; });
}

// The call tells no more than whether the split has begun: it returns ncclSuccess while a thread of NCCL goes on. The
// parent's state tells when the split is over; the child has been written by then.
void NcclCommunicator::split(NcclCommunicator& parent, std::optional<int> color) {
  const auto what = [] { return "ncclCommSplit"; };
  ncclConfig_t config = non_blocking();
  parent.expect(
      ncclCommSplit(parent.usable(), color.value_or(NCCL_SPLIT_NOCOLOR), world_.rank(), &communicator_, &config), what);
  parent.wait(ncclInProgress, what);
  if (!color) return;
  wait(ncclInProgress, what);
  expect(ncclCommCount(communicator_, &ranks_), [] { return "ncclCommCount"; });
}

bool NcclCommunicator::finish() noexcept {
  if (communicator_ == nullptr) return true;
  // ncclCommFinalize() waits for the collectives in flight on all ranks. If a rank is lost it never ends, so there is a
  // limit.
  ncclResult_t result = ncclCommFinalize(communicator_);
  const Clock::time_point limit = after(limits_.peers_leave);
  for (comm::Backoff backoff; result == ncclInProgress && Clock::now() < limit; backoff.pause()) {
    if (ncclCommGetAsyncError(communicator_, &result) != ncclSuccess) break;
  }
  if (result != ncclSuccess) return false;
  ncclCommDestroy(std::exchange(communicator_, nullptr));
  return true;
}

void NcclCommunicator::enqueue_message(const comm::CollectiveCall& call, bool sends, cudaStream_t stream) {
  const auto count = static_cast<std::size_t>(call.count);
  const int sender = static_cast<int>(call.root), receiver = 1 - sender;
  const ncclResult_t result = sends ? ncclSend(call.out, count, type_of(call.dtype), receiver, usable(), stream)
                                    : ncclRecv(call.out, count, type_of(call.dtype), sender, usable(), stream);
  wait(result, [sends] { return sends ? "ncclSend" : "ncclRecv"; });
}

// NCCL runs all sends and receives of a group at once. Several to one peer meet in their order.
ncclResult_t NcclCommunicator::exchange_parts(const comm::CollectiveCall& call, cudaStream_t stream) {
  const auto count = static_cast<std::size_t>(call.count);
  const ncclDataType_t type = type_of(call.dtype);
  const ncclComm_t communicator = usable();
  ncclResult_t result = ncclGroupStart();
  if (result != ncclSuccess) return result;
  const auto ended_well = [&](ncclResult_t of_call) {
    if (of_call != ncclInProgress) result = of_call;
    return result == ncclSuccess;
  };
  for (std::int64_t part = 0; part < call.parts && result == ncclSuccess; ++part) {
    for (int peer = 0; peer < ranks_; ++peer) {
      const std::byte* const given = call.in_at(comm::part_for(call, ranks_, peer, part));
      std::byte* const taken = call.out_at(comm::part_from(call, ranks_, peer, part));
      if (!ended_well(ncclSend(given, count, type, peer, communicator, stream))) break;
      if (!ended_well(ncclRecv(taken, count, type, peer, communicator, stream))) break;
    }
  }
  const ncclResult_t end = ncclGroupEnd();  // whatever happened: the thread's next calls are no part of the group
  return result == ncclSuccess ? end : result;
}

void NcclCommunicator::enqueue(const comm::CollectiveCall& call, cudaStream_t stream) {
  const auto count = static_cast<std::size_t>(call.count);
  const ncclDataType_t type = type_of(call.dtype);
  ncclResult_t result = ncclInvalidArgument;
  switch (call.kind) {
    case comm::CollectiveKind::all_reduce:
      result = ncclAllReduce(call.out, call.out, count, type, ncclSum, usable(), stream);
      break;
    case comm::CollectiveKind::reduce_scatter:
      result = ncclReduceScatter(call.in, call.out, count, type, ncclSum, usable(), stream);
      break;
    case comm::CollectiveKind::all_gather:
      result = ncclAllGather(call.in, call.out, count, type, usable(), stream);
      break;
    case comm::CollectiveKind::all_to_all:
      result = exchange_parts(call, stream);
      break;
    case comm::CollectiveKind::exchange_rows:
      throw std::logic_error(fmt::format("NCCL's transport has no {}", comm::to_string(call.kind)));
    case comm::CollectiveKind::broadcast:
      result = ncclBroadcast(call.out, call.out, count, type, static_cast<int>(call.root), usable(), stream);
      break;
  }
  // A thread of NCCL launches the kernel, which must be on the stream before the caller enqueues more work.
  wait(result, [&call] { return comm::describe(call); });
}

void NcclCommunicator::check() {
  ncclResult_t state = ncclSuccess;
  expect(ncclCommGetAsyncError(usable(), &state), [] { return "ncclCommGetAsyncError"; });
  expect(state, [] { return "a collective"; });
}

void NcclCommunicator::abort(std::span<NcclCommunicator* const> communicators, const TransportLimits& limits) noexcept {
  const Watchdog limit =
      exit_after(limits.release, fmt::format("NCCL: the abort of the communicators took over {:g} s", limits.release));
  // Within a group each call ends its collectives at once, and none frees anything before the group's end. When the
  // parent's call returns, no thread of NCCL writes a child any more.
  ncclGroupStart();
  for (NcclCommunicator* const each : communicators) {
    if (each->communicator_ == nullptr) continue;
    const ncclResult_t result = ncclCommAbort(std::exchange(each->communicator_, nullptr));
    // An error of CUDA is the failure that the run ends for. After any other the communicator's thread may still launch
    // work, so that nothing that the work uses may be freed.
    if (result != ncclSuccess && result != ncclInProgress && result != ncclUnhandledCudaError)
      exit_now(fmt::format("NCCL: a communicator can't be aborted: {}", ncclGetErrorString(result)));
  }
  ncclGroupEnd();
}

NcclTransport::NcclTransport(comm::World& world, std::optional<graph::Grid> grid, CudaDevice& device,
                             const TransportLimits& limits, bool in_step)
    : world_(world), grid_(grid), device_(device), limits_(limits), in_step_(in_step) {
  set_environment();
  ncclUniqueId id{};
  if (world.rank() == 0) {
    if (const ncclResult_t result = ncclGetUniqueId(&id); result != ncclSuccess) {
      fail(result, "ncclGetUniqueId", nullptr);
    }
  }
  id = comm::of_ranks(world, id).front();
  device.use();
  communicators_.push_back(std::make_unique<NcclCommunicator>(world_, limits_));
  try {
    communicators_.front()->init(id);
  } catch (...) {
    stop();
    throw;
  }
}

NcclTransport::~NcclTransport() {
  // After a failure the other ranks may not take part in finish(). Children leave before their parent.
  const bool over =
      std::uncaught_exceptions() == 0 && std::ranges::all_of(communicators_.rbegin(), communicators_.rend(),
                                                             [](const auto& each) { return each->finish(); });
  if (!over) stop();
}

void NcclTransport::join(graph::Channel channel) {
  if (channels_[static_cast<std::size_t>(channel)] != nullptr) return;
  device_.use();
  try {
    for (const GroupSplit& split : splits_of(grid_, channel, world_.rank())) {
      communicators_.push_back(std::make_unique<NcclCommunicator>(world_, limits_));
      NcclCommunicator& child = *communicators_.back();
      child.split(*communicators_.front(), split.channel ? std::optional(split.color) : std::nullopt);
      if (split.channel) channels_[static_cast<std::size_t>(*split.channel)] = &child;
    }
  } catch (...) {
    stop();
    throw;
  }
  if (in_step_) hosts_.join(world_, grid_, channel);
}

void NcclTransport::prepare(Device& /*device*/, std::span<const ChannelCalls> /*plans*/) {
  if (in_step_) world_.barrier();
}

void NcclTransport::begin_step(bool /*loads*/) {
  if (in_step_) world_.barrier();
}

// The world's communicator only serves to split the others: it runs no collective and opens no connections.
std::int64_t NcclTransport::device_bytes(graph::Channel channel) const {
  const NcclCommunicator* const communicator = channels_[static_cast<std::size_t>(channel)];
  return communicator != nullptr && communicator->ranks() > 1 ? kNcclCommunicatorBytes : 0;
}

void NcclTransport::enqueue(Device& /*device*/, graph::Channel channel, DeviceStream stream,
                            const comm::CollectiveCall& call) {
  NcclCommunicator* const communicator = channels_[static_cast<std::size_t>(channel)];
  if (communicator == nullptr) throw std::logic_error("a collective on a channel that nobody joined");
  if (graph::is_message(channel)) {
    communicator->enqueue_message(call, is_send(channel), device_.native(stream));
  } else {
    communicator->enqueue(call, device_.native(stream));
  }
  if (!in_step_) return;
  comm::Communicator& hosts = *hosts_.on(channel);
  const std::int32_t here = 1;
  std::vector<std::int32_t> all(static_cast<std::size_t>(hosts.size()));
  comm::run_blocking(hosts, {comm::CollectiveKind::all_gather, DType::i32, 1, 0, &here, all.data(), nullptr});
}

void NcclTransport::check() {
  // NCCL notices a lost rank only by its sockets; a kernel that reads a lost peer's memory waits for ever.
  world_.expect_peers();
  for (NcclCommunicator* const channel : channels_) {
    if (channel != nullptr) channel->check();
  }
}

void NcclTransport::stop() noexcept {
  std::vector<NcclCommunicator*> all;
  for (const auto& each : communicators_) all.push_back(each.get());
  NcclCommunicator::abort(all, limits_);
}

std::unique_ptr<DeviceTransport> make_nccl_transport(comm::World& world, std::optional<graph::Grid> grid,
                                                     Device& device, const TransportLimits& limits) {
  return std::make_unique<NcclTransport>(world, grid, dynamic_cast<CudaDevice&>(device), limits,
                                         world.name() == "local");
}

}  // namespace weft::execute
