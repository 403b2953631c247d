// Code that all communicators share: checks and descriptions of calls, and waiting for a call to complete.
#include "runtime/comm/communicator.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "base/error.h"
#include "runtime/comm/backoff.h"

namespace weft::comm {

std::string_view to_string(CollectiveKind kind) {
  constexpr std::array<std::string_view, 6> kNames = {"all_reduce", "reduce_scatter", "all_gather",
                                                      "broadcast",  "all_to_all",     "exchange_rows"};
  return kNames.at(static_cast<std::size_t>(kind));
}

void World::broadcast(std::vector<std::byte>& bytes, int root) {
  auto all = all_gather_bytes(rank() == root ? std::span<const std::byte>(bytes) : std::span<const std::byte>());
  bytes = std::move(all[static_cast<std::size_t>(root)]);
}

std::vector<std::uint64_t> World::all_gather(std::uint64_t value) {
  return of_ranks(*this, value);
}

void run_blocking(Communicator& communicator, const CollectiveCall& call) {
  communicator.start(call);
  for (Backoff backoff; !communicator.progress();) backoff.pause();
}

std::string describe(const CollectiveCall& call) {
  std::string text = fmt::format("{} of {} {}", to_string(call.kind), call.count, to_string(call.dtype));
  if (call.kind == CollectiveKind::broadcast) text += fmt::format(" from rank {}", call.root);
  if (call.parts > 1) text += fmt::format(" in {} parts", call.parts);
  if (call.table.experts > 0) text += fmt::format(" of {} rows for {} experts", call.table.rows, call.table.experts);
  return text;
}

std::vector<RowRun> row_runs(const CollectiveCall& call, int ranks, int giver, int holder) {
  const RowTable& table = call.table;
  const std::int64_t own = table.experts / ranks, first = holder * own;
  const auto begin = [&](std::int64_t rank, std::int64_t expert) {
    return static_cast<std::int64_t>(table.offsets[rank * (table.experts + 1) + expert]);
  };
  std::vector<RowRun> runs;
  std::int64_t held = 0;
  for (std::int64_t expert = first; expert < first + own; ++expert) {
    for (int rank = 0; rank < ranks; ++rank) {
      const std::int64_t rows = begin(rank, expert + 1) - begin(rank, expert);
      const std::int64_t of_rank = begin(rank, first + own) - begin(rank, first);  // to all of the holder's experts
      if (rows < 0 || begin(rank, expert) < 0 || begin(rank, expert + 1) > table.rows || of_rank > table.most / ranks ||
          held + rows > table.most) {
        throw RuntimeFault(fmt::format("{}: rank {} of the group can't give {} rows to expert {}", describe(call), rank,
                                       rows, expert));
      }
      if (rank == giver) runs.push_back({begin(rank, expert), held, rows});
      held += rows;
    }
  }
  return runs;
}

std::vector<std::int32_t> even_row_table(std::int64_t ranks, std::int64_t experts, std::int64_t rows) {
  std::vector<std::int32_t> table;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    for (std::int64_t expert = 0; expert <= experts; ++expert)
      table.push_back(static_cast<std::int32_t>(rows * expert / experts));
  }
  return table;
}

void check_call(const CollectiveCall& call, int ranks) {
  const char* wrong = nullptr;
  if (call.count < 0) {
    wrong = "negative count";
  } else if (call.parts < 1 || (call.kind != CollectiveKind::all_to_all && call.parts > 1)) {
    wrong = "parts of another collective";
  } else if (call.inverse && call.kind != CollectiveKind::all_to_all && call.kind != CollectiveKind::exchange_rows) {
    wrong = "a way back of another collective";
  } else if ((call.kind == CollectiveKind::exchange_rows) != (call.table.offsets != nullptr)) {
    wrong = "a table of another collective, or none";
  } else if (call.table.experts % ranks != 0 || call.table.most % ranks != 0) {
    wrong = "experts, or places for rows, that the ranks don't divide";
  } else if (call.root < 0 || call.root >= ranks) {
    wrong = "root outside the group";
  } else if (call.count > 0 && (call.out == nullptr || (!call.in_place() && call.in == nullptr))) {
    wrong = "missing buffer";
  } else if (call.count > 0 && call.sums() && ranks > 1 && call.workspace == nullptr) {
    wrong = "missing workspace";
  }
  if (wrong != nullptr) throw std::logic_error(fmt::format("{}: {}", describe(call), wrong));
}

}  // namespace weft::comm
