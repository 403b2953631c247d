#include "runtime/execute/cuda/nccl_supervisor.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "base/error.h"
#include "runtime/execute/cuda/nccl_transport.h"
#include "runtime/execute/tick_clock.h"

namespace weft::execute {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{10};

}  // namespace

NcclSupervisor::NcclSupervisor(comm::World& world, const TransportLimits& limits, std::function<void()> on_thread)
    : world_(world), limits_(limits), thread_([this, on_thread = std::move(on_thread)] { run(on_thread); }) {}

NcclSupervisor::~NcclSupervisor() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void NcclSupervisor::watch(NcclCommunicator& communicator) {
  const std::lock_guard lock(mutex_);
  watched_.push_back(&communicator);
}

bool NcclSupervisor::forget(NcclCommunicator& communicator) {
  const std::lock_guard lock(mutex_);
  if (failed_) return false;
  std::erase(watched_, &communicator);
  return true;
}

// Either the caller sees the failure, or the supervisor sees the call: both write first and then read.
bool NcclSupervisor::enter(double seconds) {
  seconds_.store(seconds);
  due_.store(steady_now() + static_cast<std::int64_t>(seconds * 1e9));
  return !failed_.load();
}

void NcclSupervisor::fail(std::string_view what) const {
  const std::string text =
      cause_.empty() ? fmt::format("NCCL: {}: the other ranks didn't come within {:g} s", what, seconds_.load())
                     : cause_;
  if (peer_lost_) throw comm::PeerLost(text);
  throw RuntimeFault(text);
}

// Whether all is well.
bool NcclSupervisor::look() {
  try {
    world_.expect_peers();
    for (NcclCommunicator* const each : watched_) each->check();
    const std::int64_t due = due_.load();
    if (due == kNobody || steady_now() < due) return true;
    peer_lost_ = true;
  } catch (const comm::PeerLost& error) {
    cause_ = error.what();
    peer_lost_ = true;
  } catch (const std::exception& error) {
    cause_ = error.what();
  }
  return false;
}

void NcclSupervisor::run(const std::function<void()>& on_thread) {
  try {
    on_thread();
  } catch (const std::exception&) {  // the calls that follow will tell
  }
  std::unique_lock lock(mutex_);
  while (!stops_ && !over_ && look()) changed_.wait_for(lock, kBetweenLooks);
  if (over_) return;
  if (stops_) cause_ = "NCCL: a call of communicators that were aborted";
  failed_.store(true);
  // The owner leaves NCCL and comes to stop(), after it has destroyed the graphs for which NCCL would wait.
  NcclCommunicator::abort(watched_, limits_, [&] { changed_.wait(lock, [this] { return stops_ || over_; }); });
  watched_.clear();
}

void NcclSupervisor::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

}  // namespace weft::execute
