// A program that a test starts, sends signals to and outlives.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft::testing {

/// The environment of a child, and what it is denied, as a restricted user is or one with a small disk.
struct ChildSurroundings {
  std::string folder = ".";
  std::optional<std::uint64_t> file_bytes = {};  // writes beyond this size fail with EFBIG
  bool as_nobody = false;                        // runs as another user, which requires root
};

struct Ending {
  int exit_code = -1;  // -1: terminated by `signal`
  int signal = 0;
  bool in_time = false;  // false: the test terminated it
};

/// Runs `command` (the program's path first) in its own process group, with empty standard input, and keeps its output.
/// The destructor terminates the whole group.
///
///   ChildProcess child({WEFT_EXECUTABLE, "train"});
///   child.send(SIGKILL);
///   EXPECT_EQ(child.wait().signal, SIGKILL);
class ChildProcess {
 public:
  explicit ChildProcess(std::vector<std::string> command, const ChildSurroundings& surroundings = {});
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t id() const { return id_; }
  void send(int signal) const;
  /// Waits for the end, at most until the limit. The destructor terminates a child that takes longer.
  Ending wait(std::chrono::seconds limit = std::chrono::seconds(60));
  bool running();

  /// A process that the child started, with `variable` in its environment: "OMPI_COMM_WORLD_RANK=1".
  std::optional<pid_t> descendant(const std::string& variable) const;

  std::string output() const;
  std::string errors() const;

 private:
  using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

  File output_, errors_;
  pid_t id_ = -1;
  std::optional<Ending> ending_;
};

/// Calls `done` repeatedly until it returns true; returns false after a minute.
bool wait_until(const std::function<bool()>& done);

/// Waits until a training run has done a step; returns false if it ended before.
bool trains(ChildProcess& child, const std::string& run_dir);

inline std::vector<std::string> joined(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// Loads the latest complete checkpoint with all checks and returns its step.
std::int64_t loaded_step(const std::filesystem::path& run_dir);

/// `weft train` with `more` arguments, of a text unless they name data, on a model so small that most of the time is
/// the start.
std::vector<std::string> tiny_training(const std::string& run_dir, const std::vector<std::string>& more);
/// The command under mpirun.
std::vector<std::string> under_mpirun(int ranks, const std::vector<std::string>& command,
                                      const std::vector<std::string>& mpirun_options = {});

}  // namespace weft::testing
