// Embedding look-ups and their gradients.
#include <gtest/gtest.h>

#include "base/error.h"
#include "kernels/cpu/elementwise/elementwise.h"
#include "tests/kernels/reference.h"

namespace weft::cpu {
namespace {

using testing::Tensor;
using testing::Values;

std::vector<std::int64_t> some_tokens(std::int64_t rows, std::int64_t vocab) {
  std::vector<std::int64_t> tokens;
  for (std::int64_t r = 0; r < rows; ++r) tokens.push_back((r * r * 7 + 3) % vocab);  // with repetitions
  return tokens;
}

class Embedding : public testing::ForFloatTypes {};

TEST_P(Embedding, AddsTokenAndPosition) {
  const DType dtype = GetParam();
  const std::int64_t seq = 5, rows = 15, cols = 37, vocab = 11, context = 9;
  const auto tokens = some_tokens(rows, vocab);
  Tensor ids = Tensor::integers(DType::i32, tokens), out(dtype, rows, cols, 2), plain(dtype, rows, cols);
  Tensor wte = Tensor::random(dtype, vocab, cols, 1), wpe = Tensor::random(dtype, context, cols, 2, 1.0, 3);
  const Matrix positions = wpe.view();
  for (std::int64_t offset : {0, 4}) {
    testing::run_on_one_and_three_threads({}, {&out, &plain}, [&](Workers& workers) {
      embedding_forward(workers, ids.view(), wte.view(), &positions, seq, offset, out.view());
      embedding_forward(workers, ids.view(), wte.view(), nullptr, seq, 0, plain.view());
    });
    const Values words = wte.values(), places = wpe.values();
    Values expected, expected_plain;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) {
        const double word = words[static_cast<std::size_t>(tokens[static_cast<std::size_t>(r)] * cols + c)];
        expected_plain.push_back(word);
        expected.push_back(word + places[static_cast<std::size_t>((offset + r % seq) * cols + c)]);
      }
    }
    testing::expect_close(out.values(), expected, testing::tolerance_of(dtype, 1e-7));
    testing::expect_close(plain.values(), expected_plain, {0, 0});
  }
}

TEST_P(Embedding, GradientSumsRepeatedTokens) {
  const DType dtype = GetParam();
  for (bool accumulate : {false, true}) {
    for (const auto& [rows, cols, vocab] : {std::array<std::int64_t, 3>{1, 3, 1}, {50, 33, 13}, {700, 20, 1000}}) {
      const auto tokens = some_tokens(rows, vocab);
      Tensor ids = Tensor::integers(DType::i32, tokens), dout = Tensor::random(dtype, rows, cols, 1, 1.0, 2);
      Tensor dwte(DType::f32, vocab, cols);
      if (accumulate) dwte.assign(testing::normal_values(vocab * cols, 2));
      Values expected = accumulate ? dwte.values() : Values(static_cast<std::size_t>(vocab * cols));
      const Values douts = dout.values();
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < cols; ++c) {
          expected[static_cast<std::size_t>(tokens[static_cast<std::size_t>(r)] * cols + c)] +=
              douts[static_cast<std::size_t>(r * cols + c)];
        }
      }
      testing::run_on_one_and_three_threads({}, {&dwte}, [&](Workers& workers) {
        embedding_backward(workers, ids.view(), dout.view(), dwte.view(), accumulate);
      });
      testing::expect_close(dwte.values(), expected, {1e-5, 1e-5});
    }
  }
}

TEST_P(Embedding, PositionGradientSumsSequences) {
  const DType dtype = GetParam();
  const std::int64_t batch = 6, seq = 7, cols = 21, context = 10;
  for (bool accumulate : {false, true}) {
    Tensor dout = Tensor::random(dtype, batch * seq, cols, 1, 1.0, 4), dwpe(DType::f32, context, cols);
    if (accumulate) dwpe.assign(testing::normal_values(context * cols, 2));
    Values expected = accumulate ? dwpe.values() : Values(static_cast<std::size_t>(context * cols));
    const Values douts = dout.values();
    const Values before = expected;
    for (const std::int64_t first : {0, 2, 3}) {
      expected = before;
      if (accumulate) dwpe.assign(testing::normal_values(context * cols, 2));
      for (std::size_t i = 0; i < douts.size(); ++i) {
        expected[static_cast<std::size_t>(first * cols) + i % static_cast<std::size_t>(seq * cols)] += douts[i];
      }
      testing::run_on_one_and_three_threads({}, {&dwpe}, [&](Workers& workers) {
        position_backward(workers, dout.view(), seq, dwpe.view(), accumulate, first);
      });
      testing::expect_close(dwpe.values(), expected, {1e-5, 1e-5});
    }
  }
}

// Divides a vocabulary into shards; the last shards are partly or wholly unused. Their sum equals the embedding bit for
// bit.
TEST_P(Embedding, ShardsAddUpToTheWhole) {
  const DType dtype = GetParam();
  const std::int64_t seq = 5, rows = 15, cols = 37, vocab = 11, context = 9;
  const auto tokens = some_tokens(rows, vocab);
  Tensor ids = Tensor::integers(DType::i32, tokens), dout = Tensor::random(dtype, rows, cols, 3, 1.0, 2);
  Tensor wpe = Tensor::random(dtype, context, cols, 2);
  const Matrix places = wpe.view();
  for (const auto& [parts, per_part] : {std::pair<std::int64_t, std::int64_t>{1, 11}, {2, 6}, {3, 6}}) {
    Tensor wte = Tensor::random(dtype, parts * per_part, cols, 1);
    for (bool positions : {false, true}) {
      Tensor whole(dtype, rows, cols);
      Workers workers(1);
      embedding_forward(workers, ids.view(), wte.view(), positions ? &places : nullptr, seq, 2, whole.view());
      Values sum(static_cast<std::size_t>(rows * cols));
      for (std::int64_t p = 0; p < parts; ++p) {
        Matrix shard = wte.view();
        shard.data = dtype == DType::f32 ? static_cast<void*>(shard.f32(p * per_part)) : shard.b16(p * per_part);
        shard.rows = per_part;
        Tensor out(dtype, rows, cols, 1);
        testing::run_on_one_and_three_threads({}, {&out}, [&](Workers& any) {
          embedding_forward(any, ids.view(), shard, positions ? &places : nullptr, seq, 2, out.view(), p * per_part);
        });
        sum = testing::plus(sum, out.values());
      }
      EXPECT_EQ(sum, whole.values());
    }
    for (bool accumulate : {false, true}) {
      Tensor whole = Tensor::random(DType::f32, parts * per_part, cols, 4);
      Values before = whole.values(), shards;
      Workers workers(1);
      embedding_backward(workers, ids.view(), dout.view(), whole.view(), accumulate);
      for (std::int64_t p = 0; p < parts; ++p) {
        const auto begin = before.begin() + p * per_part * cols;
        Tensor shard(DType::f32, per_part, cols, Values(begin, begin + per_part * cols), 1);
        testing::run_on_one_and_three_threads({}, {&shard}, [&](Workers& any) {
          embedding_backward(any, ids.view(), dout.view(), shard.view(), accumulate, p * per_part);
        });
        const Values part = shard.values();
        shards.insert(shards.end(), part.begin(), part.end());
      }
      EXPECT_EQ(shards, whole.values());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Embedding, testing::both_float_types(), testing::type_name);

TEST(EmbeddingErrors, IndicesOutsideTheTablesAreFaults) {
  Tensor wte = Tensor::random(DType::f32, 4, 8, 1), wpe = Tensor::random(DType::f32, 2, 8, 2), out(DType::f32, 2, 8);
  const Matrix positions = wpe.view();
  Workers workers(1);
  for (std::int64_t bad : {-1, 4}) {
    Tensor ids = Tensor::integers(DType::i32, {0, bad});
    EXPECT_THROW(embedding_forward(workers, ids.view(), wte.view(), nullptr, 2, 0, out.view()), RuntimeFault);
    EXPECT_THROW(embedding_backward(workers, ids.view(), out.view(), wte.view(), false), RuntimeFault);
  }
  Tensor negative = Tensor::integers(DType::i32, {0, -1});
  EXPECT_THROW(embedding_forward(workers, negative.view(), wte.view(), nullptr, 2, 0, out.view(), 4), RuntimeFault);
  EXPECT_THROW(embedding_backward(workers, negative.view(), out.view(), wte.view(), false, 4), RuntimeFault);
  Tensor ids = Tensor::integers(DType::i32, {0, 1});
  EXPECT_THROW(embedding_forward(workers, ids.view(), wte.view(), &positions, 2, 1, out.view()), RuntimeFault);
}

}  // namespace
}  // namespace weft::cpu
