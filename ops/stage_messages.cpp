#include "ops/stage_messages.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft::ops {
namespace {

enum class Pass : std::uint8_t { forward, backward };

/// Both ends give a message that enters `stage`, or whose gradient leaves it, the same number: from 1, in a step.
std::int64_t message_number(const Lowering& low, std::int64_t stage, Pass pass) {
  const std::int64_t micro_batch = std::max<std::int64_t>(0, low.here().micro_batch);
  return 1 + 2 * (micro_batch * low.layout().stages() + stage) + (pass == Pass::forward ? 0 : 1);
}

void send(Lowering& low, graph::Channel channel, std::int64_t message, graph::TensorId tensor) {
  const std::int64_t count = low.tensor(tensor).elements();
  low.emit("send", graph::Send{channel, message, count}, {{"buffer", graph::read(low.elements(tensor, 0, count))}});
}

void receive(Lowering& low, graph::Channel channel, std::int64_t message, graph::TensorId tensor) {
  const std::int64_t count = low.tensor(tensor).elements();
  low.emit("receive", graph::Receive{graph::other_end(channel), message, count},
           {{"buffer", graph::write(low.elements(tensor, 0, count))}});
}

}  // namespace

Value receive_input(Lowering& low, std::int64_t stage, std::int64_t rows) {
  auto scope = low.enter(fmt::format("S{}", stage));
  const std::int64_t cols = low.model().hidden / low.grid().x;
  const Value input{low.activation("input", rows, cols), rows, cols};
  receive(low, forward_channel(low.layout(), stage), message_number(low, stage, Pass::forward), input.tensor);
  low.record({}, [=](Lowering& l) {
    send(l, backward_channel(l.layout(), stage), message_number(l, stage, Pass::backward), l.gradient(input));
  });
  return input;
}

void send_output(Lowering& low, std::int64_t stage, const Value& output) {
  auto scope = low.enter(fmt::format("S{}", stage));
  const std::int64_t next = stage + 1;
  send(low, forward_channel(low.layout(), next), message_number(low, next, Pass::forward), output.tensor);
  low.record({}, [=](Lowering& l) {
    const graph::TensorId gradient = l.activation("gradient", output.rows, output.cols);
    receive(l, backward_channel(l.layout(), next), message_number(l, next, Pass::backward), gradient);
    l.set_gradient(output, gradient);
  });
}

}  // namespace weft::ops
