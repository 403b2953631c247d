// The search for proofs by milestones.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "runtime/simulate/certify/interior_point.h"
#include "runtime/simulate/certify/milestones.h"

namespace weft::simulate {
namespace {

/// The `most` longest tasks of a longest path, or all of its tasks that take any time.
std::vector<std::uint32_t> longest_chain(const StepModel& model, std::size_t most) {
  const std::vector<double> head = model.longest_paths(true);
  std::uint32_t end = 0;
  for (const std::uint32_t node : model.order()) {
    if (head[node] + model.cost(node) > head[end] + model.cost(end)) end = node;
  }
  std::vector<std::uint32_t> chain = {end};
  while (!model.before(chain.back()).empty()) {
    chain.push_back(*std::ranges::max_element(model.before(chain.back()), {}, [&](std::uint32_t source) {
      return std::pair(head[source] + model.cost(source), source);
    }));
  }
  std::ranges::reverse(chain);
  std::erase_if(chain, [&](std::uint32_t node) { return model.cost(node) == 0; });
  if (chain.size() <= most) return chain;
  std::vector<std::uint32_t> by_cost = chain;
  std::ranges::stable_sort(by_cost, std::ranges::greater(), [&](std::uint32_t node) { return model.cost(node); });
  const std::set<std::uint32_t> kept(by_cost.begin(), by_cost.begin() + static_cast<std::ptrdiff_t>(most));
  std::erase_if(chain, [&](std::uint32_t node) { return !kept.contains(node); });
  return chain;
}

/// Parts of one section that get equal prices: the waits, or the parts whose milestones one queue serves.
struct EqualParts {
  std::uint32_t section = 0;
  Charge charge;
  double ns = 0;  // of their milestones
};

class Sections {
 public:
  Sections(const StepModel& model, const MilestoneParts& parts, std::size_t count) {
    double all = 0, done = 0;
    for (const std::uint32_t milestone : parts.chain()) all += model.cost(milestone);
    std::map<std::pair<std::uint32_t, std::int64_t>, std::uint32_t> known;
    std::uint32_t section = 0;
    for (std::uint32_t part = 0; part < parts.count(); ++part) {
      const bool waits = MilestoneParts::is_wait(part);
      double ns = 0;
      std::int64_t queue = Charge::kWaits;
      if (!waits) {
        const std::uint32_t milestone = parts.milestone_in(part);
        ns = model.cost(milestone);
        done += ns;
        section = std::min(static_cast<std::uint32_t>(done / all * static_cast<double>(count) * (1 - 1e-9)),
                           static_cast<std::uint32_t>(count - 1));
        queue = model.queues(milestone).empty() ? Charge::kAll : std::int64_t{model.queues(milestone).front()};
      }
      if (first_.empty() || sections_.back() != section) {
        first_.push_back(part);
        sections_.push_back(section);
      }
      const auto number = static_cast<std::uint32_t>(first_.size() - 1);
      const auto [found, is_new] = known.try_emplace(std::pair(number, queue), equal_parts_.size());
      if (is_new)
        equal_parts_.push_back(
            {number, {part, part, waits ? Charge::kWaits : static_cast<std::int32_t>(part / 2), 0}, 0});
      equal_parts_[found->second].ns += ns;
      equal_parts_[found->second].charge.last = part;
      of_part_.push_back(found->second);
    }
  }

  std::size_t count() const { return first_.size(); }
  std::uint32_t first_part(std::size_t section) const { return first_[section]; }
  const std::vector<EqualParts>& equal_parts() const { return equal_parts_; }
  std::uint32_t of(std::uint32_t part) const { return of_part_[part]; }

 private:
  std::vector<std::uint32_t> first_, sections_;  // by section
  std::vector<EqualParts> equal_parts_;
  std::vector<std::uint32_t> of_part_;
};

/// Loads of all resources that no other one exceeds: a link that is used for less time than its channel adds nothing.
std::vector<PricedLoad> loads_of(const StepModel& model, const Limits& limits) {
  std::vector<PricedLoad> loads;
  for (const StepResource& resource : model.resources()) {
    const std::vector<StepResource>& slowing = model.slowing(resource.name.class_index);
    if (resource.name.kind != ResourceKind::computations || slowing.empty())
      loads.push_back({.resource = resource.name});
    if (resource.name.kind != ResourceKind::computations) continue;
    for (const StepResource& beside : slowing) loads.push_back({.resource = resource.name, .beside = beside.name});
  }
  std::vector<std::map<std::uint32_t, double>> work;
  for (const PricedLoad& load : loads) {
    std::map<std::uint32_t, double>& of = work.emplace_back();
    for (const ResourceItem& item : work_of(load, model, limits).items) of[item.node] += item.ns;
  }
  const auto exceeds = [&](std::size_t a, std::size_t b) {
    return std::ranges::all_of(work[b], [&](const auto& each) {
      const auto found = work[a].find(each.first);
      return found != work[a].end() && found->second >= each.second;
    });
  };
  std::vector<PricedLoad> kept;
  for (std::size_t b = 0; b < loads.size(); ++b) {
    bool exceeded = work[b].empty();
    for (std::size_t a = 0; a < loads.size() && !exceeded; ++a)
      exceeded = a != b && exceeds(a, b) && !(a > b && exceeds(b, a));
    if (!exceeded) kept.push_back(loads[b]);
  }
  return kept;
}

/// The loads of a proof with the charges that may get a price, and the program that finds the prices.
class PriceProgram {
 public:
  PriceProgram(const StepModel& model, const Limits& limits, const MilestoneParts& parts, const Sections& sections,
               const std::vector<PricedLoad>& loads, double scale_ns)
      : model_(model), limits_(limits), parts_(parts), sections_(sections), scale_(1 / scale_ns) {
    for (const EqualParts& each : sections.equal_parts()) offset_.push_back(each.ns * scale_);
    program_.columns.resize(offset_.size(), {.cost = 1});
    for (const PricedLoad& load : loads) {
      add_parts(load);
      add_ends(load);
    }
    add_chain_ends();
    add_work();
  }

  std::size_t rows() const { return rows_.size(); }

  MilestoneProof solve() const {
    const std::vector<double> prices = row_prices(program_);
    std::vector<double> paid(offset_.size(), 0);
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      for (const std::uint32_t equal : rows_[row].equal) paid[equal] += std::max(0.0, prices[row]);
    }
    const double most = std::max(1.0, *std::ranges::max_element(paid));
    MilestoneProof proof;
    for (const std::uint32_t milestone : parts_.chain()) proof.milestones.push_back(model_.task_of(milestone));
    proof.loads = loads_;
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      constexpr double kUnits = 1e7;  // prices get few digits, and less than they could be
      Charge charge = rows_[row].charge;
      charge.price = std::floor(std::max(0.0, prices[row]) / most * kUnits) / kUnits;
      if (charge.price > 0) proof.loads[rows_[row].load].charges.push_back(charge);
    }
    std::erase_if(proof.loads, [](const PricedLoad& load) { return load.charges.empty(); });
    return proof;
  }

 private:
  struct Row {
    std::size_t load = 0;
    Charge charge;
    std::vector<std::uint32_t> equal = {};  // the parts that pay
  };

  void add_row(std::size_t load, const Charge& charge, double least, const std::function<bool(std::uint32_t)>& pays) {
    Row row{.load = load, .charge = charge};
    least *= scale_;
    for (std::uint32_t equal = 0; equal < offset_.size(); ++equal) {
      if (!pays(equal)) continue;
      row.equal.push_back(equal);
      least -= offset_[equal];
      program_.columns[equal].entries.push_back({static_cast<std::uint32_t>(rows_.size()), 1});
    }
    program_.least.push_back(least);
    rows_.push_back(std::move(row));
  }
  std::size_t add_load(PricedLoad load) {
    for (const ResourceItem& item : work_of(load, model_, limits_).items)
      work_[item.node].push_back({loads_.size(), item.ns});
    loads_.push_back(std::move(load));
    return loads_.size() - 1;
  }

  /// Each sort of parts pays for the work that is done in it.
  void add_parts(const PricedLoad& load) {
    const std::size_t number = add_load(load);
    std::set<std::uint32_t> used;
    for (const ResourceItem& item : work_of(load, model_, limits_).items) {
      const std::vector<std::uint32_t>& reach = equal_parts_of(item.node);
      used.insert(reach.begin(), reach.end());
    }
    for (const std::uint32_t equal : used)
      add_row(number, sections_.equal_parts()[equal].charge, 0, [&](std::uint32_t each) { return each == equal; });
  }

  /// Some sections from the begin, some to the end and all pay for work that has heads and tails.
  void add_ends(const PricedLoad& load) {
    constexpr std::size_t kMostHeads = 100;
    const Thresholds best = best_alone(work_of(load, model_, limits_).items, limits_, kMostHeads).chosen;
    if (best.head == 0 && best.tail == 0) return;
    constexpr double kRounding = 1 - 1e-12;
    std::vector<Thresholds> all = {{best.head * kRounding, best.tail * kRounding}};
    if (best.head > 0 && best.tail > 0) all.insert(all.end(), {{all[0].head, 0}, {0, all[0].tail}});
    for (const Thresholds& chosen : all) {
      PricedLoad limited = load;
      limited.chosen = chosen;
      const LoadWork work = work_of(limited, model_, limits_);
      if (work.items.empty()) continue;
      const std::size_t number = add_load(limited);
      add_row(number, {0, parts_.count() - 1}, work.head + work.tail, [](std::uint32_t) { return true; });
      for (const std::size_t section : some_sections()) {
        const std::uint32_t part = sections_.first_part(section);
        if (chosen.tail == 0 && work.head > 0 && parts_.least_until(part - 1, limits_) >= work.head)
          add_row(number, {0, part - 1}, work.head, before(section));
        if (chosen.head == 0 && work.tail > 0 && parts_.least_since(part, limits_) >= work.tail)
          add_row(number, {part, parts_.count() - 1}, work.tail, since(section));
      }
    }
  }

  /// Sections from the begin take at least the head of the milestone after them, and so from the end.
  void add_chain_ends() {
    const std::size_t number = add_load({.resource = {.kind = ResourceKind::task}});
    for (std::size_t section = 1; section < sections_.count(); ++section) {
      const std::uint32_t part = sections_.first_part(section);
      add_row(number, {0, part - 1}, parts_.least_until(part - 1, limits_), before(section));
      add_row(number, {part, parts_.count() - 1}, parts_.least_since(part, limits_), since(section));
    }
  }

  std::function<bool(std::uint32_t)> before(std::size_t section) const {
    return [this, section](std::uint32_t equal) { return sections_.equal_parts()[equal].section < section; };
  }
  std::function<bool(std::uint32_t)> since(std::size_t section) const {
    return [this, section](std::uint32_t equal) { return sections_.equal_parts()[equal].section >= section; };
  }
  std::vector<std::size_t> some_sections() const {
    constexpr std::size_t kMost = 8;
    std::vector<std::size_t> some;
    const std::size_t step = std::max<std::size_t>(1, (sections_.count() - 1) / kMost);
    for (std::size_t section = 1; section < sections_.count(); section += step) some.push_back(section);
    return some;
  }

  /// The sorts of parts in which a node can run.
  const std::vector<std::uint32_t>& equal_parts_of(std::uint32_t node) {
    const auto key = std::tuple(parts_.first(node), parts_.last(node), model_.queues(node));
    const auto [found, is_new] = reach_.try_emplace(key);
    if (is_new) {
      std::set<std::uint32_t> equal;
      for (std::uint32_t part = parts_.first(node); part <= parts_.last(node); ++part) {
        if (!parts_.taken(node, part)) equal.insert(sections_.of(part));
      }
      found->second.assign(equal.begin(), equal.end());
    }
    return found->second;
  }

  /// Work that can be done in the same parts, in the same relation of loads, is one group of the program: its columns
  /// are the shares of the work that are done in each sort of parts.
  void add_work() {
    std::vector<std::vector<std::pair<std::size_t, const Row*>>> rows_of(loads_.size());
    for (std::size_t row = 0; row < rows_.size(); ++row) rows_of[rows_[row].load].push_back({row, &rows_[row]});
    std::map<std::tuple<std::vector<std::uint32_t>, std::vector<std::pair<std::size_t, std::int64_t>>>,
             std::map<std::size_t, double>>
        groups;
    for (const auto& [node, work] : work_) {
      constexpr double kUnits = 1e9;
      const std::vector<std::uint32_t>& equal = equal_parts_of(node);
      double most = 0;
      for (const auto& [load, ns] : work) most = std::max(most, ns);
      std::vector<std::pair<std::size_t, std::int64_t>> relation;
      for (const auto& [load, ns] : work) relation.emplace_back(load, std::llround(ns / most * kUnits));
      std::map<std::size_t, double>& sum = groups[std::tuple(equal, std::move(relation))];
      for (const auto& [load, ns] : work) sum[load] += ns * scale_;
    }
    for (const auto& [key, sum] : groups) {
      for (const std::uint32_t equal : std::get<0>(key)) {
        LinearProgram::Column column{.cost = 0, .group = static_cast<std::int32_t>(program_.groups)};
        for (const auto& [load, ns] : sum) {
          for (const auto& [row, of] : rows_of[load]) {
            if (std::ranges::binary_search(of->equal, equal))
              column.entries.push_back({static_cast<std::uint32_t>(row), -ns});
          }
        }
        program_.columns.push_back(std::move(column));
      }
      ++program_.groups;
    }
  }

  const StepModel& model_;
  const Limits& limits_;
  const MilestoneParts& parts_;
  const Sections& sections_;
  double scale_;
  std::vector<double> offset_;  // by sort of parts: the time of their milestones
  std::vector<PricedLoad> loads_;
  std::vector<Row> rows_;
  std::map<std::uint32_t, std::vector<std::pair<std::size_t, double>>> work_;  // by node: loads and times
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::vector<std::uint32_t>>, std::vector<std::uint32_t>> reach_;
  LinearProgram program_;
};

}  // namespace

std::optional<MilestoneProof> search_prices(const StepModel& model, const Limits& limits, double about_ns) {
  constexpr std::size_t kMostMilestones = 1200, kMostRows = 1200;
  if (model.nodes() == 0 || !(about_ns > 0)) return std::nullopt;
  const MilestoneParts parts(model, longest_chain(model, kMostMilestones));
  if (parts.chain().empty()) return std::nullopt;
  const std::vector<PricedLoad> loads = loads_of(model, limits);
  for (std::size_t count = 24; count > 0; count = count * 2 / 3) {
    const Sections sections(model, parts, count);
    const PriceProgram program(model, limits, parts, sections, loads, about_ns);
    if (program.rows() <= kMostRows || count == 1) return program.solve();
  }
  return std::nullopt;
}

}  // namespace weft::simulate
