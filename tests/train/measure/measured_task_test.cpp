#include "train/measure/measured_task.h"

#include <gtest/gtest.h>

#include "graph/operation.h"

namespace weft::train {
namespace {

TEST(MeasuredTask, RunsOperationsOfAllItsKinds) {
  cpu::Workers workers(1);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    MeasuredTask(graph::Gemm{8, 16, 4}, dtype, workers).run();
    MeasuredTask(graph::Gemm{.m = 8, .n = 16, .k = 4, .trans_a = true}, dtype, workers).run();
    MeasuredTask(graph::AttentionForward{1, 16, 2, 2, 16}, dtype, workers).run();
    MeasuredTask(graph::AttentionBackward{1, 16, 2, 2, 16}, dtype, workers).run();
    MeasuredTask(graph::GeluForward{100}, dtype, workers).run();
  }
}

}  // namespace
}  // namespace weft::train
