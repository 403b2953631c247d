// The columns of a choice, which a search and a scaling study have.
#pragma once

#include "study/columns.h"
#include "study/search/choice.h"

namespace weft::study {

/// `choice_in` gives a row's choice, and `order` the cell of the order of its axes. `micro_batch_rank`: of the table's
/// column.
template <class Row, class ChoiceIn>
void add_choice(Columns<Row>& columns, ChoiceIn choice_in, Cell (*order)(const Choice&), int micro_batch_rank) {
  const auto of_choice = [choice_in](auto value) {
    return [choice_in, value](const Row& row) { return value(std::invoke(choice_in, row)); };
  };
  columns.figure("grid", of_choice([](const Choice& choice) { return graph::to_string(choice.grid); }))
      .shown({.head = "grid, innermost first", .words = true}, of_choice(grid_text));
  columns.figure("axis_order", of_choice(order));
  columns.figure("micro_batch", of_choice([](const Choice& choice) { return choice.micro_batch; }),
                 {.head = "micro-batch", .rank = micro_batch_rank});
  columns.figure("recompute", of_choice([](const Choice& choice) {
                   return choice.recompute == train::Recompute::block ? "block" : "none";
                 }));
  columns.figure("reshard_after_forward", of_choice([](const Choice& choice) { return choice.reshard_after_forward; }));
  columns.figure("zero_1", of_choice([](const Choice& choice) { return choice.zero1; }));
}

}  // namespace weft::study
