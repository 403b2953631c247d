#include "tests/gpu/emulator/failures.h"

#include <mutex>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "tests/gpu/emulator/gpu.h"

namespace weft::emulator {
namespace {

struct Failures {
  std::vector<Failure> asked;
  std::size_t came = 0;
  std::map<Call, CallCount> calls;
  std::map<Call, std::uint64_t> since_last;  // calls after the last failure
};

// CUDA's functions are process-wide, and so are their failures.
Failures& failures() {
  static Failures all;
  return all;
}

std::string text_of(const char* name) {
  return std::string("the test made ") + name + " fail";
}

// The error that a call answers with when it fails at once.
cudaError_t error_of(const char* name, FailureMode mode) {
  if (mode == FailureMode::once) {
    return std::string_view(name) == "cudaMalloc" ? cudaErrorMemoryAllocation : cudaErrorUnknown;
  }
  fail(current_device(), cudaErrorIllegalAddress, text_of(name));
  return cudaErrorIllegalAddress;
}

}  // namespace

void ask_for(std::vector<Failure> asked) {
  const std::lock_guard lock(mutex());
  failures().asked = std::move(asked);
}

std::size_t failures_came() {
  const std::lock_guard lock(mutex());
  return failures().came;
}

std::map<Call, CallCount> calls() {
  const std::lock_guard lock(mutex());
  return failures().calls;
}

std::optional<FailureMode> failure_of(const char* name, CallKind kind) {
  const std::lock_guard lock(mutex());
  Failures& all = failures();
  const std::string title = thread_captures() ? std::string(name) + " in a capture" : name;
  const auto call = all.calls.try_emplace({title, current_device()}, CallCount{kind}).first;
  ++call->second.count;
  const std::uint64_t occurrence = all.since_last[call->first]++;
  if (all.came == all.asked.size()) return std::nullopt;
  const Failure& next = all.asked[all.came];
  if (next.call != call->first || next.occurrence != occurrence) return std::nullopt;
  ++all.came;
  all.since_last.clear();
  return next.mode;
}

cudaError_t refusal(const char* name) {
  const std::optional<FailureMode> mode = failure_of(name, CallKind::host);
  return mode ? error_of(name, *mode) : cudaSuccess;
}

cudaError_t enqueue_fallible(const char* name, cudaStream_t stream, Node work) {
  const std::optional<FailureMode> mode = failure_of(name, CallKind::work);
  if (!mode) return enqueue(stream, std::move(work));
  switch (*mode) {
    case FailureMode::once:
    case FailureMode::sticky:
      return error_of(name, *mode);
    case FailureMode::late:
      return enqueue(stream, std::move(work.name), [text = text_of(name)] { throw std::runtime_error(text); });
    case FailureMode::never:
      break;
  }
  return enqueue_when(
      stream, std::move(work.name), [] { return false; }, [] {});
}

}  // namespace weft::emulator
