// The world over MPI: start-up exchanges, splitting, and ending.
#include "runtime/comm/mpi.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <string_view>

#include "runtime/comm/backoff.h"
#include "runtime/comm/mpi_communicator.h"

#if defined(__SANITIZE_ADDRESS__)
// The leak sanitizer calls this. Open MPI leaks memory of components that it has unloaded by the end of the process;
// such a report names no module, so no suppression could match it.
extern "C" int __lsan_is_turned_off() {
  return weft::comm::launched_by_mpi() ? 1 : 0;
}
#endif

namespace weft::comm {
namespace {

constexpr std::size_t kBroadcastBytes = std::size_t{1} << 30;  // MPI counts are ints

// Blocks without keeping the core busy, unlike MPI_Wait.
void wait(MPI_Request request, std::string_view what, Backoff backoff = {}) {
  int complete = 0;
  for (;; backoff.pause()) {
    check_mpi(MPI_Test(&request, &complete, MPI_STATUS_IGNORE), what);
    if (complete != 0) return;
  }
}

MPI_Comm duplicate_of_world() {
  MPI_Comm comm = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "MPI_Comm_dup");
  return comm;
}

struct PlaceOnNode {
  int rank, ranks;
  std::vector<int> node_of_rank;  // by rank of the world: the lowest rank on the same node
};

PlaceOnNode place_on_node(const std::shared_ptr<MpiSession>& session, const CommHandle& world) {
  MPI_Comm node = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(world.get(), MPI_COMM_TYPE_SHARED, world.rank(), MPI_INFO_NULL, &node),
            "MPI_Comm_split_type");
  const CommHandle of_node(session, node);
  int first = world.rank();
  check_mpi(MPI_Bcast(&first, 1, MPI_INT, 0, node), "MPI_Bcast");
  std::vector<int> firsts(static_cast<std::size_t>(world.size()));
  check_mpi(MPI_Allgather(&first, 1, MPI_INT, firsts.data(), 1, MPI_INT, world.get()), "MPI_Allgather");
  return {of_node.rank(), of_node.size(), std::move(firsts)};
}

std::shared_ptr<MpiSession> begin_session() {
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized != 0) throw std::logic_error("MPI was initialised before in this process");
  return std::make_shared<MpiSession>();
}

class WorldOverMpi final : public MpiWorld {
 public:
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string name() const override { return "mpi"; }
  bool of_processes() const override { return true; }
  int ranks_on_node() const override { return on_node_.ranks; }
  int rank_on_node() const override { return on_node_.rank; }

  std::unique_ptr<Communicator> split(int color) override {
    // MPI refuses negative colours, so a group's colour is its first rank.
    const auto colors = all_gather(static_cast<std::uint64_t>(static_cast<std::int64_t>(color)));
    const auto own = colors[static_cast<std::size_t>(rank_)];
    const auto first_of_group = std::ranges::find(colors, own) - colors.begin();
    MPI_Comm comm = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split(world_.get(), static_cast<int>(first_of_group), rank_, &comm), "split");
    CommHandle group(session_, comm);
    const std::vector<int>& nodes = on_node_.node_of_rank;
    bool shared_memory = true;
    for (std::size_t r = 0; r < nodes.size(); ++r) {
      if (colors[r] == own && nodes[r] != nodes[static_cast<std::size_t>(rank_)]) shared_memory = false;
    }
    const MessageSizes sizes = message_sizes(group.size(), shared_memory);
    return make_mpi_communicator(std::move(group), sizes);
  }

  // Ranks that measure in turns wait here, on the cores of a rank that computes.
  void barrier() override {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Ibarrier(world_.get(), &request), "barrier");
    wait(request, "barrier", Backoff(std::chrono::milliseconds(20)));
  }

  void broadcast(std::vector<std::byte>& bytes, int root) override {
    std::uint64_t size = bytes.size();
    send_from(root, reinterpret_cast<std::byte*>(&size), sizeof size);
    bytes.resize(size);
    send_from(root, bytes.data(), bytes.size());
  }

  std::vector<std::uint64_t> all_gather(std::uint64_t value) override {
    std::vector<std::uint64_t> values(static_cast<std::size_t>(size_));
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Iallgather(&value, 1, MPI_UINT64_T, values.data(), 1, MPI_UINT64_T, world_.get(), &request),
              "all_gather");
    wait(request, "all_gather");
    return values;
  }

  std::vector<std::vector<std::byte>> all_gather_bytes(std::span<const std::byte> bytes) override {
    const auto sizes = all_gather(bytes.size());
    std::vector<std::vector<std::byte>> all(sizes.size());
    for (std::size_t r = 0; r < all.size(); ++r) {
      const bool own = static_cast<int>(r) == rank_;
      all[r] = own ? std::vector<std::byte>(bytes.begin(), bytes.end()) : std::vector<std::byte>(sizes[r]);
      send_from(static_cast<int>(r), all[r].data(), all[r].size());
    }
    return all;
  }

  void expect_peers() override {}  // a rank that gives up ends all processes

  void abort(const std::string&, int exit_code) override {
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    std::_Exit(exit_code);  // in case MPI couldn't end this process
  }

  bool all_say(std::uint64_t value, double seconds) override {
    // max(value) == min(value), and the minimum is the complement of the maximum of complements.
    said_ = {value, ~value};
    MPI_Request request = MPI_REQUEST_NULL;
    if (MPI_Iallreduce(said_.data(), greatest_.data(), 2, MPI_UINT64_T, MPI_MAX, failures_.get(), &request) !=
        MPI_SUCCESS) {
      return false;
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    int complete = 0;
    for (Backoff backoff; complete == 0; backoff.pause()) {
      if (MPI_Test(&request, &complete, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
      if (complete == 0 && std::chrono::steady_clock::now() > deadline) return false;
    }
    return greatest_[0] == ~greatest_[1];
  }

 private:
  void send_from(int root, std::byte* data, std::size_t size) const {
    for (std::size_t first = 0; first < size; first += kBroadcastBytes) {
      MPI_Request request = MPI_REQUEST_NULL;
      const auto count = static_cast<int>(std::min(kBroadcastBytes, size - first));
      check_mpi(MPI_Ibcast(data + first, count, MPI_BYTE, root, world_.get(), &request), "broadcast");
      wait(request, "broadcast");
    }
  }

  std::shared_ptr<MpiSession> session_ = begin_session();
  CommHandle world_{session_, duplicate_of_world()};
  CommHandle failures_{
      session_, duplicate_of_world()};  // separate, so that its messages can't match those of an interrupted exchange
  int rank_ = world_.rank();
  int size_ = world_.size();
  PlaceOnNode on_node_ = place_on_node(session_, world_);
  std::array<std::uint64_t, 2> said_{},
      greatest_{};  // of all_say(): must outlive an exchange that other ranks never join
};

}  // namespace

bool launched_by_mpi() {
  constexpr std::array variables = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK"};
  return std::ranges::any_of(variables, [](const char* name) { return std::getenv(name) != nullptr; });
}

std::string mpi_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string version(text.data());
  return version.substr(0, version.find(','));
}

bool launched_as_later_rank() {
  constexpr std::array variables = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"};
  return std::ranges::any_of(variables, [](const char* name) {
    const char* rank = std::getenv(name);
    return rank != nullptr && std::string_view(rank) != "0";
  });
}

std::unique_ptr<MpiWorld> make_mpi_world() {
  return std::make_unique<WorldOverMpi>();
}

}  // namespace weft::comm
