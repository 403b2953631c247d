#include "base/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/error.h"

namespace weft {
namespace {

constexpr std::size_t kLongestLine = std::size_t{1} << 30;

struct Pipe {
  int read = -1, write = -1;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw RuntimeFault(fmt::format("no pipe: {}", std::strerror(errno)));
  return {ends[0], ends[1]};
}

/// The files that a child begins with. Its descriptors are numbered from 3, in the order in which they are added.
class ChildFiles {
 public:
  ChildFiles() {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions_, STDERR_FILENO, STDOUT_FILENO);
  }
  ~ChildFiles() {
    ::posix_spawn_file_actions_destroy(&actions_);
    for (const int copy : copies_) ::close(copy);
  }
  ChildFiles(const ChildFiles&) = delete;
  ChildFiles& operator=(const ChildFiles&) = delete;

  /// The number that the descriptor has in the child.
  int add(int descriptor) {
    // A copy above all numbers that children use, so that no dup2 closes a descriptor that is still needed.
    constexpr int kAbove = 64;
    const int copy = ::fcntl(descriptor, F_DUPFD_CLOEXEC, kAbove);
    if (copy < 0) throw RuntimeFault(fmt::format("no file descriptor: {}", std::strerror(errno)));
    copies_.push_back(copy);
    constexpr int kFirst = 3;
    const int number = kFirst + static_cast<int>(copies_.size()) - 1;
    ::posix_spawn_file_actions_adddup2(&actions_, copy, number);
    return number;
  }
  const posix_spawn_file_actions_t* actions() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
  std::vector<int> copies_;
};

}  // namespace

ChildProcess::ChildProcess(std::vector<std::string> command, std::span<const int> inherited, Clock::time_point deadline)
    : deadline_(deadline) {
  const Pipe requests = make_pipe(), answers = make_pipe();
  requests_ = requests.read;
  answers_ = answers.write;
  ChildFiles files;
  std::vector<std::pair<std::string, int>> numbers;
  for (std::size_t i = 0; i < inherited.size(); ++i)
    numbers.emplace_back(fmt::format("@{}", i), files.add(inherited[i]));
  numbers.emplace_back("@requests", files.add(requests.write));
  numbers.emplace_back("@answers", files.add(answers.read));
  std::vector<char*> words;
  for (std::string& word : command) {
    for (const auto& [name, number] : numbers) {
      if (word == name) word = fmt::format("{}", number);
    }
    words.push_back(word.data());
  }
  words.push_back(nullptr);
  posix_spawnattr_t attributes{};
  ::posix_spawnattr_init(&attributes);
  sigset_t none{};
  ::sigemptyset(&none);
  sigset_t handled{};
  ::sigemptyset(&handled);
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE}) ::sigaddset(&handled, signal);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &handled);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(
      &attributes, static_cast<short>(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  const int error = ::posix_spawnp(&id_, words.front(), files.actions(), &attributes, words.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::close(requests.write);
  ::close(answers.read);
  if (error != 0) {
    ::close(requests_);
    ::close(answers_);
    throw UserError(fmt::format("can't start {}: {}", command.front(), std::strerror(error)), "a program in PATH",
                    fmt::format("install {}", command.front()));
  }
  ::fcntl(requests_, F_SETFL, O_NONBLOCK);
  ::fcntl(answers_, F_SETFL, O_NONBLOCK);
}

ChildProcess::~ChildProcess() {
  stop();
  ::close(requests_);
  ::close(answers_);
}

int ChildProcess::stop() noexcept {
  if (id_ > 0) {
    ::kill(-id_, SIGKILL);
    ::kill(id_, SIGKILL);  // if it hasn't its group yet
    while (::waitpid(id_, &status_, 0) < 0 && errno == EINTR) {
    }
    id_ = -1;
  }
  return WIFEXITED(status_) ? WEXITSTATUS(status_) : -WTERMSIG(status_);
}

bool ChildProcess::wait_for(int descriptor, short events) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
    if (left <= 0) {
      end_ = End::late;
      return false;
    }
    constexpr long kLongest = 60'000;
    pollfd polled{descriptor, events, 0};
    const int ready = ::poll(&polled, 1, static_cast<int>(std::min<long>(left + 1, kLongest)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) {
      end_ = End::closed;
      return false;
    }
  }
}

std::optional<std::string> ChildProcess::read_line() {
  std::size_t searched = 0;
  for (;;) {
    if (const std::size_t end = buffer_.find('\n', searched); end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    searched = buffer_.size();
    if (buffer_.size() > kLongestLine) {
      end_ = End::too_long;
      return std::nullopt;
    }
    if (!wait_for(requests_, POLLIN)) return std::nullopt;
    std::array<char, 1 << 16> chunk{};
    const ssize_t count = ::read(requests_, chunk.data(), chunk.size());
    if (count > 0) buffer_.append(chunk.data(), static_cast<std::size_t>(count));
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) {
      end_ = End::closed;
      return std::nullopt;
    }
  }
}

bool ChildProcess::write_line(std::string_view line) {
  const std::string text = std::string(line) + '\n';
  // Without SIGPIPE for a child that is gone: a pipe knows no MSG_NOSIGNAL.
  sigset_t pipe{}, before{};
  ::sigemptyset(&pipe);
  ::sigaddset(&pipe, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &pipe, &before);
  std::size_t done = 0;
  while (done < text.size() && wait_for(answers_, POLLOUT)) {
    const ssize_t count = ::write(answers_, text.data() + done, text.size() - done);
    if (count >= 0) {
      done += static_cast<std::size_t>(count);
    } else if (errno != EAGAIN && errno != EINTR) {
      if (errno == EPIPE) {
        const timespec at_once{};
        ::sigtimedwait(&pipe, nullptr, &at_once);
      }
      end_ = End::closed;
      break;
    }
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return done == text.size();
}

}  // namespace weft
