// Failures that a test asks for: one call of CUDA, cuBLASLt or NCCL on one emulated GPU goes wrong.
#pragma once

#include <cuda_runtime_api.h>

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace weft::emulator {

struct Node;  // tests/gpu/emulator/gpu.h

/// What a function does, which decides how it can fail.
enum class CallKind : std::uint8_t {
  host,  // it ends when it returns
  work,  // it enqueues work of a stream
  nccl,  // it begins an operation that a thread of NCCL ends
};

enum class FailureMode : std::uint8_t {
  once,    // the call does nothing and answers with an error; later calls work
  sticky,  // the same, and its GPU answers every later call with an error
  late,    // the call succeeds; its work, or NCCL's operation, fails afterwards
  never,   // the call succeeds; its work, or NCCL's operation, never ends
};

struct Call {
  std::string name;
  int device = 0;
  auto operator<=>(const Call&) const = default;
};

struct CallCount {
  CallKind kind = CallKind::host;
  std::uint64_t count = 0;
};

struct Failure {
  Call call;
  std::uint64_t occurrence =
      0;  // among the calls of this name on this GPU, from 0; for a later failure, after the last
  FailureMode mode = FailureMode::once;
};

/// The failures of this process, one after the other; call it before the first call of CUDA.
void ask_for(std::vector<Failure> failures);
/// Number of calls that came and failed.
std::size_t failures_came();
/// All calls so far.
std::map<Call, CallCount> calls();

/// Counts a call of the calling thread's GPU, "NAME in a capture" where the thread captures, and returns its failure,
/// if it is the one that was asked for.
std::optional<FailureMode> failure_of(const char* name, CallKind kind);
/// The same for a call of CUDA that ends when it returns: its error, or success.
cudaError_t refusal(const char* name);
/// Buffers of calls of NCCL's communicators that were told of buffers: of those, and others.
struct BufferCalls {
  std::size_t known = 0, unknown = 0;
};
BufferCalls buffer_calls();

/// enqueue() of a call's work, which may fail.
cudaError_t enqueue_fallible(const char* name, cudaStream_t stream, Node work);

}  // namespace weft::emulator
