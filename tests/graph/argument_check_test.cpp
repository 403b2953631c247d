// Errors in a task's accesses that the builder refuses.
#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>

#include "graph/graph.h"
#include "tests/base/messages.h"
#include "tests/graph/every_operation.h"

namespace weft::graph {
namespace {

using testing::contains;
using testing::TaskOfSchema;

/// The builder's message about a task; "" if it accepts the task.
std::string refusal(const TaskOfSchema& made, Arguments arguments = Arguments::of_schema) {
  GraphBuilder builder(arguments);
  return testing::message_of<std::logic_error>([&] { made.add_to(builder); });
}

/// Spoils each argument of every operation in turn; `spoil` returns whether it could.
void expect_each_is_refused(const std::function<bool(TaskOfSchema&, std::size_t argument)>& spoil) {
  int spoiled_arguments = 0;
  for (const Operation& operation : testing::every_operation()) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const TaskOfSchema made = testing::task_of_schema("made", operation, dtype);
      ASSERT_EQ(refusal(made), "");
      for (std::size_t i = 0; i < made.rows.size(); ++i) {
        TaskOfSchema spoiled = made;
        if (!spoil(spoiled, i)) continue;
        const std::string text = refusal(spoiled);
        EXPECT_TRUE(contains(text, "argument " + std::string(made.rows[i].name) + " is ")) << text;
        EXPECT_TRUE(contains(text, "'made' (" + std::string(kind_name(operation)) + ")")) << text;
        EXPECT_EQ(refusal(spoiled, Arguments::of_any_form), "");
        ++spoiled_arguments;
      }
    }
  }
  EXPECT_GT(spoiled_arguments, 300);
}

TEST(ArgumentCheck, RefusesAnotherMode) {
  expect_each_is_refused([](TaskOfSchema& made, std::size_t i) {
    made.modes[i] = made.modes[i] == AccessMode::read ? AccessMode::read_write : AccessMode::read;
    return true;
  });
}

TEST(ArgumentCheck, RefusesAnotherDtype) {
  expect_each_is_refused([](TaskOfSchema& made, std::size_t i) {
    made.tensors[i].dtype = made.tensors[i].dtype == DType::i32 ? DType::f32 : DType::i32;
    return made.rows[i].elements.rule != ArgumentElements::Rule::any;
  });
}

TEST(ArgumentCheck, RefusesAnotherSize) {
  expect_each_is_refused([](TaskOfSchema& made, std::size_t i) {
    ++made.tensors[i].shape.back();
    return made.rows[i].shape.form != ArgumentShape::Form::any_size;
  });
}

TEST(ArgumentCheck, RefusesAMissingArgumentAndOneTooMany) {
  for (const Operation& operation : testing::every_operation()) {
    const TaskOfSchema made = testing::task_of_schema("made", operation, DType::f32);
    TaskOfSchema fewer = made, more = made;
    fewer.tensors.pop_back();
    EXPECT_TRUE(contains(refusal(fewer), "argument " + std::string(made.rows.back().name) + " is missing"))
        << refusal(fewer);
    more.tensors.push_back({"more", DType::f32, {1}, Role::parameter});
    more.modes.push_back(AccessMode::read);
    EXPECT_NE(refusal(more), "");
  }
}

TEST(ArgumentCheck, SaysWhatWasFoundAndWhatIsExpected) {
  TaskOfSchema made = testing::task_of_schema("L0.up", Gemm{2, 3, 5}, DType::bf16);
  made.tensors[1].dtype = DType::f32;
  EXPECT_EQ(refusal(made), "task 'L0.up' (gemm): argument B is f32, expected bf16 as A");
  made.tensors[1] = {"B", DType::bf16, {5, 4}, Role::parameter};
  EXPECT_EQ(refusal(made), "task 'L0.up' (gemm): argument B is 5 x 4, expected 5 x 3");
}

// Gradients of bf16 products are fp32, while a product of fp32 matrices isn't rounded to bf16.
TEST(ArgumentCheck, AProductMayWriteF32) {
  TaskOfSchema made = testing::task_of_schema("made", Gemm{2, 3, 5}, DType::bf16);
  made.tensors[2].dtype = DType::f32;
  EXPECT_EQ(refusal(made), "");
  made = testing::task_of_schema("made", Gemm{2, 3, 5}, DType::f32);
  made.tensors[2].dtype = DType::bf16;
  EXPECT_NE(refusal(made), "");
}

// A weight that is written whole from its master copy may be declared as written; other weights are updated in place.
TEST(ArgumentCheck, AMasterCopyMayOverwriteTheWeight) {
  for (const bool has_master : {false, true}) {
    TaskOfSchema made = testing::task_of_schema("made", AdamW{7, 0.9F, 0.95F, 1e-8F, 0.1F, has_master}, DType::f32);
    EXPECT_EQ(refusal(made), "");
    made.modes[0] = AccessMode::write;
    EXPECT_EQ(refusal(made).empty(), has_master);
  }
}

TEST(ArgumentCheck, RefusesAnEpilogueOfAProductThatIsAdded) {
  Gemm gemm{.m = 2, .n = 3, .k = 5, .accumulate = true, .epilogue = Epilogue::gelu};
  EXPECT_TRUE(contains(refusal(testing::task_of_schema("made", gemm, DType::f32)), "epilogue"));
  gemm.epilogue = Epilogue::bias_gradient;
  EXPECT_TRUE(contains(refusal(testing::task_of_schema("made", gemm, DType::f32)), "transposed"));
  gemm.trans_a = true;
  EXPECT_EQ(refusal(testing::task_of_schema("made", gemm, DType::f32)), "");
}

// A view whose rows aren't adjacent can't be seen as a matrix of another shape.
TEST(ArgumentCheck, RefusesRowsApartInAnotherShape) {
  GraphBuilder builder;
  const TensorId x = builder.add_tensor({"x", DType::f32, {4, 8}, Role::parameter});
  const TensorId y = builder.add_tensor({"y", DType::f32, {4, 4}, Role::parameter});
  const View apart{x, 0, 4, 4, 8};
  const View to = whole(builder, y);
  EXPECT_THROW(builder.add_task({"swiglu", SwiGluForward{8, 1}, {read(apart), write({y, 0, 8, 1, 1})}}),
               std::logic_error);
  EXPECT_NO_THROW(builder.add_task({"gelu", GeluForward{16}, {read(apart), write(to)}}));
}

}  // namespace
}  // namespace weft::graph
