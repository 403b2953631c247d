// Collectives between GPUs: NCCL, one communicator a process group, on the streams of the plan.
#pragma once

#include <nccl.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/grid.h"
#include "runtime/execute/channel_groups.h"
#include "runtime/execute/cuda/cuda_device.h"
#include "runtime/execute/cuda/nccl_supervisor.h"
#include "runtime/execute/device/devices.h"
#include "runtime/execute/device/transport.h"

namespace weft::execute {

/// An NCCL communicator with one owner. It never blocks for longer than a limit. By default NCCL goes on with each call
/// on a thread of its own while the caller waits; with a supervisor, the calls of a split's group block.
///
/// A split is never a call that blocks. NCCL keeps the address of the ncclComm_t that it makes, and writes there when
/// the split is over, also when that failed or was aborted. So an object outlives a split that threw, until its parent
/// is aborted.
class NcclCommunicator {
 public:
  /// All must outlive it. It has no members until init() or split().
  NcclCommunicator(comm::World& world, const TransportLimits& limits, const NcclSettings& settings,
                   NcclSupervisor* supervisor = nullptr)
      : world_(world), limits_(limits), settings_(settings), supervisor_(supervisor) {}
  /// finish(), or else abort().
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  /// Collective over the world, whose ranks have the same `id`. The current device becomes the communicator's. Throws
  /// RuntimeFault naming NCCL's reason, PeerLost when the other ranks don't come in time or as soon as one has given
  /// up.
  void init(const ncclUniqueId& id);
  /// Ranks of one color become a group, in the parent's order; collective over the parent. Without a color the rank
  /// only takes part. Throws the same; then only abort(), with the parent, may follow.
  void split(NcclCommunicator& parent, std::optional<int> color);

  int ranks() const { return ranks_; }
  int rank() const { return rank_; }  // in the group

  /// Enqueues one collective; returns when it is on the stream. Throws PeerLost, RuntimeFault.
  void enqueue(const comm::CollectiveCall& call, cudaStream_t stream);
  /// The same for segments that all ranks exchange: an all_to_all without the own part.
  void enqueue_segments(const comm::CollectiveCall& segments, cudaStream_t stream);
  /// Several collectives in one group of NCCL's.
  void enqueue(std::span<const comm::CollectiveCall> calls, cudaStream_t stream);
  /// The same for this rank's end of a message in a group of two, given as a broadcast by its sender.
  void enqueue_message(const comm::CollectiveCall& call, bool sends, cudaStream_t stream);
  /// Throws an error of a background operation: PeerLost or RuntimeFault. With a supervisor, any thread may call it.
  void check();
  /// Tells NCCL of memory of ncclMemAlloc()'s, in which buffers lie. It forgets it when the communicator is closed.
  void add_buffer(std::span<std::byte> buffer);
  /// Waits for the other ranks, as long as `peers_leave`, and closes the communicator; false: they didn't take part, so
  /// call abort().
  bool finish() noexcept;
  /// Aborts the collectives in flight on all communicators and frees these; no call may follow. Takes all communicators
  /// of a process at once, parents before the communicators split from them, because NCCL waits for the device when it
  /// frees one, while the device may wait in another. Ends the process if NCCL doesn't come back within `release`.
  /// `flagged` is called when no collective and no call of these communicators waits any more, and before they are
  /// freed.
  static void abort(std::span<NcclCommunicator* const> communicators, const TransportLimits& limits,
                    const std::function<void()>& flagged = nullptr) noexcept;

 private:
  // Waits for the end of the last call, whose result was `result`. what(): its name, for errors.
  template <class What>
  void wait(ncclResult_t result, const What& what);
  template <class What>
  void expect(ncclResult_t result, const What& what);
  // Calls NCCL, and returns when the call is over.
  template <class What, class Function>
  void run(const What& what, const Function& function);
  ncclConfig_t config(bool blocking) const;
  ncclComm_t usable() const;
  ncclResult_t exchange_parts(const comm::CollectiveCall& call, bool with_own, cudaStream_t stream);
  ncclResult_t begin(const comm::CollectiveCall& call, cudaStream_t stream);

  comm::World& world_;
  const TransportLimits& limits_;
  const NcclSettings& settings_;
  NcclSupervisor* supervisor_;         // null: calls don't block
  ncclComm_t communicator_ = nullptr;  // NCCL's threads write it
  int ranks_ = 0, rank_ = 0;
};

/// Device memory that NCCL 2.28 takes for a communicator of two ranks or more, estimated from its source, not measured.
/// A ring has a connection for receiving and one for sending a channel, each rounded up to 2 MiB (CUDA_IPC_MIN in
/// comm.h). The first holds the buffers of all three protocols (computeBuffSizes() in init.cc: 4 MiB for Simple, which
/// is NCCL_BUFFSIZE, 512 KiB for LL, 4800 KiB for LL128), the second next to nothing (transport/p2p.cc). The number of
/// channels depends on the links, unless it is chosen: 16 for NVLink of a Hopper node, fewer for PCIe.
inline constexpr std::int64_t kNcclChannels = 16, kNcclChannelBytes = (10 << 20) + (2 << 20);
inline constexpr std::int64_t kNcclCommunicatorBytes = kNcclChannels * kNcclChannelBytes;

/// One rank a GPU. NCCL works on the plans' own buffers, and streams wait for other GPUs, not for this host. Bits:
/// NCCL's ring on one topology repeats itself, but adds in another order than the other communicators and rounds after
/// every addition.
///
/// A message is ncclSend() at one end and ncclRecv() at the other, in a communicator of the two ranks. A broadcast
/// there would move the same bytes, but around a ring, for which both ranks connect both ways. Each direction has a
/// communicator of its own, since NCCL runs the operations of one communicator one after the other, whatever their
/// streams, and an activation must not wait for a gradient.
///
/// An all-to-all is a group of ncclSend() and ncclRecv() to all members, this rank included: one operation of NCCL.
///
/// An exchange of rows is such a group between two kernels. Only the device knows how many rows go where, and the host
/// doesn't wait for it: the first kernel copies them to segments that have room for any choice, which are sent whole,
/// and the second one copies the rows that came to their places. So a captured step takes any choice.
///
/// NCCL starts the operations of all communicators of a GPU in the order in which the host enqueues them, which is the
/// order of plan.collectives, and runs them one by one with a driver before CUDA 12.3. The first call of a communicator
/// also makes the host wait until the peer has come to it. So stages are free of deadlocks only if their plans can run
/// with one queue a rank: plan::check() proves that (Kind::one_queue).
///
/// A call of CUDA on one device may wait for another device of the same process: for room in a queue of launches, or,
/// where devices read each other's memory, until their kernels have ended. So a rank whose device waits in a collective
/// could keep the thread of its peer from enqueueing the other end of it, for ever. Ranks that are threads of a process
/// are therefore kept in step: enqueue() returns when all members of the group have enqueued the collective, and
/// prepare() when all ranks have allocated their memory, so what runs on a device never waits for a host. A captured
/// step is enqueued at once, so all ranks begin it together. Ranks that are processes need none of that.
class NcclTransport final : public DeviceTransport {
 public:
  /// Collective over the world. `world` and `device` must outlive the transport. `in_step`: for threads of a process.
  /// Throws PeerLost, RuntimeFault.
  NcclTransport(comm::World& world, std::optional<graph::Grid> grid, CudaDevice& device,
                const TransportLimits& limits = {}, bool in_step = false, const NcclSettings& settings = {});
  ~NcclTransport() override;
  NcclTransport(const NcclTransport&) = delete;
  NcclTransport& operator=(const NcclTransport&) = delete;

  std::string_view name() const override { return "nccl"; }
  /// Graphs must be destroyed before the transport: NCCL waits for them.
  bool needs_host() const override { return false; }
  bool sends_segments() const override { return true; }
  void join(graph::Channel channel) override;
  std::int64_t device_bytes(graph::Channel channel) const override;
  void prepare(Device& device, std::span<const ChannelCalls> plans) override;
  std::byte* allocate(Device& device, std::int64_t bytes) override;
  void begin_step(bool loads) override;
  void enqueue(Device& device, graph::Channel channel, DeviceStream stream, const comm::CollectiveCall& call) override;
  void enqueue_gathers(Device& device, graph::Channel channel, DeviceStream stream,
                       std::span<const comm::CollectiveCall> calls) override;
  void check() override;
  void expect_whole() override;
  void stop() noexcept override;

 private:
  static constexpr std::size_t kChannels = graph::kAxisChannels;

  void exchange_rows(Device& device, graph::Channel channel, DeviceStream stream, const comm::CollectiveCall& call);
  NcclCommunicator& joined(graph::Channel channel) const;
  void await_members(graph::Channel channel);
  void free_buffers() noexcept;

  comm::World& world_;
  std::optional<graph::Grid> grid_;
  CudaDevice& device_;
  const TransportLimits limits_;
  const NcclSettings settings_;
  const bool in_step_;
  std::vector<std::span<std::byte>> buffers_;                     // of NCCL's memory
  CommunicatorSet hosts_;                                         // of each channel's group, if they are kept in step
  std::unique_ptr<NcclSupervisor> supervisor_;                    // null: not asked for
  std::vector<std::unique_ptr<NcclCommunicator>> communicators_;  // the world's, then those split from it
  std::array<NcclCommunicator*, kChannels> channels_ = {};
  std::array<std::byte*, kChannels> segments_ = {};  // of rows to send, then of rows that came
};

}  // namespace weft::execute
