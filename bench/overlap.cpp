// Measures how much of an all-reduce is hidden by computation on the same core that calls progress() at intervals.
//
//   tools/netlab --pin 1gbit 2 build/bench/bench_overlap                    16 MB, 1.5 times as much computation
//   tools/netlab --pin 2gbit 2 build/bench/bench_overlap --megabytes 64     … --factor 1 --repetitions 3 --interval 0.5
//
// The computation touches only registers, so nothing but the core is contended. For each interval between calls:
// overlap = (communication + computation − both together) / the smaller of the first two. Times are the slowest rank's,
// from a barrier; the kinds of run take turns; the table shows medians. The speed of a shared machine drifts, so the
// computation runs alone right before each run with communication, and only the difference counts. The competitors are
// MPI_Iallreduce with MPI_Test in place of progress(), and MPI_Allreduce before the computation. The floor is bare TCP
// sockets that exchange as many bytes and sum nothing.
#define OMPI_SKIP_MPICXX 1
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <mpi.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/median.h"
#include "bench/multiply_adds.h"
#include "bench/program.h"
#include "graph/operation.h"
#include "runtime/comm/backoff.h"
#include "runtime/comm/launch.h"
#include "runtime/comm/mpi.h"

namespace weft {
namespace {

/// Two ranks send each other the same number of bytes over a bare TCP connection. They sum, frame and acknowledge
/// nothing, so no transport over TCP costs less. A new exchange starts after the last one has ended:
///
///   SocketExchange exchange(world, 16 << 20);  // connects ranks 0 and 1
///   exchange.start();
///   while (!exchange.progress()) compute();
class SocketExchange {
 public:
  /// Throws std::runtime_error if a system call fails.
  SocketExchange(comm::World& world, std::size_t bytes) : outgoing_(bytes, std::byte{1}), incoming_(bytes) {
    const bool listens = world.rank() == 0;
    Socket listener;
    sockaddr_in address = own_address();
    if (listens) {
      listener = Socket(::socket(AF_INET, SOCK_STREAM, 0));
      check(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), "bind");
      check(::listen(listener.get(), 1), "listen");
      socklen_t length = sizeof address;
      check(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length), "getsockname");
    }
    const auto all = world.all_gather(std::uint64_t{address.sin_addr.s_addr} << 16 | address.sin_port);
    if (listens) {
      connection_ = Socket(::accept(listener.get(), nullptr, nullptr));
    } else {
      connection_ = Socket(::socket(AF_INET, SOCK_STREAM, 0));
      address.sin_addr.s_addr = static_cast<std::uint32_t>(all[0] >> 16);
      address.sin_port = static_cast<std::uint16_t>(all[0]);
      check(::connect(connection_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), "connect");
    }
    const int on = 1;
    check(::setsockopt(connection_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), "setsockopt");
    check(::fcntl(connection_.get(), F_SETFL, O_NONBLOCK), "fcntl");
  }

  void start() { sent_ = received_ = 0; }

  /// Sends and receives as much as the connection allows now; returns true once everything is sent and received.
  bool progress() {
    const int socket = connection_.get();
    move(received_, [&](std::size_t at, std::size_t n) { return ::recv(socket, incoming_.data() + at, n, 0); });
    move(sent_, [&](std::size_t at, std::size_t n) { return ::send(socket, outgoing_.data() + at, n, MSG_NOSIGNAL); });
    return sent_ == outgoing_.size() && received_ == incoming_.size();
  }

 private:
  class Socket {
   public:
    Socket() = default;
    explicit Socket(int descriptor) : descriptor_(descriptor) { check(descriptor, "socket"); }
    Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
    Socket& operator=(Socket&& other) noexcept {
      std::swap(descriptor_, other.descriptor_);
      return *this;
    }
    ~Socket() {
      if (descriptor_ >= 0) ::close(descriptor_);
    }
    int get() const { return descriptor_; }

   private:
    int descriptor_ = -1;
  };

  static void check(int result, const char* call) {
    if (result < 0) throw std::runtime_error(std::string(call) + ": " + std::strerror(errno));
  }

  // The address of the first interface that isn't the loopback.
  static sockaddr_in own_address() {
    ifaddrs* list = nullptr;
    check(::getifaddrs(&list), "getifaddrs");
    const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
    for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
      if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET || (one->ifa_flags & IFF_LOOPBACK) != 0)
        continue;
      sockaddr_in address{};
      std::memcpy(&address, one->ifa_addr, sizeof address);
      return address;
    }
    throw std::runtime_error("no network interface with an IPv4 address");
  }

  template <class Call>
  void move(std::size_t& done, const Call& call) {
    constexpr std::size_t kMost = 1 << 20;
    while (done < outgoing_.size()) {
      const std::size_t wanted = std::min(kMost, outgoing_.size() - done);
      const ssize_t moved = call(done, wanted);
      if (moved == 0) throw std::runtime_error("the peer closed the connection");
      if (moved < 0) {
        check(errno == EAGAIN || errno == EINTR ? 0 : -1, "send or recv");
        return;
      }
      done += static_cast<std::size_t>(moved);
      if (static_cast<std::size_t>(moved) < wanted) return;
    }
  }

  Socket connection_;
  std::vector<std::byte> outgoing_, incoming_;
  std::size_t sent_ = 0, received_ = 0;
};

struct Options {
  double megabytes = 16, factor = 1.5;
  int repetitions = 7;
  std::vector<double> intervals = {0.1, 0.5, 2};  // ms between two calls of progress()
};

class Bench {
 public:
  Bench(comm::World& world, const Options& options)
      : world_(world),
        group_(world.split(0)),
        options_(options),
        data_(static_cast<std::size_t>(options.megabytes * (1 << 20) / 4), 0.0F),
        workspace_(data_.size() + 1),
        sockets_(world, data_.size() * sizeof(float)) {}

  int run() {
    world_.barrier();
    const bench::Stopwatch calibration;
    bench::multiply_add(20'000'000);
    iterations_per_second_ = 20e6 / calibration.seconds();
    from_barrier([&] { communicate_only(); });  // the first call opens connections
    computation_ = options_.factor * from_barrier([&] { communicate_only(); });

    std::array<std::vector<double>, kContestants> alone_times;  // MPI_Allreduce's instead of the floor's
    std::vector<std::vector<double>> computing(kContestants * options_.intervals.size()),
        costs(computing.size());  // the time that concurrent communication adds
    for (int repetition = -1; repetition < options_.repetitions; ++repetition) {
      const auto keep = [&](std::vector<double>& list, double value) {
        if (repetition >= 0) list.push_back(value);
      };
      keep(alone_times[0], from_barrier([&] { communicate_only(); }));
      keep(alone_times[1], from_barrier([&] { mpi_nonblocking(); }));
      keep(alone_times[2], from_barrier([&] { mpi_blocking(); }));
      for (std::size_t i = 0; i < costs.size(); ++i) {
        const double interval = options_.intervals[i / kContestants] * 1e-3;
        const double computation = from_barrier([&] { compute_with(interval, [] { return true; }); });
        const double together = from_barrier([&] { beside(i % kContestants, interval); });
        keep(computing[i], computation);
        keep(costs[i], together - computation);
      }
    }
    if (world_.rank() == 0) report(alone_times, computing, costs);
    return 0;
  }

 private:
  static constexpr std::size_t kContestants = 3;

  // Runs the whole computation, calling `progress` after each `interval`; then waits for the remaining communication.
  template <class Progress>
  void compute_with(double interval, const Progress& progress) {
    const auto pieces = static_cast<std::int64_t>(computation_ / interval);
    const auto iterations = static_cast<std::int64_t>(interval * iterations_per_second_);
    bool done = false;
    for (std::int64_t i = 0; i < pieces; ++i) {
      bench::multiply_add(iterations);
      if (!done) done = progress();
    }
    for (comm::Backoff backoff; !done; backoff.pause()) done = progress();
  }

  // Contestant 0 is Weft, 1 is MPI, 2 is the sockets.
  void beside(std::size_t contestant, double interval) {
    if (contestant == 0) {
      group_->start(call());
      compute_with(interval, [&] { return group_->progress(); });
    } else if (contestant == 1) {
      MPI_Request request = start_mpi();
      compute_with(interval, [&] {
        int complete = 0;
        MPI_Test(&request, &complete, MPI_STATUS_IGNORE);
        return complete != 0;
      });
    } else {
      sockets_.start();
      compute_with(interval, [&] { return sockets_.progress(); });
    }
  }

  void mpi_nonblocking() {
    MPI_Request request = start_mpi();
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }

  MPI_Request start_mpi() {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallreduce(MPI_IN_PLACE, data_.data(), static_cast<int>(data_.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD,
                   &request);
    return request;
  }

  void mpi_blocking() {
    MPI_Allreduce(MPI_IN_PLACE, data_.data(), static_cast<int>(data_.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }

  void communicate_only() { comm::run_blocking(*group_, call()); }

  comm::CollectiveCall call() {
    return {comm::CollectiveKind::all_reduce,
            DType::f32,
            static_cast<std::int64_t>(data_.size()),
            0,
            nullptr,
            data_.data(),
            workspace_.data()};
  }

  template <class Function>
  double from_barrier(const Function& function) {
    world_.barrier();
    const bench::Stopwatch watch;
    function();
    return std::ranges::max(comm::of_ranks(world_, watch.seconds()));
  }

  void report(const std::array<std::vector<double>, kContestants>& alone,
              const std::vector<std::vector<double>>& computing, const std::vector<std::vector<double>>& costs) const {
    const double weft = median(alone[0]), nonblocking = median(alone[1]), blocking = median(alone[2]);
    fmt::print("alone, ms: weft {:.1f}, MPI_Allreduce {:.1f}, MPI_Iallreduce {:.1f}, computation {:.1f}\n\n",
               weft * 1e3, blocking * 1e3, nonblocking * 1e3, median(computing[0]) * 1e3);
    fmt::print(
        "| interval ms | weft adds ms | overlap % | bare sockets add ms | overlap % | MPI_Iallreduce adds ms | overlap "
        "% | MPI_Allreduce, then computing / weft |\n|---|---|---|---|---|---|---|---|\n");
    for (std::size_t i = 0; i < costs.size(); i += kContestants) {
      const double ours = median(costs[i]), theirs = median(costs[i + 1]), floor = median(costs[i + 2]);
      const double computation = median(computing[i]);
      const auto overlap = [&](double communication, double cost) {
        return 100 * (communication - cost) / std::min(communication, computation);
      };
      fmt::print("| {} | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {:.2f} |\n",
                 options_.intervals[i / kContestants], ours * 1e3, overlap(weft, ours), floor * 1e3,
                 overlap(weft, floor), theirs * 1e3, overlap(nonblocking, theirs),
                 (blocking + computation) / (computation + ours));
    }
  }

  comm::World& world_;
  std::unique_ptr<comm::Communicator> group_;
  Options options_;
  std::vector<float> data_, workspace_;
  SocketExchange sockets_;
  double iterations_per_second_ = 0, computation_ = 0;
};

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  weft::Options options;
  CLI::App app("how much of an all-reduce computation hides; under tools/netlab or mpirun", "bench_overlap");
  app.add_option("--megabytes", options.megabytes, "of the vector")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--factor", options.factor, "computation over communication")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--interval", options.intervals, "ms between calls")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--repetitions", options.repetitions, "of each line")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  return weft::bench::main_of(app, argc, argv, [&] {
    if (!weft::comm::launched_by_mpi()) throw CLI::ValidationError("start it with tools/netlab or mpirun");
    return weft::comm::run_mpi([&](weft::comm::World& world) { return weft::Bench(world, options).run(); });
  });
}
