#include "runtime/comm/mpi_communicator.h"

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace weft::comm {
namespace {

class MpiPort final : public MessagePort {
 public:
  explicit MpiPort(CommHandle comm) : comm_(std::move(comm)), rank_(comm_.rank()), size_(comm_.size()) {}

  // Only a failing rank gets here with messages in flight. Receives are cancelled, because their buffers will be
  // destroyed. Sends can't be cancelled, so the communicator is kept until the process ends.
  ~MpiPort() override {
    bool pending = false;
    for (MPI_Request& request : requests_) {
      if (request == MPI_REQUEST_NULL) continue;
      pending = true;
      MPI_Cancel(&request);
      MPI_Request_free(&request);
    }
    if (pending) comm_.leak();
  }
  MpiPort(const MpiPort&) = delete;
  MpiPort& operator=(const MpiPort&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void reserve(std::size_t count) override {
    requests_.assign(count, MPI_REQUEST_NULL);
    statuses_.resize(count);
    completed_.resize(count);
  }

  void send(std::size_t place, int peer, int tag, std::span<const std::byte> bytes, std::string_view what) override {
    check_mpi(MPI_Isend(bytes.data(), count_of(bytes), MPI_BYTE, peer, tag, comm_.get(), &requests_[place]), what);
  }

  void receive(std::size_t place, int peer, int tag, std::span<std::byte> bytes, std::string_view what) override {
    check_mpi(MPI_Irecv(bytes.data(), count_of(bytes), MPI_BYTE, peer, tag, comm_.get(), &requests_[place]), what);
  }

  // Tests all requests by one call, because MPI polls all of its queues in every call.
  std::span<const int> completed(std::size_t count, std::string_view what) override {
    int found = 0;
    const int code =
        MPI_Testsome(static_cast<int>(count), requests_.data(), &found, completed_.data(), statuses_.data());
    if (found == MPI_UNDEFINED) found = 0;  // no request is active
    if (code == MPI_ERR_IN_STATUS) {
      for (int i = 0; i < found; ++i) check_mpi(statuses_[static_cast<std::size_t>(i)].MPI_ERROR, what);
    }
    check_mpi(code, what);
    return std::span(completed_).first(static_cast<std::size_t>(found));
  }

 private:
  // MPI counts in int.
  static int count_of(std::span<const std::byte> bytes) {
    if (bytes.size() <= static_cast<std::size_t>(std::numeric_limits<int>::max()))
      return static_cast<int>(bytes.size());
    throw RuntimeFault(
        fmt::format("a message of {} bytes: MPI takes less than 2 GiB. Fix: a smaller --micro-batch", bytes.size()));
  }

  CommHandle comm_;
  int rank_, size_;
  std::vector<MPI_Request> requests_;  // by place; MPI_REQUEST_NULL where none is pending
  std::vector<MPI_Status> statuses_;
  std::vector<int> completed_;
};

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(CommHandle comm, const MessageSizes& sizes) {
  return make_message_communicator(std::make_unique<MpiPort>(std::move(comm)), sizes);
}

}  // namespace weft::comm
