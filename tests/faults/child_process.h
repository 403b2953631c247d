// A program that a test starts, sends signals to and outlives.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft::testing {

/// Where a child runs, and what it is denied, as a user or a small disk would be.
struct ChildSurroundings {
  std::string folder = ".";
  std::optional<std::uint64_t> file_bytes = {};  // writing beyond fails with EFBIG
  bool as_nobody = false;                        // runs as another user; only root can do that
};

struct Ending {
  int exit_code = -1;  // -1: ended by `signal`
  int signal = 0;
  bool in_time = false;  // false: the test ended it
};

/// Runs `command` (the program's path first) in its own process group, with empty standard input; what it prints is
/// kept. Ends the whole group when destroyed.
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
  /// Waits for the end, at most until the limit; one that takes longer is ended by the destructor.
  Ending wait(std::chrono::seconds limit = std::chrono::seconds(60));
  bool running();

  /// Processes that it started, with this in their environment: "OMPI_COMM_WORLD_RANK=1".
  std::optional<pid_t> descendant(const std::string& variable) const;

  std::string output() const;
  std::string errors() const;

 private:
  using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

  File output_, errors_;
  pid_t id_ = -1;
  std::optional<Ending> ending_;
};

/// Asks `done` again and again; false if a minute passed before it said true.
bool wait_until(const std::function<bool()>& done);

/// Waits until a training run has done a step; false if it ended before.
bool trains(ChildProcess& child, const std::string& run_dir);

/// `weft train` on a model so small that starting it takes most of the time, followed by `more`.
std::vector<std::string> tiny_training(const std::string& run_dir, const std::vector<std::string>& more);
/// The same under mpirun.
std::vector<std::string> under_mpirun(int ranks, const std::vector<std::string>& command,
                                      const std::vector<std::string>& mpirun_options = {});

}  // namespace weft::testing
