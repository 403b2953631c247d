// The label of a bar or a box that is too small for a task's name.
#include "inspect/drawing/task_label.h"

#include <gtest/gtest.h>

namespace weft::inspect {
namespace {

using Labels = std::vector<std::string>;

TEST(TaskLabel, KeepsTheTellingEnd) {
  EXPECT_EQ(task_labels("mb0.L3.attn.qkv.bwd.gemm_dw"),
            (Labels{"mb0.L3.attn.qkv.bwd.gemm_dw", "L3 attn.qkv dW", "L3 qkv dW", "qkv dW", "dW"}));
  EXPECT_EQ(task_labels("mb1.L10.mlp.up.weight.bwd.reduce_scatter_data"),
            (Labels{"mb1.L10.mlp.up.weight.bwd.reduce_scatter_data", "L10 mlp.up.weight RS data",
                    "L10 up.weight RS data", "up.weight RS data", "RS data"}));
  EXPECT_EQ(task_labels("mb0.L2.attn.out.bwd.gemm_dx.o0.i1"),
            (Labels{"mb0.L2.attn.out.bwd.gemm_dx.o0.i1", "L2 attn.out dX o0.i1", "L2 out dX o0.i1", "L2 out dX",
                    "out dX", "dX"}));
  EXPECT_EQ(task_labels("mb0.head.fwd.gemm"), (Labels{"mb0.head.fwd.gemm", "head gemm", "head"}));
  EXPECT_EQ(task_labels("mb0.L3.attn.qkv.fwd.gemm.o1.i0"),
            (Labels{"mb0.L3.attn.qkv.fwd.gemm.o1.i0", "L3 attn.qkv gemm o1.i0", "L3 qkv o1.i0", "L3 qkv", "qkv"}));
  EXPECT_EQ(task_labels("mb0.L0.attn.bwd.attention_dqkv").back(), "attention dQKV");
  EXPECT_EQ(task_labels("mb0.L1.attn.qkv.fwd.all_gather_w")[2], "L1 qkv AG W");
  EXPECT_EQ(task_labels("mb0.L1.mlp.experts.up.bwd.exchange_dx")[3], "experts.up XR dX");
}

TEST(TaskLabel, NamesOfAnotherShapeLoseTheirBeginning) {
  EXPECT_EQ(task_labels("load"), Labels{"load"});
  EXPECT_EQ(task_labels("split.0"), (Labels{"split.0", "0"}));
  EXPECT_EQ(task_labels("mb0.L1.a.b"), (Labels{"mb0.L1.a.b", "L1 a.b", "L1 b", "a.b", "b"}));
  EXPECT_EQ(task_labels(""), Labels{""});
  EXPECT_EQ(task_labels("..."), (Labels{"..."}));
  EXPECT_EQ(task_labels("bwd.x"), (Labels{"bwd.x", "x"}));
}

}  // namespace
}  // namespace weft::inspect
