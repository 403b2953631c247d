#include "runtime/execute/cuda/nccl_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/comm/backoff.h"
#include "runtime/execute/channel_groups.h"
#include "runtime/execute/device/device_collectives.h"
#include "runtime/execute/device/device_memory.h"
#include "runtime/execute/watchdog.h"

namespace weft::execute {
namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// NCCL 2.28 reads these settings only from the environment, once, at the first call that needs them. Values that a user
// has set are kept.
void set_environment(const NcclSettings& settings) {
  static std::once_flag once;
  std::call_once(once, [] {
    // This gives the same bits in every run. Trees and in-switch reductions sum in another order than rings, and NCCL's
    // own choice of algorithm may change from run to run.
    setenv("NCCL_ALGO", "Ring", /*overwrite=*/0);
    setenv("NCCL_PROTO", "Simple", /*overwrite=*/0);
    // Kernels of several communicators start in the order in which the host enqueued them, which is the plan's order on
    // all ranks. In different orders they could deadlock.
    setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", /*overwrite=*/0);
  });
  // No configuration of a communicator has the protocol. A communicator reads it when it is made. LL128 isn't offered
  // by itself: NCCL would take it where links may corrupt it, which its own choice doesn't.
  static std::mutex mutex;  // ranks may be threads
  const std::lock_guard lock(mutex);
  using Protocol = NcclSettings::Protocol;
  if (settings.protocol == Protocol::ll) setenv("NCCL_PROTO", "LL", /*overwrite=*/1);
  if (settings.protocol == Protocol::automatic) unsetenv("NCCL_PROTO");
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

kernels::RowMove in_segments(kernels::RowMove move) {
  move.segments = true;
  return move;
}

// Calls body(ended_well) within a group of NCCL's; ended_well(result) tells whether to go on.
template <class Body>
ncclResult_t in_one_group(const Body& body) {
  ncclResult_t result = ncclGroupStart();
  if (result != ncclSuccess) return result;
  body([&](ncclResult_t of_call) {
    if (of_call != ncclInProgress) result = of_call;
    return result == ncclSuccess;
  });
  const ncclResult_t end = ncclGroupEnd();  // whatever happened: the thread's next calls are no part of the group
  return result == ncclSuccess ? end : result;
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

template <class What, class Function>
void NcclCommunicator::run(const What& what, const Function& function) {
  if (supervisor_ == nullptr) return wait(function(), what);
  expect(supervisor_->call(limits_.peers_come, what, function), what);
}

// Calls that don't block return at once and continue in the background, so that a lost peer leaves no thread inside of
// NCCL.
ncclConfig_t NcclCommunicator::config(bool blocking) const {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = blocking ? 1 : 0;
  config.splitShare = 0;  // with shared resources only one of parent and children may be in use
  if (settings_.channels > 0) config.minCTAs = config.maxCTAs = static_cast<int>(settings_.channels);
  return config;
}

ncclComm_t NcclCommunicator::usable() const {
  if (communicator_ == nullptr) throw std::logic_error("a call of a communicator that was aborted");
  return communicator_;
}

void NcclCommunicator::init(const ncclUniqueId& id) {
  ncclConfig_t chosen = config(false);
  wait(ncclCommInitRankConfig(&communicator_, world_.size(), id, world_.rank(), &chosen),
       [] { return "ncclCommInitRankConfig"; });
  expect(ncclCommCount(communicator_, &ranks_), [] { return "ncclCommCount"; });
  expect(ncclCommUserRank(communicator_, &rank_), [] { return "ncclCommUserRank"; });
}

// The call tells no more than whether the split has begun: it returns ncclSuccess while a thread of NCCL goes on. The
// parent's state tells when the split is over; the child has been written by then.
void NcclCommunicator::split(NcclCommunicator& parent, std::optional<int> color) {
  const auto what = [] { return "ncclCommSplit"; };
  ncclConfig_t chosen = config(supervisor_ != nullptr);
  parent.expect(
      ncclCommSplit(parent.usable(), color.value_or(NCCL_SPLIT_NOCOLOR), world_.rank(), &communicator_, &chosen), what);
  parent.wait(ncclInProgress, what);
  if (!color) return;
  wait(ncclInProgress, what);
  expect(ncclCommCount(communicator_, &ranks_), [] { return "ncclCommCount"; });
  expect(ncclCommUserRank(communicator_, &rank_), [] { return "ncclCommUserRank"; });
  if (supervisor_ != nullptr) supervisor_->watch(*this);
}

bool NcclCommunicator::finish() noexcept {
  if (communicator_ == nullptr) return true;
  if (supervisor_ != nullptr) {
    try {
      const auto end = [this] { return ncclCommFinalize(communicator_); };
      const auto name = [] { return "ncclCommFinalize"; };
      if (supervisor_->call(limits_.peers_leave, name, end) != ncclSuccess) return false;
    } catch (const std::exception&) {
      return false;
    }
    if (!supervisor_->forget(*this)) return false;
    ncclCommDestroy(std::exchange(communicator_, nullptr));
    return true;
  }
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
  run([sends] { return sends ? "ncclSend" : "ncclRecv"; },
      [&] {
        return sends ? ncclSend(call.out, count, type_of(call.dtype), receiver, usable(), stream)
                     : ncclRecv(call.out, count, type_of(call.dtype), sender, usable(), stream);
      });
}

// NCCL runs all sends and receives of a group at once. Several to one peer meet in their order.
ncclResult_t NcclCommunicator::exchange_parts(const comm::CollectiveCall& call, bool with_own, cudaStream_t stream) {
  const auto count = static_cast<std::size_t>(call.count);
  const ncclDataType_t type = type_of(call.dtype);
  const ncclComm_t communicator = usable();
  return in_one_group([&](const auto& ended_well) {
    for (std::int64_t part = 0; part < call.parts; ++part) {
      for (int peer = 0; peer < ranks_; ++peer) {
        if (peer == rank_ && !with_own) continue;
        const std::byte* const given = call.in_at(comm::part_for(call, ranks_, peer, part));
        std::byte* const taken = call.out_at(comm::part_from(call, ranks_, peer, part));
        if (!ended_well(ncclSend(given, count, type, peer, communicator, stream))) return;
        if (!ended_well(ncclRecv(taken, count, type, peer, communicator, stream))) return;
      }
    }
  });
}

void NcclCommunicator::enqueue_segments(const comm::CollectiveCall& segments, cudaStream_t stream) {
  run([] { return "segments of rows"; }, [&] { return exchange_parts(segments, false, stream); });
}

void NcclCommunicator::enqueue(const comm::CollectiveCall& call, cudaStream_t stream) {
  // The kernel must be on the stream before the caller enqueues more work.
  run([&call] { return comm::describe(call); }, [&] { return begin(call, stream); });
}

void NcclCommunicator::enqueue(std::span<const comm::CollectiveCall> calls, cudaStream_t stream) {
  run([&] { return fmt::format("{} calls, of which the first is an {}", calls.size(), comm::describe(calls.front())); },
      [&] {
        return in_one_group([&](const auto& ended_well) {
          for (const comm::CollectiveCall& call : calls) {
            if (!ended_well(begin(call, stream))) return;
          }
        });
      });
}

ncclResult_t NcclCommunicator::begin(const comm::CollectiveCall& call, cudaStream_t stream) {
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
      result = exchange_parts(call, true, stream);
      break;
    case comm::CollectiveKind::exchange_rows:
      throw std::logic_error("NCCL exchanges segments of rows alone");
    case comm::CollectiveKind::broadcast:
      result = ncclBroadcast(call.out, call.out, count, type, static_cast<int>(call.root), usable(), stream);
      break;
  }
  return result;
}

void NcclCommunicator::add_buffer(std::span<std::byte> buffer) {
  void* handle = nullptr;
  expect(ncclCommRegister(usable(), buffer.data(), buffer.size(), &handle), [] { return "ncclCommRegister"; });
}

void NcclCommunicator::check() {
  ncclResult_t state = ncclSuccess;
  expect(ncclCommGetAsyncError(usable(), &state), [] { return "ncclCommGetAsyncError"; });
  expect(state, [] { return "a collective"; });
}

void NcclCommunicator::abort(std::span<NcclCommunicator* const> communicators, const TransportLimits& limits,
                             const std::function<void()>& flagged) noexcept {
  const auto limit = [&limits] {
    return exit_after(limits.release,
                      fmt::format("NCCL: the abort of the communicators took over {:g} s", limits.release));
  };
  {
    const Watchdog of_calls = limit();
    // Within a group each call ends its collectives at once, and none frees anything before the group's end. When the
    // parent's call returns, no thread of NCCL writes a child any more.
    if (ncclGroupStart() != ncclSuccess && flagged) exit_now("NCCL: no group for an abort, while a call waits");
    for (const NcclCommunicator* const each : communicators) {
      if (each->communicator_ == nullptr) continue;
      const ncclResult_t result = ncclCommAbort(each->communicator_);
      // An error of CUDA is the failure that the run ends for. After any other the communicator's thread may still
      // launch work, so that nothing that the work uses may be freed.
      if (result != ncclSuccess && result != ncclInProgress && result != ncclUnhandledCudaError)
        exit_now(fmt::format("NCCL: a communicator can't be aborted: {}", ncclGetErrorString(result)));
    }
  }
  if (flagged) flagged();
  const Watchdog of_end = limit();
  ncclGroupEnd();
  for (NcclCommunicator* const each : communicators) each->communicator_ = nullptr;
}

NcclTransport::NcclTransport(comm::World& world, std::optional<graph::Grid> grid, CudaDevice& device,
                             const TransportLimits& limits, bool in_step, const NcclSettings& settings)
    : world_(world), grid_(grid), device_(device), limits_(limits), settings_(settings), in_step_(in_step) {
  set_environment(settings_);
  ncclUniqueId id{};
  if (world.rank() == 0) {
    if (const ncclResult_t result = ncclGetUniqueId(&id); result != ncclSuccess) {
      fail(result, "ncclGetUniqueId", nullptr);
    }
  }
  id = comm::of_ranks(world, id).front();
  device.use();
  if (settings_.supervised) {
    supervisor_ = std::make_unique<NcclSupervisor>(world_, limits_, [this] { device_.use(); });
  }
  communicators_.push_back(std::make_unique<NcclCommunicator>(world_, limits_, settings_));
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
  free_buffers();
}

void NcclTransport::join(graph::Channel channel) {
  if (channels_[static_cast<std::size_t>(channel)] != nullptr) return;
  device_.use();
  try {
    for (const GroupSplit& split : splits_of(grid_, channel, world_.rank())) {
      communicators_.push_back(std::make_unique<NcclCommunicator>(world_, limits_, settings_, supervisor_.get()));
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

std::byte* NcclTransport::allocate(Device& device, std::int64_t bytes) {
  if (!settings_.registered) return device.allocate(bytes);
  void* memory = nullptr;
  device_.use();
  if (const ncclResult_t result = ncclMemAlloc(&memory, static_cast<std::size_t>(bytes)); result != ncclSuccess) {
    fail(result, fmt::format("ncclMemAlloc of {} bytes, of {} that are free", bytes, device.memory().free), nullptr);
  }
  device_.count(bytes);
  buffers_.emplace_back(static_cast<std::byte*>(memory), static_cast<std::size_t>(bytes));
  return buffers_.back().data();
}

// Nobody waits here for work that uses it.
void NcclTransport::free_buffers() noexcept {
  if (buffers_.empty()) return;
  try {
    device_.use();
  } catch (const std::exception&) {
    return;  // a device that has failed has no memory to give back
  }
  cudaDeviceSynchronize();
  for (const std::span<std::byte> each : buffers_) ncclMemFree(each.data());
}

void NcclTransport::prepare(Device& device, std::span<const ChannelCalls> plans) {
  std::array<std::int64_t, kChannels> bytes = {};
  for (const ChannelCalls& plan : plans) {
    std::int64_t& most = bytes.at(static_cast<std::size_t>(plan.channel));
    for (const comm::CollectiveCall& call : plan.calls) {
      if (call.kind != comm::CollectiveKind::exchange_rows) continue;
      most = std::max(most, row_segments_bytes(call.table.most, call.count, call.dtype));
    }
  }
  for (std::size_t c = 0; c < kChannels; ++c) {
    if (bytes.at(c) > 0) segments_.at(c) = allocate(device, bytes.at(c));
  }
  for (NcclCommunicator* const each : channels_) {
    if (each == nullptr || each->ranks() == 1) continue;
    for (const std::span<std::byte> buffer : buffers_) each->add_buffer(buffer);
  }
  if (in_step_) world_.barrier();
}

void NcclTransport::begin_step(bool /*loads*/) {
  if (in_step_) world_.barrier();
}

// The world's communicator only serves to split the others: it runs no collective and opens no connections.
std::int64_t NcclTransport::device_bytes(graph::Channel channel) const {
  const NcclCommunicator* const communicator = channels_[static_cast<std::size_t>(channel)];
  const std::int64_t channels = settings_.channels > 0 ? settings_.channels : kNcclChannels;
  return communicator != nullptr && communicator->ranks() > 1 ? channels * kNcclChannelBytes : 0;
}

NcclCommunicator& NcclTransport::joined(graph::Channel channel) const {
  NcclCommunicator* const communicator = channels_[static_cast<std::size_t>(channel)];
  if (communicator == nullptr) throw std::logic_error("a collective on a channel that nobody joined");
  return *communicator;
}

void NcclTransport::enqueue(Device& device, graph::Channel channel, DeviceStream stream,
                            const comm::CollectiveCall& call) {
  if (call.kind == comm::CollectiveKind::exchange_rows) return exchange_rows(device, channel, stream, call);
  if (graph::is_message(channel)) {
    joined(channel).enqueue_message(call, is_send(channel), device_.native(stream));
  } else {
    joined(channel).enqueue(call, device_.native(stream));
  }
  await_members(channel);
}

// What NCCL sends must have its size and place beforehand, so rows are copied to segments for the most that can be.
// Own rows don't pass through it.
void NcclTransport::exchange_rows(Device& device, graph::Channel channel, DeviceStream stream,
                                  const comm::CollectiveCall& call) {
  NcclCommunicator& communicator = joined(channel);
  std::byte* const sent = segments_[static_cast<std::size_t>(channel)];
  if (sent == nullptr) throw std::logic_error(fmt::format("{}: not one of the calls prepared", comm::describe(call)));
  const int ranks = communicator.ranks(), rank = communicator.rank();
  const kernels::RowMove given = rows_given(call, ranks, rank), taken = rows_taken(call, ranks, rank);
  const std::int64_t segment = given.segment_rows() * given.row_bytes;
  std::byte* const received = sent + ranks * segment;
  std::vector<void*> to, from;
  for (int peer = 0; peer < ranks; ++peer) {
    from.push_back(received + peer * segment);
    to.push_back(peer == rank ? from.back() : sent + peer * segment);
  }
  device.move_rows(stream, in_segments(given), to);
  communicator.enqueue_segments(
      {comm::CollectiveKind::all_to_all, call.dtype, given.segment_rows() * call.count, 0, sent, received, nullptr},
      device_.native(stream));
  await_members(channel);  // before another launch, which may wait for the device
  device.move_rows(stream, in_segments(taken), from);
}

void NcclTransport::enqueue_gathers(Device& /*device*/, graph::Channel channel, DeviceStream stream,
                                    std::span<const comm::CollectiveCall> calls) {
  joined(channel).enqueue(calls, device_.native(stream));
  await_members(channel);
}

void NcclTransport::await_members(graph::Channel channel) {
  if (!in_step_) return;
  comm::Communicator& hosts = *hosts_.on(channel);
  const std::int32_t here = 1;
  std::vector<std::int32_t> all(static_cast<std::size_t>(hosts.size()));
  comm::run_blocking(hosts, {comm::CollectiveKind::all_gather, DType::i32, 1, 0, &here, all.data(), nullptr});
}

void NcclTransport::check() {
  // NCCL notices a lost rank only by its sockets; a kernel that reads a lost peer's memory waits for ever.
  if (supervisor_ != nullptr) return supervisor_->check();
  world_.expect_peers();
  for (NcclCommunicator* const channel : channels_) {
    if (channel != nullptr) channel->check();
  }
}

void NcclTransport::expect_whole() {
  if (supervisor_ != nullptr) supervisor_->check();
}

void NcclTransport::stop() noexcept {
  if (supervisor_ != nullptr) supervisor_->stop();
  std::vector<NcclCommunicator*> all;
  for (const auto& each : communicators_) all.push_back(each.get());
  NcclCommunicator::abort(all, limits_);
}

std::unique_ptr<DeviceTransport> make_nccl_transport(comm::World& world, std::optional<graph::Grid> grid,
                                                     Device& device, const TransportLimits& limits,
                                                     const NcclSettings& settings) {
  return std::make_unique<NcclTransport>(world, grid, dynamic_cast<CudaDevice&>(device), limits,
                                         world.name() == "local", settings);
}

}  // namespace weft::execute
