// A library whose parameters select its behaviour: valid ("" or "reversed"), or one that is refused.
#include <weft/policy_abi.h>

#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

namespace {

int32_t order(const weft_policy_input* in, weft_policy_output* out) {
  const std::string mode = in->parameters;
  if (mode == "throw") throw std::runtime_error("no memory left");
  if (mode == "throw-int") throw 7;
  if (mode == "silent") return 5;
  if (mode == "fail") {
    std::strncpy(out->error, "parameter 'depth' must be positive", out->error_capacity);
    return 1;
  }
  if (mode == "long") {
    std::memset(out->error, 'x', out->error_capacity);
    return 1;
  }
  const auto count = static_cast<uint32_t>(in->task_count);
  for (uint32_t t = 0; t < count; ++t) {
    out->sequence[t] = t;
    for (uint32_t s = 0; s < in->stream_count; ++s) {
      if (in->streams[s].channel == in->tasks[t].channel) out->streams[t] = s;
    }
  }
  if (mode == "missing") out->sequence[count - 1] = UINT32_MAX;
  if (mode == "twice") out->sequence[count - 1] = out->sequence[0];
  if (mode == "unknown") out->sequence[1] = count;
  if (mode == "backwards") std::swap(out->sequence[0], out->sequence[1]), std::swap(out->streams[0], out->streams[1]);
  if (mode == "stream") out->streams[1] = out->streams[0];
  if (mode == "no-stream") out->streams[0] = 99;
  if (mode == "reason") out->reasons[0] = 3;
  if (mode == "edge") out->add_edge(out->context, 1, 0);
  if (mode == "edge-out") out->add_edge(out->context, 0, count);
  if (mode == "good") {
    out->reasons[0] = out->add_reason(out->context, "because it is first");
    out->add_edge(out->context, 0, count - 1);
  }
  return 0;
}

}  // namespace

extern "C" const weft_policy* weft_policy_entry() {
  static const weft_policy policy = {weft_policy_abi_version, sizeof(weft_policy), order};
  return &policy;
}
