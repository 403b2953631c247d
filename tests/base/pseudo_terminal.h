// A terminal that a test observes from outside, and the environment in which it stands.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <string>

namespace weft::testing {

/// shown() returns the bytes that were written to screen().
///
///   PseudoTerminal terminal(80);
///   std::fputs("text", terminal.screen());
///   EXPECT_EQ(terminal.shown(), "text");
class PseudoTerminal {
 public:
  explicit PseudoTerminal(int columns) : outside_(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
    EXPECT_EQ(::grantpt(outside_), 0);
    EXPECT_EQ(::unlockpt(outside_), 0);
    name_ = ::ptsname(outside_);
    screen_ = std::fopen(name_.c_str(), "w");
    termios settings{};
    EXPECT_EQ(::tcgetattr(::fileno(screen_), &settings), 0);
    ::cfmakeraw(&settings);
    EXPECT_EQ(::tcsetattr(::fileno(screen_), TCSANOW, &settings), 0);
    EXPECT_EQ(::fcntl(outside_, F_SETFL, O_NONBLOCK), 0);
    resize(columns);
  }
  ~PseudoTerminal() {
    std::fclose(screen_);
    ::close(outside_);
  }
  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;

  std::FILE* screen() const { return screen_; }
  /// The path, for a process that opens it.
  const std::string& name() const { return name_; }

  void resize(int columns) const {
    winsize size{};
    size.ws_row = 24;
    size.ws_col = static_cast<unsigned short>(columns);
    EXPECT_EQ(::ioctl(outside_, TIOCSWINSZ, &size), 0);
  }

  /// The bytes since the last call.
  std::string shown() const {
    std::fflush(screen_);
    std::string text;
    char buffer[4096];
    for (ssize_t count = 0; (count = ::read(outside_, buffer, sizeof buffer)) > 0;) {
      text.append(buffer, static_cast<std::size_t>(count));
    }
    return text;
  }

 private:
  int outside_;
  std::string name_;
  std::FILE* screen_ = nullptr;
};

/// A variable of the environment for the length of a test. Restores the former value at its end. No value: unset.
class EnvironmentVariable {
 public:
  EnvironmentVariable(const char* name, const std::optional<std::string>& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    set(value);
  }
  ~EnvironmentVariable() { set(before_); }
  EnvironmentVariable(const EnvironmentVariable&) = delete;
  EnvironmentVariable& operator=(const EnvironmentVariable&) = delete;

 private:
  void set(const std::optional<std::string>& value) const {
    value ? ::setenv(name_, value->c_str(), 1) : ::unsetenv(name_);
  }

  const char* const name_;
  std::optional<std::string> before_;
};

}  // namespace weft::testing
