#include "train/stopping.h"

#include <signal.h>

#include <atomic>
#include <mutex>

namespace weft::train {
namespace {

// Global, as a signal handler can't reach other data.
std::atomic<int> received_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);

// Ranks that are threads share the process's handlers.
std::mutex holders_mutex;
int holders = 0;

extern "C" void remember_signal(int signal) {
  received_signal.store(signal);
  ::signal(signal, SIG_DFL);
}

void set_handler(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  // On the threads' signal stacks: kernels may have moved the stack pointer (see cpu::prepare_thread).
  action.sa_flags = SA_ONSTACK | SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
}

}  // namespace

StopSignals::StopSignals() {
  const std::lock_guard lock(holders_mutex);
  if (holders++ > 0) return;
  received_signal.store(0);
  set_handler(remember_signal);
}

StopSignals::~StopSignals() {
  const std::lock_guard lock(holders_mutex);
  if (--holders > 0) return;
  set_handler(SIG_DFL);
}

int StopSignals::received() {
  return received_signal.load();
}

}  // namespace weft::train
