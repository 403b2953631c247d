// The threads of a compute stream: a oneTBB arena that runs numbered chunks of a kernel.
//
// Kernels split their work into chunks that depend on shapes only, never on the number of threads, so that results
// are the same bits on one thread and on many. Scratch memory is reserved before the first step.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>

namespace weft::cpu {

/// Denormals are flushed on this thread (FTZ and DAZ where the CPU has them), and OpenMP regions inside libraries run
/// on one thread. Handlers of signals that arrive while this thread computes have to be installed with SA_ONSTACK: a
/// library may have moved the stack pointer, and this gives the thread a stack for them. Workers call it on every
/// thread that runs chunks, the calling one included.
void prepare_thread();

/// Bytes that a kernel needs: per worker, and shared by its chunks.
struct Scratch {
  std::size_t worker_bytes = 0, shared_bytes = 0;
};

/// Refers to a callable that takes a chunk's number. It owns nothing and allocates nothing (a std::function would, for
/// most lambdas), so the callable must outlive it.
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

/// One compute stream's workers. Not thread-safe: one caller at a time.
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

  /// Calls chunk(i) once for each i in [0, chunks), in any order and on any worker. The first exception of a chunk
  /// ends the run and is thrown here. Chunks don't call run().
  void run(std::int64_t chunks, ChunkFunction chunk);

  /// A function that the calling thread invokes between its chunks, so that communication progresses inside long
  /// tasks. Empty: none.
  void set_progress_hook(std::function<void()> hook);

  /// Makes sure that worker_scratch() and shared_scratch() give at least so many bytes. Call before the first step.
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
