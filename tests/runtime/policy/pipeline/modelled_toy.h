// A toy pipeline and its model of units, for tests of searches.
#pragma once

#include "runtime/policy/pipeline/unit_model.h"
#include "tests/runtime/pipeline_toy.h"

namespace weft::testing {

struct ModelledToy {
  explicit ModelledToy(const PipelineShape& shape, policy::PolicyOptions options = {})
      : toy(shape), program(program_of(toy)), model(program, options) {}

  static policy::PipelineProgram program_of(const PipelineToy& toy) {
    policy::PipelineProgram program{.classes = toy.classes(),
                                    .shape = policy::shape_of(toy.classes(), toy.shape().chunks, "test"),
                                    .costs = toy.costs()};
    for (const auto& graph : toy.classes()) program.units.emplace_back(*graph, program.shape);
    return program;
  }

  PipelineToy toy;
  policy::PipelineProgram program;
  policy::UnitModel model;
};

}  // namespace weft::testing
