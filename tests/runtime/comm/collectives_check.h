// The collectives' test that every transport must pass, bit for bit: shared by the local test and the MPI check.
#pragma once

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "base/dtype.h"
#include "base/hash.h"
#include "graph/operation.h"
#include "runtime/comm/communicator.h"

namespace weft::test {

/// Element `index` of `rank`'s contribution: any bits for integers; floats of both signs over 17 powers of two, so that
/// the order of a sum shows in its bits.
template <class T>
T element(std::uint64_t salt, int rank, std::int64_t index) {
  std::uint64_t x = salt * 0x9e3779b97f4a7c15ULL + static_cast<std::uint64_t>(rank) * 0xd1b54a32d192ed03ULL +
                    static_cast<std::uint64_t>(index);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  x ^= x >> 31;
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(x);
  } else {
    const auto exponent = static_cast<std::uint32_t>(127 - 8 + (x >> 32) % 17);
    return T(std::bit_cast<float>((static_cast<std::uint32_t>(x >> 40) & 0x80000000U) | (exponent << 23) |
                                  (static_cast<std::uint32_t>(x) & 0x007fffffU)));
  }
}

/// The expected sum: added in fp32 (integers wrap) in rank order, rounded once.
template <class T>
T sum_of_ranks(std::uint64_t salt, int ranks, std::int64_t index) {
  if constexpr (std::is_integral_v<T>) {
    std::make_unsigned_t<T> sum = 0;
    for (int r = 0; r < ranks; ++r) sum += static_cast<std::make_unsigned_t<T>>(element<T>(salt, r, index));
    return static_cast<T>(sum);
  } else {
    float sum = static_cast<float>(element<T>(salt, 0, index));
    for (int r = 1; r < ranks; ++r) sum += static_cast<float>(element<T>(salt, r, index));
    return T(sum);
  }
}

/// One collective of one communicator: its buffers with guard elements around them, and the expected result.
template <class T>
class Case {
 public:
  Case(comm::CollectiveKind kind, DType dtype, int rank, int ranks, std::int64_t count, std::int64_t root,
       bool in_place, std::uint64_t salt)
      : rank_(rank), ranks_(ranks), salt_(salt) {
    const bool scatters = kind == comm::CollectiveKind::reduce_scatter,
               gathers = kind == comm::CollectiveKind::all_gather, exchanges = kind == comm::CollectiveKind::all_to_all;
    const std::int64_t parts = exchanges && in_place ? 3 : 1;
    in_.assign(guarded(scatters || exchanges ? ranks * parts * count : gathers ? count : 0), kGuard);
    out_.assign(guarded(gathers || exchanges ? ranks * parts * count : count), kGuard);
    workspace_.assign(guarded(scatters                                   ? (ranks - 1) * count
                              : kind == comm::CollectiveKind::all_reduce ? graph::all_reduce_workspace(count, ranks)
                                                                         : 0),
                      kGuard);
    call_ = {kind, dtype, count, root, in_.data() + kMargin, out_.data() + kMargin, workspace_.data() + kMargin};
    call_.parts = parts;
    call_.inverse = parts > 1 && count % 2 == 1;
    auto& source = scatters || gathers || exchanges ? in_ : out_;
    for (std::size_t i = kMargin; i + kMargin < source.size(); ++i) {
      source[i] = element<T>(salt, rank, static_cast<std::int64_t>(i) - kMargin);
    }
    if (in_place && scatters) call_.out = in_.data() + kMargin + rank * count;
    if (in_place && gathers) {
      std::copy(in_.begin() + kMargin, in_.end() - kMargin, out_.begin() + kMargin + rank * count);
      call_.in = out_.data() + kMargin + rank * count;
    }
  }
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  const comm::CollectiveCall& call() const { return call_; }

  /// "" or the first difference; adds the result to `hash`.
  std::string check(Fingerprint& hash) const {
    const bool gathers = call_.kind == comm::CollectiveKind::all_gather,
               exchanges = call_.kind == comm::CollectiveKind::all_to_all;
    const std::int64_t results = gathers || exchanges ? ranks_ * call_.parts * call_.count : call_.count;
    const T* result = static_cast<const T*>(call_.out);
    hash.add(results);
    if (results > 0) hash.add_bytes(result, static_cast<std::size_t>(results) * sizeof(T));
    for (std::int64_t i = 0; i < results; ++i) {
      const T expected = expected_at(i);
      if (std::memcmp(&expected, &result[i], sizeof(T)) != 0) return fmt::format("{}: element {} differs", name(), i);
    }
    for (const auto* buffer : {&in_, &out_, &workspace_}) {
      for (std::size_t i = 0; i < kMargin; ++i) {
        for (const T& guard : {(*buffer)[i], (*buffer)[buffer->size() - 1 - i]}) {
          if (std::memcmp(&guard, &kGuard, sizeof(T)) != 0) return name() + ": wrote outside of its buffers";
        }
      }
    }
    return {};
  }

 private:
  static constexpr std::int64_t kMargin = 8;
  inline static const T kGuard = T(77);

  static std::size_t guarded(std::int64_t count) { return static_cast<std::size_t>(count + 2 * kMargin); }
  std::string name() const {
    return fmt::format("{} of {} {} over {} ranks, root {}", comm::to_string(call_.kind), call_.count,
                       to_string(call_.dtype), ranks_, call_.root);
  }
  T expected_at(std::int64_t i) const {
    switch (call_.kind) {
      case comm::CollectiveKind::all_reduce:
        return sum_of_ranks<T>(salt_, ranks_, i);
      case comm::CollectiveKind::reduce_scatter:
        return sum_of_ranks<T>(salt_, ranks_, rank_ * call_.count + i);
      case comm::CollectiveKind::all_gather:
        return element<T>(salt_, static_cast<int>(i / call_.count), i % call_.count);
      case comm::CollectiveKind::broadcast:
        return element<T>(salt_, static_cast<int>(call_.root), i);
      case comm::CollectiveKind::all_to_all:
        return element_for_this_rank(i / call_.count, i % call_.count);
      case comm::CollectiveKind::exchange_rows:  // has a case of its own
        break;
    }
    return kGuard;
  }

  // Of an all_to_all, of block `block` of the result.
  T element_for_this_rank(std::int64_t block, std::int64_t within) const {
    const std::int64_t parts = call_.parts;
    const std::int64_t peer = call_.inverse ? block / parts : block % ranks_;
    const std::int64_t part = call_.inverse ? block % parts : block / ranks_;
    const std::int64_t given = call_.inverse ? part * ranks_ + rank_ : rank_ * parts + part;
    return element<T>(salt_, static_cast<int>(peer), given * call_.count + within);
  }

  int rank_, ranks_;
  std::uint64_t salt_;
  comm::CollectiveCall call_{};
  std::vector<T> in_, out_, workspace_;
};

/// Rows that go to the ranks of their experts, and come back, in buffers for any choice. `shares` says which rows go
/// where: uneven, some experts without any; or all to the last rank's last experts.
enum class RowShares { uneven, all_to_one };

template <class T>
class RowsCase {
 public:
  RowsCase(DType dtype, int rank, int ranks, std::int64_t count, std::int64_t rows, RowShares shares,
           std::uint64_t salt)
      : ranks_(ranks), experts_(ranks * kOwn), most_(static_cast<std::size_t>(ranks * rows * count)) {
    for (int giver = 0; giver < ranks; ++giver) {
      std::vector<std::int64_t> weights;
      for (std::int64_t e = 0; e < experts_; ++e) {
        const bool last = e + 1 == experts_;
        weights.push_back(shares == RowShares::uneven ? (giver * 5 + e * 3) % 4 : last ? 1 : 0);
      }
      std::int64_t all = 0, until = 0;
      for (const std::int64_t weight : weights) all += weight;
      table_.push_back(0);
      for (const std::int64_t weight : weights) {
        until += weight;
        table_.push_back(static_cast<std::int32_t>(rows * until / all));
      }
    }
    own_ = filled(rows * count, rank, salt);
    own_.resize(own_.size() + kMargin, kGuard);
    held_.assign(most_ + kMargin, kGuard);
    back_.assign(static_cast<std::size_t>(rows * count) + kMargin, kGuard);
    expected_.assign(held_.size(), kGuard);
    std::int64_t place = 0;
    for (std::int64_t e = rank * kOwn; e < (rank + 1) * kOwn; ++e) {
      for (int giver = 0; giver < ranks; ++giver) {
        const std::vector<T> all = filled(rows * count, giver, salt);
        for (std::int64_t row = offset(giver, e); row < offset(giver, e + 1); ++row, ++place) {
          std::copy_n(all.begin() + row * count, count, expected_.begin() + place * count);
        }
      }
    }
    filled_ = static_cast<std::size_t>(place * count);
    there_ = {comm::CollectiveKind::exchange_rows, dtype, count, 0, own_.data(), held_.data(), nullptr};
    there_.table = {table_.data(), experts_, rows, ranks * rows};
    back_again_ = there_;
    back_again_.inverse = true;
    back_again_.in = held_.data();
    back_again_.out = back_.data();
  }
  RowsCase(const RowsCase&) = delete;
  RowsCase& operator=(const RowsCase&) = delete;

  const comm::CollectiveCall& there() const { return there_; }
  const comm::CollectiveCall& back() const { return back_again_; }

  /// After both ways. `rest_stays`: rows that nobody gave are as before.
  std::string check(Fingerprint& hash, bool rest_stays = true) {
    if (!rest_stays) std::fill_n(held_.data() + filled_, most_ - filled_, kGuard);
    hash.add_bytes(held_.data(), held_.size() * sizeof(T)).add_bytes(back_.data(), back_.size() * sizeof(T));
    const std::string name = fmt::format("{} over {} ranks", comm::describe(there_), ranks_);
    if (std::memcmp(held_.data(), expected_.data(), held_.size() * sizeof(T)) != 0) return name + ": held rows differ";
    const bool equal = std::memcmp(back_.data(), own_.data(), own_.size() * sizeof(T)) == 0;
    return equal ? "" : name + ": rows that came back differ";
  }

 private:
  static constexpr std::int64_t kOwn = 3;
  static constexpr std::size_t kMargin = 8;
  inline static const T kGuard = T(77);

  static std::vector<T> filled(std::int64_t count, int rank, std::uint64_t salt) {
    std::vector<T> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(element<T>(salt, rank, i));
    return values;
  }
  std::int64_t offset(int giver, std::int64_t expert) const {
    return table_[static_cast<std::size_t>(giver * (experts_ + 1) + expert)];
  }

  int ranks_;
  std::int64_t experts_;
  std::size_t most_, filled_ = 0;  // elements that the experts have place for, and that they get
  std::vector<std::int32_t> table_;
  std::vector<T> own_, held_, back_, expected_;
  comm::CollectiveCall there_{}, back_again_{};
};

inline constexpr comm::CollectiveKind kAllKinds[] = {
    comm::CollectiveKind::all_reduce, comm::CollectiveKind::reduce_scatter, comm::CollectiveKind::all_gather,
    comm::CollectiveKind::broadcast, comm::CollectiveKind::all_to_all};

struct CheckResult {
  std::uint64_t hash = 0;             // of all results of all ranks: equal on every rank and transport
  std::vector<std::string> failures;  // of this rank
};

/// Collects the messages of one rank's checks.
class Checks {
 public:
  template <class Finished>
  void add(Finished& finished) {
    const std::string failure = finished.check(hash_);
    if (!failure.empty()) failures_.push_back(failure);
  }
  CheckResult result(comm::World& world) const {
    Fingerprint all;
    for (const std::uint64_t hash : world.all_gather(hash_.value())) all.add(hash);
    return {all.value(), failures_};
  }

 private:
  Fingerprint hash_;
  std::vector<std::string> failures_;
};

/// All kinds and counts of one dtype, back to back; "in place" is an all_to_all of three parts, with no barrier between
/// them.
template <class T>
void check_back_to_back(comm::Communicator& group, DType dtype, Checks& checks) {
  std::uint64_t salt = 1;
  for (const std::int64_t count : {0, 1, 7, 1003, 1503, 20000, 1200011}) {
    for (const comm::CollectiveKind kind : kAllKinds) {
      for (const bool in_place : {false, true}) {
        if (in_place && count > 20000) continue;
        const std::int64_t root = in_place ? 0 : group.size() - 1;
        Case<T> one(kind, dtype, group.rank(), group.size(), count, root, in_place, ++salt);
        comm::run_blocking(group, one.call());
        checks.add(one);
      }
    }
  }
}

/// Exchanges of rows, there and back: of no rows, of one, and of more than a call of progress() copies.
template <class T>
void check_rows(comm::Communicator& group, DType dtype, Checks& checks) {
  std::uint64_t salt = 1000;
  for (const std::int64_t rows : {0, 1, 5, 61, 1500}) {
    for (const std::int64_t count : {1, 7, 300}) {
      for (const RowShares shares : {RowShares::uneven, RowShares::all_to_one}) {
        RowsCase<T> one(dtype, group.rank(), group.size(), count, rows, shares, ++salt);
        comm::run_blocking(group, one.there());
        comm::run_blocking(group, one.back());
        checks.add(one);
      }
    }
  }
}

/// Two groups' collectives at once, started in different orders on different ranks, with computing between calls.
inline void check_two_in_flight(comm::Communicator& first, comm::Communicator& second, int world_rank, Checks& checks) {
  for (const std::int64_t count : {5, 30000, 700001}) {
    Case<float> a(comm::CollectiveKind::all_reduce, DType::f32, first.rank(), first.size(), count, 0, false, 100);
    Case<bf16> b(comm::CollectiveKind::all_gather, DType::bf16, second.rank(), second.size(), count + 3, 0, false, 101);
    if (world_rank % 2 == 0) {
      first.start(a.call());
      second.start(b.call());
    } else {
      second.start(b.call());
      first.start(a.call());
    }
    for (bool done = false; !done;) {
      const bool a_done = first.progress(), b_done = second.progress();
      done = a_done && b_done;
      volatile float work = 1;
      for (int i = 0; i < 1000 * (1 + world_rank); ++i) work = work * 1.0001F;
    }
    checks.add(a);
    checks.add(b);
  }
}

/// Everything above on groups of the whole world, of ranks of equal parity, and in reverse splits. Collective.
inline CheckResult check_collectives(comm::World& world) {
  Checks checks;
  const auto everybody = world.split(0);
  const auto again = world.split(7);
  const auto parity = world.split(-(world.rank() % 2));
  check_back_to_back<float>(*everybody, DType::f32, checks);
  check_back_to_back<bf16>(*everybody, DType::bf16, checks);
  check_back_to_back<std::int32_t>(*everybody, DType::i32, checks);
  check_back_to_back<float>(*parity, DType::f32, checks);
  check_rows<float>(*everybody, DType::f32, checks);
  check_rows<bf16>(*everybody, DType::bf16, checks);
  check_rows<float>(*parity, DType::f32, checks);
  check_two_in_flight(*everybody, *again, world.rank(), checks);
  check_two_in_flight(*parity, *everybody, world.rank(), checks);
  return checks.result(world);
}

/// The world's blocking exchanges; "" or a description of the error.
inline std::string check_world(comm::World& world) {
  const int rank = world.rank(), size = world.size();
  if (world.ranks_on_node() < 1 || world.ranks_on_node() > size) return "ranks_on_node";
  if (world.rank_on_node() < 0 || world.rank_on_node() >= world.ranks_on_node()) return "rank_on_node";
  for (int root = 0; root < size; ++root) {
    std::vector<std::byte> bytes(rank == root ? 1000U + static_cast<unsigned>(root) : 3U, static_cast<std::byte>(rank));
    world.broadcast(bytes, root);
    if (bytes != std::vector<std::byte>(1000U + static_cast<unsigned>(root), static_cast<std::byte>(root))) {
      return "broadcast";
    }
  }
  const auto values = world.all_gather(static_cast<std::uint64_t>(rank) << 40U);
  const std::vector<std::byte> own(static_cast<std::size_t>(rank) * 5, static_cast<std::byte>(rank));
  const auto all = world.all_gather_bytes(own);
  if (values.size() != static_cast<std::size_t>(size) || all.size() != values.size()) return "number of values";
  for (std::size_t r = 0; r < values.size(); ++r) {
    if (values[r] != static_cast<std::uint64_t>(r) << 40U) return "all_gather";
    if (all[r] != std::vector<std::byte>(r * 5, static_cast<std::byte>(r))) return "all_gather_bytes";
  }
  world.barrier();
  const auto group = world.split(rank == 0 ? 5 : -1);
  const int expected_size = rank == 0 ? 1 : size - 1;
  if (group->size() != expected_size || group->rank() != (rank == 0 ? 0 : rank - 1)) return "split";
  return {};
}

}  // namespace weft::test
