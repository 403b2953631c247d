// What if a recorded step ran otherwise: its graph with other times, before it is planned.
#pragma once

#include <string_view>

#include "base/dtype.h"
#include "graph/open_graph.h"
#include "runtime/cost/machine.h"

namespace weft::simulate {

/// Launches and all other work of CPU threads take no time, as where the step is one CUDA graph.
void take_host_away(graph::OpenGraph& graph);

/// Tasks whose name or operation matches the pattern (cost::matches_pattern()) are gone: neither they nor the calls
/// that launched nothing else take any time. Their edges stay. A pattern that matches nothing changes nothing.
void take_tasks_away(graph::OpenGraph& graph, std::string_view pattern);

/// Recorded times as another machine would have them: products and attention by the two machines' rates of operations
/// for `dtype`, other kernels and copies by their memories, collectives by the links of groups of their size. The
/// host's work stays.
void move_to_machine(graph::OpenGraph& graph, const cost::Machine& from, const cost::Machine& to, DType dtype);

/// Collectives of one kind on one channel that follow each other are joined until they send this many bytes: the last
/// of them takes the place of all, once the data of all are there, and what needs one of them waits for it. It takes as
/// long as they do together, without the latency of the others, which follows from the recorded sizes and times. Work
/// that needs one of them before the last one is issued ends a bucket. Returns how many collectives were joined to
/// another.
std::int64_t join_buckets(graph::OpenGraph& graph, double bytes);

}  // namespace weft::simulate
