// Threads for local ranks, failures as values, and the choice of the rank that reports a failure.
#include "runtime/comm/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <ostream>
#include <thread>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "runtime/comm/local.h"
#include "runtime/comm/mpi.h"

namespace weft::comm {
namespace {

constexpr int kUserErrorCode = 2, kFaultCode = 3;
constexpr double kAgreementSeconds = 2.0;  // ranks that throw the same error do so at start-up, well within this time

struct Outcome {
  int exit_code = 0;
  std::optional<std::string> failure = {};
  bool peer_lost = false;
};

template <class Work>
Outcome run_caught(const Work& work) {
  try {
    return {work()};
  } catch (const UserError& error) {
    return {kUserErrorCode, error.what()};
  } catch (const PeerLost& error) {
    return {kFaultCode, error.what(), true};
  } catch (const std::exception& error) {
    return {kFaultCode, error.what()};
  } catch (...) {
    return {kFaultCode, "an exception of unknown type"};
  }
}

Outcome run_rank(const RankBody& body, World& world) {
  return run_caught([&] { return body(world); });
}

/// Reports a failure: of one rank, or without a rank if the failure belongs to all ranks or to none.
using Report = std::function<void(std::optional<int> rank, const std::string& message)>;

int run_and_report(int ranks, const RankBody& body, const Report& report) {
  const auto worlds = make_local_worlds(ranks);
  std::vector<Outcome> outcomes(worlds.size());
  std::mutex mutex;
  std::optional<std::size_t> first;  // the rank that failed first, other than by PeerLost
  const auto run = [&](std::size_t rank) {
    Outcome& outcome = outcomes[rank];
    outcome = run_rank(body, *worlds[rank]);
    if (!outcome.failure) return;
    if (!outcome.peer_lost) {
      const std::lock_guard lock(mutex);
      if (!first) first = rank;
    }
    // A rank that lost a peer may be the only one that noticed, by an error of its transport.
    worlds[rank]->abort(fmt::format("rank {} failed: {}", rank, *outcome.failure), outcome.exit_code);
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 1; rank < worlds.size(); ++rank) threads.emplace_back(run, rank);
    run(0);
  }
  if (!first) {
    // A body may call abort() without throwing; then abort()'s reason is the only text to report.
    const auto lost =
        std::ranges::find_if(outcomes, [](const Outcome& outcome) { return outcome.failure.has_value(); });
    if (lost != outcomes.end()) report(std::nullopt, *lost->failure);
    return std::ranges::max(outcomes, {}, &Outcome::exit_code).exit_code;
  }
  const auto& [exit_code, failure, peer_lost] = outcomes[*first];
  // Bad input is the same for all ranks of a process, so the message names no rank.
  const bool names_rank = exit_code != kUserErrorCode && ranks > 1;
  names_rank ? report(static_cast<int>(*first), fmt::format("rank {}: {}", *first, *failure))
             : report(std::nullopt, *failure);
  return exit_code;
}

}  // namespace

int run_ranks(int ranks, const RankBody& body) {
  return run_and_report(ranks, body, [](std::optional<int> rank, const std::string& message) {
    Log(LogTopic::run, rank).error("{}", message);
  });
}

int run_ranks(int ranks, const RankBody& body, std::ostream& errors) {
  return run_and_report(ranks, body, [&errors](std::optional<int>, const std::string& message) {
    errors << fmt::format("weft: error: {}\n", message) << std::flush;
  });
}

int run_mpi(const RankBody& body) {
  std::unique_ptr<MpiWorld> world;
  try {
    world = make_mpi_world();
  } catch (const RuntimeFault& error) {
    Log(LogTopic::comm).error("{}", error.what());
    return kFaultCode;
  }
  const auto [exit_code, failure, peer_lost] = run_rank(body, *world);
  if (!failure) return exit_code;
  const Log log(LogTopic::run, world->rank());
  // Only a UserError can be the same on all ranks, as it is thrown before any communication; other failures mustn't
  // wait.
  if (exit_code == kUserErrorCode && world->all_say(Fingerprint().add(*failure).value(), kAgreementSeconds)) {
    if (world->rank() == 0) log.error("{}", *failure);
    return exit_code;
  }
  log.error("{}", world->size() > 1 ? fmt::format("rank {}: {}", world->rank(), *failure) : *failure);
  world->abort(*failure, exit_code);
  return exit_code;
}

int run_tcp(const TcpLaunch& launch, const TcpSettings& settings, const RankBody& body) {
  const Log log(LogTopic::run, launch.rank);
  const auto report = [&](const std::string& text) { log.error("rank {}: {}", launch.rank, text); };
  std::unique_ptr<TcpWorld> world;
  const auto [exit_code, failure, peer_lost] = run_caught([&] {
    world = make_tcp_world(launch, settings);
    const int code = body(*world);
    world->leave();
    return code;
  });
  if (!failure) return exit_code;
  if (world == nullptr) {
    report(*failure);
    return exit_code;
  }
  RunEnd end;
  if (world->ended(end)) {  // because of another rank, mostly
    if (peer_lost && !world->speaks_for(end)) return end.code;
    report(*failure);
    return peer_lost ? end.code : exit_code;
  }
  end = world->give_up(*failure, exit_code);
  if (end.rank >= 0) {
    report(*failure);
  } else if (launch.rank == 0) {
    log.error("{}", *failure);
  }
  return exit_code;
}

}  // namespace weft::comm
