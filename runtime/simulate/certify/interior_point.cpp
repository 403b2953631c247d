#include "runtime/simulate/certify/interior_point.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace weft::simulate {
namespace {

using Values = std::vector<double>;

/// A symmetric positive matrix, of which only the upper half is kept.
class NormalMatrix {
 public:
  explicit NormalMatrix(std::size_t rows) : rows_(rows), value_(rows * rows) {}
  void clear() { std::ranges::fill(value_, 0); }
  double& at(std::size_t row, std::size_t column) { return value_[row * rows_ + column]; }

  /// Cholesky. A row that depends on earlier ones gets a pivot that keeps its unknown at zero.
  void factor() {
    constexpr double kLeast = 1e-13, kHuge = 1e64;
    for (std::size_t k = 0; k < rows_; ++k) {
      double* const pivot_row = &value_[k * rows_];
      const double pivot = pivot_row[k] > kLeast ? std::sqrt(pivot_row[k]) : kHuge;
      pivot_row[k] = pivot;
      for (std::size_t j = k + 1; j < rows_; ++j) pivot_row[j] /= pivot;
      for (std::size_t i = k + 1; i < rows_; ++i) {
        const double factor = pivot_row[i];
        if (factor == 0) continue;
        double* const row = &value_[i * rows_];
        for (std::size_t j = i; j < rows_; ++j) row[j] -= factor * pivot_row[j];
      }
    }
  }
  void solve(Values& right) const {
    for (std::size_t k = 0; k < rows_; ++k) {
      right[k] /= value_[k * rows_ + k];
      for (std::size_t j = k + 1; j < rows_; ++j) right[j] -= value_[k * rows_ + j] * right[k];
    }
    for (std::size_t k = rows_; k-- > 0;) {
      for (std::size_t j = k + 1; j < rows_; ++j) right[k] -= value_[k * rows_ + j] * right[j];
      right[k] /= value_[k * rows_ + k];
    }
  }

 private:
  std::size_t rows_;
  Values value_;
};

/// A point between the walls: x, z and y, s are pairs whose products go to zero. v: prices of the groups.
struct Point {
  Values x, z, s, y, v;
};

/// The greatest step at which all values stay above zero.
double longest_step(const Values& value, const Values& change) {
  double step = 1;
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (change[i] < 0) step = std::min(step, -value[i] / change[i]);
  }
  return step;
}

class InteriorPoint {
 public:
  explicit InteriorPoint(const LinearProgram& program)
      : program_(program),
        columns_(program.columns.size()),
        rows_(program.least.size()),
        matrix_(rows_),
        members_(program.groups) {
    constexpr double kStart = 0.1;
    for (std::size_t j = 0; j < columns_; ++j) {
      if (program.columns[j].group >= 0) members_[static_cast<std::size_t>(program.columns[j].group)].push_back(j);
    }
    at_.x.assign(columns_, kStart);
    at_.z.assign(columns_, 1);
    at_.y.assign(rows_, kStart);
    at_.v.assign(program.groups, 0);
    for (const std::vector<std::size_t>& group : members_) {
      for (const std::size_t j : group) at_.x[j] = 1.0 / static_cast<double>(group.size());
    }
    at_.s = row_sums(at_.x);
    for (std::size_t i = 0; i < rows_; ++i) at_.s[i] = std::max(kStart, at_.s[i] - program.least[i]);
  }

  Values run() {
    constexpr int kMostRounds = 60;
    constexpr double kDone = 1e-11, kNoStep = 1e-8;
    for (int round = 0; round < kMostRounds; ++round) {
      measure();
      if (gap_ < kDone && worst_ < kDone) break;
      factor();
      const Point guess = direction(0, nullptr);
      const double primal = std::min(longest_step(at_.x, guess.x), longest_step(at_.s, guess.s));
      const double dual = std::min(longest_step(at_.z, guess.z), longest_step(at_.y, guess.y));
      const double reached = gap_after(guess, primal, dual) / gap_;
      const Point step = direction(reached * reached * reached * gap_, &guess);
      if (!move(step, kNoStep)) break;
    }
    return at_.y;
  }

 private:
  Values row_sums(const Values& x) const {
    Values sums(rows_, 0);
    for (std::size_t j = 0; j < columns_; ++j) {
      for (const LinearProgram::Entry& each : program_.columns[j].entries) sums[each.row] += each.value * x[j];
    }
    return sums;
  }
  double column_sum(std::size_t j, const Values& y) const {
    double sum = 0;
    for (const LinearProgram::Entry& each : program_.columns[j].entries) sum += each.value * y[each.row];
    return sum;
  }
  double of_group(std::size_t j, const Values& v) const {
    const std::int32_t group = program_.columns[j].group;
    return group < 0 ? 0 : v[static_cast<std::size_t>(group)];
  }

  /// By how much the point misses the constraints, and the mean of its products.
  void measure() {
    missing_rows_ = row_sums(at_.x);
    for (std::size_t i = 0; i < rows_; ++i) missing_rows_[i] = program_.least[i] + at_.s[i] - missing_rows_[i];
    missing_groups_.assign(members_.size(), 1);
    for (std::size_t g = 0; g < members_.size(); ++g) {
      for (const std::size_t j : members_[g]) missing_groups_[g] -= at_.x[j];
    }
    missing_costs_.resize(columns_);
    for (std::size_t j = 0; j < columns_; ++j)
      missing_costs_[j] = program_.columns[j].cost - column_sum(j, at_.y) - of_group(j, at_.v) - at_.z[j];
    worst_ = 0;
    for (const Values* each : {&missing_rows_, &missing_groups_, &missing_costs_}) {
      for (const double value : *each) worst_ = std::max(worst_, std::abs(value));
    }
    gap_ = gap_after({}, 0, 0);
  }
  double gap_after(const Point& step, double primal, double dual) const {
    double sum = 0;
    const auto product = [&](const Values& a, const Values& b, const Values& of_a, const Values& of_b) {
      for (std::size_t i = 0; i < a.size(); ++i)
        sum += (a[i] + (primal > 0 ? primal * of_a[i] : 0)) * (b[i] + (dual > 0 ? dual * of_b[i] : 0));
    };
    product(at_.x, at_.z, step.x, step.z);
    product(at_.s, at_.y, step.s, step.y);
    return sum / static_cast<double>(columns_ + rows_);
  }

  /// The matrix of the rows, after the groups' prices are eliminated: each column is in one group at most.
  void factor() {
    matrix_.clear();
    for (std::size_t i = 0; i < rows_; ++i) matrix_.at(i, i) = at_.s[i] / at_.y[i];
    for (std::size_t j = 0; j < columns_; ++j) {
      const std::vector<LinearProgram::Entry>& entries = program_.columns[j].entries;
      for (const LinearProgram::Entry& a : entries) {
        for (const LinearProgram::Entry& b : entries) {
          if (a.row <= b.row) matrix_.at(a.row, b.row) += a.value * b.value * at_.x[j] / at_.z[j];
        }
      }
    }
    mean_.assign(members_.size(), {});
    weight_.assign(members_.size(), 0);
    Values sum(rows_, 0);
    for (std::size_t g = 0; g < members_.size(); ++g) {
      std::vector<std::uint32_t> touched;
      for (const std::size_t j : members_[g]) {
        const double ratio = at_.x[j] / at_.z[j];
        weight_[g] += ratio;
        for (const LinearProgram::Entry& each : program_.columns[j].entries) {
          touched.push_back(each.row);
          sum[each.row] += each.value * ratio;
        }
      }
      std::ranges::sort(touched);
      touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
      for (const std::uint32_t row : touched) mean_[g].push_back({row, sum[row]});
      for (std::size_t a = 0; a < mean_[g].size(); ++a) {
        const double factor = mean_[g][a].value / weight_[g];
        for (std::size_t b = a; b < mean_[g].size(); ++b)
          matrix_.at(mean_[g][a].row, mean_[g][b].row) -= factor * mean_[g][b].value;
      }
      for (const std::uint32_t row : touched) sum[row] = 0;
    }
    matrix_.factor();
  }

  /// A Newton step towards products of `target`; `guess`: corrects for the products of this step's changes.
  Point direction(double target, const Point* guess) const {
    Values of_x(columns_), of_s(rows_), h(columns_);
    for (std::size_t j = 0; j < columns_; ++j) {
      of_x[j] = target - at_.x[j] * at_.z[j] - (guess ? guess->x[j] * guess->z[j] : 0);
      h[j] = (of_x[j] - at_.x[j] * missing_costs_[j]) / at_.z[j];
    }
    for (std::size_t i = 0; i < rows_; ++i)
      of_s[i] = target - at_.s[i] * at_.y[i] - (guess ? guess->s[i] * guess->y[i] : 0);
    Point step;
    step.y = row_sums(h);
    for (std::size_t i = 0; i < rows_; ++i) step.y[i] = missing_rows_[i] - step.y[i] + of_s[i] / at_.y[i];
    Values of_group_sums = missing_groups_;
    for (std::size_t g = 0; g < members_.size(); ++g) {
      for (const std::size_t j : members_[g]) of_group_sums[g] -= h[j];
      for (const LinearProgram::Entry& each : mean_[g]) step.y[each.row] -= each.value * of_group_sums[g] / weight_[g];
    }
    matrix_.solve(step.y);
    step.v.resize(members_.size());
    for (std::size_t g = 0; g < members_.size(); ++g) {
      double sum = of_group_sums[g];
      for (const LinearProgram::Entry& each : mean_[g]) sum -= each.value * step.y[each.row];
      step.v[g] = sum / weight_[g];
    }
    step.x.resize(columns_);
    step.z.resize(columns_);
    for (std::size_t j = 0; j < columns_; ++j) {
      step.z[j] = missing_costs_[j] - column_sum(j, step.y) - of_group(j, step.v);
      step.x[j] = (of_x[j] - at_.x[j] * step.z[j]) / at_.z[j];
    }
    step.s.resize(rows_);
    for (std::size_t i = 0; i < rows_; ++i) step.s[i] = (of_s[i] - at_.s[i] * step.y[i]) / at_.y[i];
    return step;
  }

  /// Whether the point has moved.
  bool move(const Point& step, double least) {
    constexpr double kShare = 0.995;
    const double primal = std::min(1.0, kShare * std::min(longest_step(at_.x, step.x), longest_step(at_.s, step.s)));
    const double dual = std::min(1.0, kShare * std::min(longest_step(at_.z, step.z), longest_step(at_.y, step.y)));
    if (!(std::isfinite(primal) && std::isfinite(dual)) || (primal < least && dual < least)) return false;
    const auto add = [](Values& value, const Values& change, double share) {
      for (std::size_t i = 0; i < value.size(); ++i) value[i] += share * change[i];
    };
    const auto finite = [](const Values& values) {
      return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
    };
    if (!finite(step.x) || !finite(step.y) || !finite(step.z) || !finite(step.s)) return false;
    add(at_.x, step.x, primal);
    add(at_.s, step.s, primal);
    add(at_.z, step.z, dual);
    add(at_.y, step.y, dual);
    add(at_.v, step.v, dual);
    return true;
  }

  const LinearProgram& program_;
  std::size_t columns_, rows_;
  NormalMatrix matrix_;
  std::vector<std::vector<std::size_t>> members_;  // by group: its columns
  Point at_;
  Values missing_rows_, missing_groups_, missing_costs_;  // zero at a point that keeps all constraints
  double worst_ = 0, gap_ = 0;
  std::vector<std::vector<LinearProgram::Entry>> mean_;  // by group: Σ x/z · column
  Values weight_;                                        // by group: Σ x/z
};

}  // namespace

std::vector<double> row_prices(const LinearProgram& program) {
  return InteriorPoint(program).run();
}

}  // namespace weft::simulate
