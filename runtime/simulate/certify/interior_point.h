// Solves the linear programs from which proofs by milestones get their prices. Nothing rests on its answer being exact:
// any prices prove a bound, and better ones a better bound.
#pragma once

#include <cstdint>
#include <vector>

namespace weft::simulate {

/// Minimise Σ cost·x over x ≥ 0, so that Σ value·x of each row is at least `least`, and x of each group add up to 1.
struct LinearProgram {
  struct Entry {
    std::uint32_t row = 0;
    double value = 0;
  };
  struct Column {
    double cost = 0;
    std::int32_t group = -1;  // −1: of none
    std::vector<Entry> entries = {};
  };
  std::vector<Column> columns;
  std::vector<double> least;  // by row
  std::uint32_t groups = 0;
};

/// By row: what the minimum grows by if `least` grows by one, 0 or more. By the predictor-corrector method of Mehrotra
/// (1992), in time that grows with the cube of the rows. The values of a program should be near 1.
std::vector<double> row_prices(const LinearProgram& program);

}  // namespace weft::simulate
