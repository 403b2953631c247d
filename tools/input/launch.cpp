#include "tools/input/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "runtime/comm/mpi.h"

namespace weft::tools {
namespace {

constexpr int kUsualPort = 29500;  // torch's
constexpr int kMostRanks = 1 << 20, kMostPort = 65535;

/// A variable's number; empty if it isn't set.
std::optional<int> number_of(const Environment& environment, const char* name, int least, int most) {
  const std::optional<std::string> text = environment(name);
  if (!text) return std::nullopt;
  int number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc() || end != text->data() + text->size() || number < least || number > most) {
    throw UserError(fmt::format("{} = '{}' in the environment", name, *text),
                    fmt::format("a number from {} to {}", least, most),
                    fmt::format("set {} as launchers do (docs/cluster.md), or unset it", name));
  }
  return number;
}

void expect_rank(int rank, int ranks, const char* name, const char* count) {
  if (rank < ranks) return;
  throw UserError(fmt::format("{} = {} with {} = {}", name, rank, count, ranks),
                  fmt::format("a rank from 0 to {}", ranks - 1), "give each process its own, counted from 0");
}

/// RANK and WORLD_SIZE, of torchrun or of a person.
std::optional<comm::TcpLaunch> by_rank_and_size(const Environment& environment, bool torchrun) {
  const std::optional<int> rank = number_of(environment, "RANK", 0, kMostRanks);
  const std::optional<int> ranks = number_of(environment, "WORLD_SIZE", 1, kMostRanks);
  if (!rank || !ranks) {
    if (!rank == !ranks || !environment("MASTER_ADDR")) return std::nullopt;
    throw UserError(fmt::format("{} and MASTER_ADDR in the environment without {}", rank ? "RANK" : "WORLD_SIZE",
                                rank ? "WORLD_SIZE" : "RANK"),
                    "both, RANK and WORLD_SIZE", "set both, or unset MASTER_ADDR");
  }
  expect_rank(*rank, *ranks, "RANK", "WORLD_SIZE");
  comm::TcpLaunch launch{.rank = *rank, .ranks = *ranks};
  launch.rank_on_node = number_of(environment, "LOCAL_RANK", 0, kMostRanks).value_or(-1);
  launch.host = environment("MASTER_ADDR").value_or(launch.host);
  launch.port = number_of(environment, "MASTER_PORT", 1, kMostPort).value_or(kUsualPort);
  if (number_of(environment, "LOCAL_WORLD_SIZE", 1, kMostRanks) == ranks) launch.host = "127.0.0.1";
  if (!torchrun) return launch;
  launch.run = fmt::format("torchrun/{}/{}", *environment("TORCHELASTIC_RUN_ID"),
                           environment("TORCHELASTIC_RESTART_COUNT").value_or("0"));
  // torchrun listens at MASTER_PORT itself.
  if (environment("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True") {
    launch.port += launch.port < kMostPort ? 1 : -1;
  }
  return launch;
}

std::optional<comm::TcpLaunch> by_slurm(const Environment& environment) {
  // Batch scripts and shells of salloc have SLURM_PROCID and SLURM_NTASKS too; only srun sets variables of a step.
  const std::optional<int> ranks = number_of(environment, "SLURM_STEP_NUM_TASKS", 1, kMostRanks);
  const std::optional<int> rank = number_of(environment, "SLURM_PROCID", 0, kMostRanks);
  if (!rank || !ranks) return std::nullopt;
  expect_rank(*rank, *ranks, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS");
  comm::TcpLaunch launch{.rank = *rank, .ranks = *ranks};
  launch.rank_on_node = number_of(environment, "SLURM_LOCALID", 0, kMostRanks).value_or(-1);
  launch.run =
      fmt::format("slurm/{}.{}", environment("SLURM_JOB_ID").value_or("?"), environment("SLURM_STEP_ID").value_or("?"));
  if (environment("SLURM_STEP_NUM_NODES") != "1") {
    launch.host = environment("MASTER_ADDR").value_or(first_host(environment("SLURM_STEP_NODELIST").value_or("")));
  }
  // Steps that run at once on one machine get different ports, below those that systems give away.
  constexpr int kFirst = 20000, kCount = 10000;
  std::uint64_t sum = 0;
  for (const char c : launch.run) sum = sum * 31 + static_cast<unsigned char>(c);
  launch.port = number_of(environment, "MASTER_PORT", 1, kMostPort).value_or(kFirst + static_cast<int>(sum % kCount));
  return launch;
}

}  // namespace

Environment process_environment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing here changes it
    return value == nullptr || *value == '\0' ? std::nullopt : std::optional<std::string>(value);
  };
}

std::string first_host(const std::string& list) {
  const std::size_t end = list.find_first_of(",[");
  if (end == std::string::npos || list[end] == ',') return list.substr(0, end);
  const std::size_t begin = end + 1;
  return list.substr(0, end) + list.substr(begin, list.find_first_of(",-]", begin) - begin);
}

std::optional<comm::TcpLaunch> tcp_launch(const Environment& environment) {
  constexpr std::array kOfMpi = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK"};
  const bool torchrun = environment("TORCHELASTIC_RUN_ID").has_value();  // also where srun starts torchrun
  if (!torchrun && std::ranges::any_of(kOfMpi, [&](const char* name) { return environment(name).has_value(); })) {
    return std::nullopt;
  }
  std::optional<comm::TcpLaunch> launch = by_rank_and_size(environment, torchrun);
  if (!launch) launch = by_slurm(environment);
  if (!launch || launch->ranks == 1) return std::nullopt;
  if (const auto home = environment("HOME")) launch->token_file = *home + "/.weft-token";
  return launch;
}

train::RunConfig launched(train::RunConfig config) {
  config.launch = tcp_launch(process_environment());
  return config;
}

bool launched_as_later_rank() {
  try {
    const std::optional<comm::TcpLaunch> launch = tcp_launch(process_environment());
    return launch ? launch->rank > 0 : comm::launched_as_later_rank();
  } catch (const UserError&) {
    return false;
  }
}

}  // namespace weft::tools
