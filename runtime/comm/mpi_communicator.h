// Messages over MPI_Isend and MPI_Irecv; RAII for MPI and its communicators, and errors as exceptions. Includes mpi.h:
// for .cpp files of this folder only.
#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <fmt/format.h>
#include <mpi.h>

#include <memory>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "runtime/comm/message_communicator.h"

namespace weft::comm {

/// Throws RuntimeFault "all_reduce: MPI_ERR_TRUNCATE: message truncated" unless `code` is MPI_SUCCESS.
inline void check_mpi(int code, std::string_view what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw RuntimeFault(fmt::format("{}: {}", what, std::string_view(text, static_cast<std::size_t>(length))));
}

/// MPI from MPI_Init_thread to MPI_Finalize. Every owner of a communicator shares ownership of this.
class MpiSession {
 public:
  MpiSession() {
    int provided = MPI_THREAD_SINGLE;
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
    if (provided < MPI_THREAD_SERIALIZED) {
      MPI_Finalize();
      throw RuntimeFault(
          "this MPI library allows calls only from the thread that initialised it; Weft needs MPI_THREAD_SERIALIZED");
    }
  }
  ~MpiSession() { MPI_Finalize(); }
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
};

/// Owns a communicator. In practice MPI_Comm_free doesn't wait for other ranks, but no message may be in flight.
class CommHandle {
 public:
  CommHandle(std::shared_ptr<MpiSession> session, MPI_Comm comm) : session_(std::move(session)), comm_(comm) {
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  }
  ~CommHandle() {
    if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
  }
  CommHandle(CommHandle&& other) noexcept
      : session_(std::move(other.session_)), comm_(std::exchange(other.comm_, MPI_COMM_NULL)) {}
  CommHandle& operator=(CommHandle&&) = delete;

  MPI_Comm get() const { return comm_; }
  int rank() const {
    int rank = 0;
    MPI_Comm_rank(comm_, &rank);
    return rank;
  }
  int size() const {
    int size = 0;
    MPI_Comm_size(comm_, &size);
    return size;
  }
  /// Never frees the communicator: for failures that leave messages in flight.
  void leak() { comm_ = MPI_COMM_NULL; }

 private:
  std::shared_ptr<MpiSession> session_;
  MPI_Comm comm_;
};

/// The communicator of a group whose collectives are cut by `sizes`.
std::unique_ptr<Communicator> make_mpi_communicator(CommHandle comm, const MessageSizes& sizes);

}  // namespace weft::comm
