#include "train/stop_signals.h"

#include <atomic>
#include <csignal>
#include <mutex>

namespace weft {
namespace {

// A signal handler can reach nothing but a global.
std::atomic<int> received_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);

// Ranks that are threads share the process's handlers.
std::mutex holders_mutex;
int holders = 0;

extern "C" void remember_signal(int signal) {
  received_signal.store(signal);
  std::signal(signal, SIG_DFL);
}

}  // namespace

StopSignals::StopSignals() {
  const std::lock_guard lock(holders_mutex);
  if (holders++ > 0) return;
  received_signal.store(0);
  std::signal(SIGINT, remember_signal);
  std::signal(SIGTERM, remember_signal);
}

StopSignals::~StopSignals() {
  const std::lock_guard lock(holders_mutex);
  if (--holders > 0) return;
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

int StopSignals::received() {
  return received_signal.load();
}

}  // namespace weft
