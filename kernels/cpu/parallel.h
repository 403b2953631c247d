// The threads of a compute stream: a oneTBB arena that runs the numbered chunks of a kernel.
//
// Kernels divide their work into chunks that depend only on shapes, never on the number of threads, so that one thread
// and many give the same bits. Scratch memory is reserved before the first step.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>

namespace weft::cpu {

/// Flushes denormals on this thread (FTZ and DAZ if the CPU has them), and makes OpenMP regions inside libraries run on
/// one thread. Signal handlers that may run while this thread computes must be installed with SA_ONSTACK: a library may
/// have moved the stack pointer, and this function gives the thread a stack for handlers. Workers call it on every
/// thread that runs chunks, including the calling thread.
void prepare_thread();

/// Scratch bytes that a kernel needs: private to each worker, and shared by its chunks.
struct Scratch {
  std::size_t worker_bytes = 0, shared_bytes = 0;

  /// Enough for either kernel.
  friend Scratch larger(const Scratch& a, const Scratch& b) {
    return {std::max(a.worker_bytes, b.worker_bytes), std::max(a.shared_bytes, b.shared_bytes)};
  }
};

/// Refers to a callable that takes a chunk's number. It owns and allocates nothing (for most lambdas a std::function
/// would), so the callable must outlive it.
class ChunkFunction {
 public:
  template <class Callable>
  requires(!std::same_as<std::remove_cvref_t<Callable>, ChunkFunction> && std::invocable<Callable&, std::int64_t>)
      // NOLINTNEXTLINE(google-explicit-constructor): a lambda is passed where a ChunkFunction is expected.
      ChunkFunction(Callable&& callable)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* object, std::int64_t chunk) {
          (*static_cast<std::add_pointer_t<std::remove_reference_t<Callable>>>(object))(chunk);
        }) {}

  void operator()(std::int64_t chunk) const { call_(object_, chunk); }

 private:
  void* object_;
  void (*call_)(void*, std::int64_t);
};

/// The workers of one compute stream. Not thread-safe: one caller at a time.
///
///   Workers workers(2);
///   workers.run(blocks, [&](std::int64_t block) { … });   // returns when all blocks are done
class Workers {
 public:
  /// `threads` ≥ 1 counts the calling thread. oneTBB may give fewer, down to the calling thread alone.
  explicit Workers(int threads);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int threads() const;

  /// Calls chunk(i) once for each i in [0, chunks), in any order and on any worker. The first exception of a chunk ends
  /// the run and is rethrown here. Chunks must not call run().
  void run(std::int64_t chunks, ChunkFunction chunk);

  /// Sets a function that the calling thread invokes between its chunks, so that communication progresses inside long
  /// tasks. An empty function removes it.
  void set_progress_hook(std::function<void()> hook);
  /// Invokes it from within a chunk that takes milliseconds, if the chunk runs on the calling thread.
  void progress() const;

  /// Ensures that worker_scratch() and shared_scratch() have at least this many bytes. Call it before the first step.
  void reserve(std::size_t worker_bytes, std::size_t shared_bytes);
  void reserve(Scratch scratch) { reserve(scratch.worker_bytes, scratch.shared_bytes); }
  /// 64-byte aligned bytes private to the running worker, valid within one chunk.
  std::byte* worker_scratch();
  /// 64-byte aligned bytes shared by the chunks of one kernel, valid within one kernel.
  std::byte* shared_scratch();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft::cpu
