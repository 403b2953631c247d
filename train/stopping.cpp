#include "train/stopping.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>

namespace weft::train {
namespace {

// Global, as a signal handler can't reach other data.
std::atomic<int> received_signal{0};
std::atomic<std::int64_t> received_at{0};  // milliseconds of the monotonic clock
std::atomic<const std::string_view*> said{nullptr};
std::string_view said_text;  // changes only while no handler is armed, or `said` is null
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free);

// Ranks that are threads share the process's handlers.
std::mutex holders_mutex;
int holders = 0;

// Calls nothing that a signal handler may not call (see signal-safety(7)).
extern "C" void remember_signal(int signal) {
  constexpr std::int64_t kSameMs = 50;
  const int error = errno;
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  const std::int64_t now = static_cast<std::int64_t>(time.tv_sec) * 1000 + time.tv_nsec / 1'000'000;
  if (int none = 0; received_signal.compare_exchange_strong(none, signal)) {
    received_at.store(now);
    if (const std::string_view* text = said.load(); text != nullptr) {
      [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text->data(), text->size());
    }
  } else if (now - received_at.load() > kSameMs) {
    ::signal(signal, SIG_DFL);
    ::raise(signal);  // is delivered when this handler returns
  }
  errno = error;
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

StopSignals::StopSignals(std::string_view says) {
  const std::lock_guard lock(holders_mutex);
  if (holders == 0) said.store(nullptr), received_signal.store(0);
  if (said.load() == nullptr && !says.empty()) said_text = says, said.store(&said_text);
  if (holders++ == 0) set_handler(remember_signal);
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
