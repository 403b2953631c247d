// Traces as PyTorch's profiler writes them, made by hand for tests. Times are nanoseconds.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace weft::testing {

class KinetoText {
 public:
  /// The member "distributedInfo", without braces around it.
  std::string info = R"("backend": "nccl", "rank": 0, "world_size": 2)";

  KinetoText& event(std::string_view members) {
    events_ += fmt::format("{}\n{{{}}}", events_.empty() ? "" : ",", members);
    return *this;
  }
  KinetoText& slice(std::string_view category, std::string_view name, std::int64_t pid, std::int64_t tid,
                    std::int64_t begin, std::int64_t length, std::string_view args = "") {
    return event(fmt::format(
        R"("ph": "X", "cat": "{}", "name": "{}", "pid": {}, "tid": {}, "ts": {}, "dur": {}, "args": {{{}}})", category,
        name, pid, tid, microseconds(begin), microseconds(length), args));
  }
  KinetoText& step(std::int64_t number, std::int64_t thread, std::int64_t begin, std::int64_t length) {
    return slice("user_annotation", fmt::format("ProfilerStep#{}", number), 1000, thread, begin, length,
                 R"("External id": 1)");
  }
  KinetoText& mark(std::string_view name, std::int64_t thread, std::int64_t begin, std::int64_t length) {
    return slice("user_annotation", name, 1000, thread, begin, length);
  }
  KinetoText& cpu_op(std::string_view name, std::int64_t thread, std::int64_t begin, std::int64_t length,
                     std::int64_t record_function) {
    return slice("cpu_op", name, 1000, thread, begin, length,
                 fmt::format(R"("External id": {0}, "Record function id": {0})", record_function));
  }
  KinetoText& call(std::string_view name, std::int64_t thread, std::int64_t begin, std::int64_t length,
                   std::int64_t correlation) {
    return slice("cuda_runtime", name, 1000, thread, begin, length,
                 fmt::format(R"("cbid": 211, "correlation": {})", correlation));
  }
  /// `args` begins with a comma if there are any.
  KinetoText& kernel(std::string_view name, std::int64_t stream, std::int64_t begin, std::int64_t length,
                     std::int64_t correlation, std::string_view args = "") {
    return slice(
        "kernel", name, 0, stream, begin, length,
        fmt::format(R"("device": 0, "stream": {}, "correlation": {}, "grid": [1, 1, 1]{})", stream, correlation, args));
  }
  KinetoText& copy(std::string_view name, std::int64_t stream, std::int64_t begin, std::int64_t length,
                   std::int64_t correlation) {
    return slice("gpu_memcpy", name, 0, stream, begin, length,
                 fmt::format(R"("device": 0, "stream": {}, "correlation": {}, "bytes": 4096)", stream, correlation));
  }

  /// From a forward operator to its node in the backward pass: both threads and begins.
  KinetoText& arrow(std::int64_t id, std::int64_t thread, std::int64_t begin, std::int64_t to_thread, std::int64_t to) {
    const auto end = [&](std::string_view phase, std::int64_t tid, std::int64_t at) {
      event(fmt::format(R"("ph": "{}", "id": {}, "pid": 1000, "tid": {}, "ts": {}, "cat": "fwdbwd", "name": "fwdbwd")",
                        phase, id, tid, microseconds(at)));
    };
    end("s", thread, begin), end("f", to_thread, to);
    return *this;
  }

  std::string text() const {
    return fmt::format(R"({{"schemaVersion": 1, "deviceProperties": [{{"id": 0}}], "distributedInfo": {{{}}},
"traceEvents": [{}], "traceName": "t.json"}})",
                       info, events_);
  }

 private:
  static std::string microseconds(std::int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

  std::string events_;
};

}  // namespace weft::testing
