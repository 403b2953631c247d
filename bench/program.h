// The frame of a benchmark program: its options by CLI11, exit codes as the command's, and a watch.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <exception>

namespace weft::bench {

/// Parses the words and calls `run`. Returns what that returns, 2 if a word isn't understood, 3 after a fault.
///
///   int layers = 100;
///   CLI::App app("the time to draw", "bench_draw");
///   app.add_option("LAYERS", layers, "of the graph")->capture_default_str();
///   return main_of(app, argc, argv, [&] { return draw(layers); });
template <class Run>
int main_of(CLI::App& app, int argc, char** argv, const Run& run) {
  try {
    app.parse(argc, argv);
    return run();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", app.get_name(), error.what());
    return 3;
  }
}

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace weft::bench
