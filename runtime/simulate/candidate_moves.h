// Moves to try for a group of exposed collectives: from one computation earlier to as early as the data allow.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "runtime/simulate/exposed_collective.h"
#include "runtime/simulate/remedy.h"

namespace weft::simulate {

struct CandidateMoves {
  RemedyKind kind = RemedyKind::issue_earlier;
  std::string what = {};
  std::vector<OrderMove> moves = {}, worst = {};  // of all collectives, and of the worst alone
  std::size_t collectives = 0;                    // number of collectives that it concerns
  std::size_t computations = 0;                   // number of computations that move
};

/// Finds candidates in the order of one simulated step; both must outlive it. Within a kind, candidates that change
/// less come first. Their number doesn't depend on the number of tasks, but for a logarithm.
class CandidateSearch {
 public:
  CandidateSearch(const SimulatedStep& step, const plan::Order& order);

  /// `members`: equal collectives, the most exposed first.
  std::vector<CandidateMoves> candidates(const std::vector<ExposedCollective>& members) const;

 private:
  /// The moves of one collective; without moves the candidate doesn't concern it.
  struct Own {
    std::vector<OrderMove> moves = {};
    std::string what = {};
    std::size_t computations = 0;  // number of computations that go along, without moves of their own
  };
  /// Computations that could run while a collective does.
  struct Filling {
    std::vector<graph::TaskId> tasks = {};  // in the order of the sequence
    graph::TaskId before = {};              // the first computation that needs the collective
    graph::TaskId largest = {}, of_other_pass = {};
    double ns = 0;
  };
  using Generator = std::function<Own(const ExposedCollective&)>;
  using List = std::vector<CandidateMoves>;

  void add(List& list, RemedyKind kind, const std::vector<ExposedCollective>& members, const Generator& own) const;
  void add_earlier(List& list, const std::vector<ExposedCollective>& members) const;
  void add_later(List& list, const std::vector<ExposedCollective>& members) const;
  void add_local(List& list, const std::vector<ExposedCollective>& members) const;
  /// Which computations may run while a collective does.
  struct FillingRule {
    bool same_pass = true;     // of the collective's own pass alone
    bool collectives = false;  // they may take along collectives that lead to them
    double share = 1;          // of the time for which it is exposed that they take at least, if there are enough
  };
  Filling filling(const ExposedCollective& collective, const plan::Order& order, const std::vector<bool>& moved,
                  const FillingRule& rule) const;
  void add_computations_first(List& list, const std::vector<ExposedCollective>& members, const FillingRule& rule) const;

  Own earlier(const ExposedCollective& collective, std::size_t computations) const;
  Own to_hide(const ExposedCollective& collective, double share) const;
  Own with_collective(const ExposedCollective& collective, std::size_t collectives) const;
  Own pass(const ExposedCollective& collective, std::size_t collectives) const;
  Own later(const ExposedCollective& collective, std::size_t computations) const;
  Own apart(const ExposedCollective& collective, bool first) const;
  /// After that many computations of the pass, and until those after it take `ns`; other local tasks go along.
  Own local_later(const ExposedCollective& collective, std::size_t computations, double ns) const;
  Own local_earlier(const ExposedCollective& collective, std::size_t computations) const;
  Own unblock(const ExposedCollective& collective) const;

  /// Before the computation of this number, and after the one before it.
  Own issue_at(const ExposedCollective& collective, std::size_t number) const;
  std::size_t place(graph::TaskId task) const { return place_[task.index()]; }
  /// Number of computations that come before a place.
  std::size_t before(std::size_t place) const { return before_[place]; }
  /// Number of computations up to the last of a task's inputs.
  std::size_t least(graph::TaskId task) const;
  const std::string& name(std::size_t number) const { return step_.name(computations_[number]); }
  /// The collective's predecessor on its stream, that many collectives earlier; invalid if there is none.
  graph::TaskId ahead(graph::TaskId collective, std::size_t collectives) const;

  const SimulatedStep& step_;
  const plan::Order& order_;
  std::vector<std::size_t> place_;           // by task: its index in the sequence
  std::vector<graph::TaskId> computations_;  // in the order of the sequence
  std::vector<std::size_t> before_;          // by place
};

}  // namespace weft::simulate
