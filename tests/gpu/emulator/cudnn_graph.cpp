#include "tests/gpu/emulator/cudnn_graph.h"

#include <cuda_bf16.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <string>

namespace weft::emulator {
namespace {

using Index = std::array<std::int64_t, 4>;

// A tensor's elements by their offsets: in the memory of the caller, or of the graph.
class Values {
 public:
  Values(const CudnnNode& tensor, void* memory) : memory_(memory) {
    std::ranges::copy(tensor.numbers.at(CUDNN_ATTR_TENSOR_DIMENSIONS), dims.begin());
    std::ranges::copy(tensor.numbers.at(CUDNN_ATTR_TENSOR_STRIDES), strides_.begin());
    type_ = static_cast<cudnnDataType_t>(tensor.number(CUDNN_ATTR_TENSOR_DATA_TYPE));
    if (memory_ != nullptr) return;
    std::int64_t last = 0;
    for (std::size_t i = 0; i < dims.size(); ++i) last += (dims[i] - 1) * strides_[i];
    own_.resize(static_cast<std::size_t>(last) + 1);
  }

  // A dimension of one element is repeated.
  std::int64_t offset(const Index& at) const {
    std::int64_t result = 0;
    for (std::size_t i = 0; i < at.size(); ++i) result += (dims[i] == 1 ? 0 : at[i]) * strides_[i];
    return result;
  }
  float get(std::int64_t at) const {
    const auto place = static_cast<std::size_t>(at);
    if (memory_ == nullptr) return own_.at(place);
    if (type_ == CUDNN_DATA_FLOAT) return static_cast<const float*>(memory_)[place];
    return __bfloat162float(static_cast<const __nv_bfloat16*>(memory_)[place]);
  }
  void set(std::int64_t at, float value) {
    const auto place = static_cast<std::size_t>(at);
    const __nv_bfloat16 half = __float2bfloat16_rn(value);
    if (memory_ == nullptr) {
      own_.at(place) = type_ == CUDNN_DATA_BFLOAT16 ? __bfloat162float(half) : value;
    } else if (type_ == CUDNN_DATA_FLOAT) {
      static_cast<float*>(memory_)[place] = value;
    } else {
      static_cast<__nv_bfloat16*>(memory_)[place] = half;
    }
  }
  float operator[](const Index& at) const { return get(offset(at)); }

  Index dims{};

 private:
  void* memory_;
  Index strides_{};
  cudnnDataType_t type_{};
  std::vector<float> own_;
};

template <class Visit>
void for_each_index(const Index& dims, const Visit& visit) {
  Index at{};
  for (at[0] = 0; at[0] < dims[0]; ++at[0]) {
    for (at[1] = 0; at[1] < dims[1]; ++at[1]) {
      for (at[2] = 0; at[2] < dims[2]; ++at[2]) {
        for (at[3] = 0; at[3] < dims[3]; ++at[3]) visit(at);
      }
    }
  }
}

// With 16 bits after the point, so that the number of pieces of a sum shows in the bits of its result.
float as_piece(float sum) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(sum) & 0xffffff80U);
}

class Computation {
 public:
  Computation(const CudnnNode& pack, std::int64_t pieces) : pieces_(pieces) {
    const auto& ids = pack.numbers.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const auto& addresses = pack.numbers.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    for (std::size_t i = 0; i < ids.size(); ++i) memory_[ids[i]] = std::bit_cast<void*>(addresses.at(i));
  }

  void run(const CudnnNode& operation) {
    switch (operation.type) {
      case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        return pointwise(operation);
      case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        return reduce(operation);
      case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        return multiply(operation);
      case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
        return reshape(operation);
      default:
        throw std::logic_error("the emulated cuDNN has no operation of type " + std::to_string(operation.type));
    }
  }

 private:
  Values& values(const CudnnNode& operation, cudnnBackendAttributeName_t name) {
    const CudnnNode& tensor = operation.part(name);
    const std::int64_t id = tensor.number(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    const bool inner = tensor.number(CUDNN_ATTR_TENSOR_IS_VIRTUAL) != 0;
    return values_.try_emplace(id, tensor, inner ? nullptr : memory_.at(id)).first->second;
  }

  void pointwise(const CudnnNode& operation) {
    const CudnnNode& how = operation.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    const auto mode = static_cast<cudnnPointwiseMode_t>(how.number(CUDNN_ATTR_POINTWISE_MODE));
    const Values& x = values(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
    const auto find = [&](cudnnBackendAttributeName_t name) {
      return operation.parts.contains(name) ? &values(operation, name) : nullptr;
    };
    const Values* const b = find(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    const Values* const mask = find(CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
    Values& y = values(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    for_each_index(y.dims, [&](const Index& at) {
      const float left = x[at], right = b != nullptr ? (*b)[at] : 0;
      const auto result = [&]() -> float {
        switch (mode) {
          case CUDNN_POINTWISE_ADD:
            return left + right;
          case CUDNN_POINTWISE_SUB:
            return left - right;
          case CUDNN_POINTWISE_MUL:
            return left * right;
          case CUDNN_POINTWISE_DIV:
            return left / right;
          case CUDNN_POINTWISE_EXP:
            return std::exp(left);
          case CUDNN_POINTWISE_LOG:
            return std::log(left);
          case CUDNN_POINTWISE_CMP_GE:
            return left >= right ? 1.0F : 0.0F;
          case CUDNN_POINTWISE_GEN_INDEX:
            return static_cast<float>(at.at(static_cast<std::size_t>(how.number(CUDNN_ATTR_POINTWISE_AXIS))));
          case CUDNN_POINTWISE_BINARY_SELECT:
            return (*mask)[at] != 0 ? left : right;
          default:
            throw std::logic_error("the emulated cuDNN has no pointwise mode " + std::to_string(mode));
        }
      };
      y.set(y.offset(at), result());
    });
  }

  // Over the dimensions that y has less of: whole ones, or groups of neighbours.
  void reduce(const CudnnNode& operation) {
    const bool adds = operation.part(CUDNN_ATTR_OPERATION_REDUCTION_DESC).number(CUDNN_ATTR_REDUCTION_OPERATOR) ==
                      CUDNN_REDUCE_TENSOR_ADD;
    const Values& x = values(operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
    Values& y = values(operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    Index group{};
    for (std::size_t i = 0; i < group.size(); ++i) group[i] = x.dims[i] / y.dims[i];
    for_each_index(y.dims, [&](const Index& at) {
      float result = adds ? 0.0F : -INFINITY;
      for_each_index(group, [&](const Index& in) {
        Index from{};
        for (std::size_t i = 0; i < from.size(); ++i) from[i] = at[i] * group[i] + in[i];
        result = adds ? result + x[from] : std::max(result, x[from]);
      });
      y.set(y.offset(at), result);
    });
  }

  void multiply(const CudnnNode& operation) {
    const Values& a = values(operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
    const Values& b = values(operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
    Values& c = values(operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
    const std::int64_t k = a.dims[3], heads = std::max<std::int64_t>(1, a.dims[1] / b.dims[1]);
    for_each_index(c.dims, [&](const Index& at) {
      float sum = 0;
      for (std::int64_t piece = 0; piece < pieces_; ++piece) {
        float part = 0;
        for (std::int64_t i = piece * k / pieces_; i < (piece + 1) * k / pieces_; ++i) {
          part += a[{at[0], at[1], at[2], i}] * b[{at[0], at[1] / heads, i, at[3]}];
        }
        sum += as_piece(part);
      }
      c.set(c.offset(at), sum);
    });
  }

  // The same elements under other indices.
  void reshape(const CudnnNode& operation) {
    const Values& x = values(operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
    Values& y = values(operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
    for_each_index(y.dims, [&](const Index& at) { y.set(y.offset(at), x.get(y.offset(at))); });
  }

  std::int64_t pieces_;
  std::map<std::int64_t, void*> memory_;   // by the ids of arguments
  std::map<std::int64_t, Values> values_;  // by the ids of tensors
};

}  // namespace

void compute_graph(const CudnnNode& graph, const CudnnNode& pack, std::int64_t pieces) {
  Computation computation(pack, pieces);
  for (const auto& operation : graph.parts.at(CUDNN_ATTR_OPERATIONGRAPH_OPS)) computation.run(*operation);
}

}  // namespace weft::emulator
