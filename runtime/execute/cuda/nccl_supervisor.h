// Watches a rank's NCCL communicators, so that calls of NCCL may block.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/execute/device/devices.h"

namespace weft::execute {

class NcclCommunicator;

/// A call of a communicator that doesn't block costs NCCL a thread, and its caller a wait for that thread. A call that
/// blocks costs neither, but its thread is lost with a peer. So one thread of each transport looks after calls that
/// take longer than they may, ranks that have given up, and asynchronous errors. It then marks all communicators as
/// aborted: the call that is under way returns, and streams leave their collectives with undefined data, so the owner
/// asks check() when they have ended. Memory is freed in stop(), when nobody is within NCCL.
///
///   NcclSupervisor supervisor(world, limits, [&] { device.use(); });
///   supervisor.watch(communicator);                        // that is ready
///   supervisor.call(limits.peers_come, name, [&] { return ncclAllReduce(…); });
///   supervisor.check();                                    // throws what was found
class NcclSupervisor {
 public:
  /// Both must outlive it. `on_thread` is called on its thread first.
  NcclSupervisor(comm::World& world, const TransportLimits& limits, std::function<void()> on_thread);
  ~NcclSupervisor();
  NcclSupervisor(const NcclSupervisor&) = delete;
  NcclSupervisor& operator=(const NcclSupervisor&) = delete;

  /// Before a communicator's first call.
  void watch(NcclCommunicator& communicator);
  /// Before it is destroyed; false: it is being aborted.
  bool forget(NcclCommunicator& communicator);

  /// Calls NCCL; one thread at a time may. Throws PeerLost or RuntimeFault, with name(), if the supervisor finds a
  /// failure before or meanwhile.
  template <class Name, class Function>
  auto call(double seconds, const Name& name, const Function& function) {
    const Leaver leaver{due_};
    if (!enter(seconds)) fail(name());
    const auto result = function();
    if (failed_.load()) fail(name());
    return result;
  }
  /// Throws the same if it has found a failure.
  void check() const {
    if (failed_.load()) fail("a collective");
  }
  /// Aborts the communicators that it watches, and ends. Nothing may follow but destruction, and again stop().
  void stop() noexcept;

 private:
  static constexpr std::int64_t kNobody = 0;
  struct Leaver {
    std::atomic<std::int64_t>& due;
    ~Leaver() { due.store(kNobody); }
  };

  bool enter(double seconds);
  [[noreturn]] void fail(std::string_view what) const;
  void run(const std::function<void()>& on_thread);
  bool look();

  comm::World& world_;
  const TransportLimits& limits_;
  std::atomic<std::int64_t> due_{kNobody};  // when the call that is under way should be over, steady nanoseconds
  std::atomic<double> seconds_{0};          // that it may take
  std::atomic<bool> failed_{false};         // written after the next two
  std::string cause_;                       // empty: the call took too long
  bool peer_lost_ = false;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::vector<NcclCommunicator*> watched_;
  bool stops_ = false, over_ = false;  // over_: it ends without an abort
  std::thread thread_;
};

}  // namespace weft::execute
