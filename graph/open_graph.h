// An open graph: anybody's step as data. Its tasks need no operation that Weft knows, so it can come from a file, from
// a trace or from a program of somebody else. It is ordered, simulated, bounded, drawn and explained, but never
// executed.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace weft::graph {

/// What a task does, as far as an order has to know it. host: work of a CPU thread, such as launches.
enum class OpenKind : std::uint8_t { compute, collective, send, receive, copy, host };

std::string_view to_string(OpenKind kind);

/// Whether a task of this kind meets other ranks. Only such tasks have channels.
constexpr bool communicates(OpenKind kind) {
  return kind == OpenKind::collective || kind == OpenKind::send || kind == OpenKind::receive;
}

/// Where an edge is known from. From sure to doubtful:
/// given: the file or a dependency record of the trace says so;  data: both access a storage of an execution trace, and
/// one of them writes it, or one is of an operator and the other of its node in the backward pass;  synchronisation: a
/// record of one stream that waits for another, or of the host that waits;  stream: both tasks ran on one in-order
/// queue, in this order;  one_operator: an operator of the CPU launched both, in this order;  launch: a task of the
/// host launched it;  pairing: the order of launches on a thread of the CPU;  times: a guess from start and end.
enum class EdgeSource : std::uint8_t { given, data, synchronisation, stream, one_operator, launch, pairing, times };

std::string_view to_string(EdgeSource source);

/// An in-order queue on which tasks ran, or may run.
struct OpenStream {
  std::string name;           // "compute", "stream 7", "thread 4312"
  bool host = false;          // of a CPU thread
  std::int32_t channel = -1;  // of a communicator's queue: index into OpenGraph::channels
};

/// A set of process groups with the same communication: Weft's axis, a trace's process group.
struct OpenChannel {
  std::string name;                                    // "z", "default_pg", "tensor parallel (inferred)"
  std::int64_t group_size = 1;                         // members of a group
  std::vector<std::vector<std::int64_t>> groups = {};  // ranks of each group; empty: unknown
  std::string link = {};                               // channels with equal texts share a link; "": a link of its own
};

struct OpenTensor {
  std::string name;
  std::int64_t bytes = 0;
  bool outlives_step = false;     // a parameter or optimizer state, say, which is never freed
  std::optional<Role> role = {};  // absent: a parameter if it outlives the step, else an activation
};

struct OpenAccess {
  std::uint32_t tensor = 0;  // index into OpenClass::tensors; the whole of it
  AccessMode mode = AccessMode::read;
};

struct OpenTask {
  std::string name;  // unique in its class
  OpenKind kind = OpenKind::compute;
  std::string operation;  // what --scale and legends group by: "gemm", "all_reduce", a kernel's name
  std::vector<OpenAccess> accesses;
  std::int32_t stream = -1;                        // on which it ran: index into OpenClass::streams; -1: unknown
  std::int32_t channel = -1;                       // of a collective, send or receive: index into OpenGraph::channels
  std::int64_t sequence = -1;                      // of a collective in its group, where known
  std::int64_t peer = -1;                          // rank that a send or receive meets, where known
  std::int64_t message = -1;                       // number that a send and its receive in another class share
  std::optional<double> ns;                        // time alone, without waiting for other ranks
  std::optional<double> begin_ns, end_ns;          // as recorded, since the step's begin; with the wait for other ranks
  double flops = 0, bytes = 0, network_bytes = 0;  // shape, for a machine's rates, where `ns` is absent; 0: unknown
  std::int32_t layer = -1, micro_batch = -1;
  std::optional<Phase> phase;
  bool data_known = false;  // whatever has to come before or after it for its data's sake is told by edges
  /// Of a collective whose `ns` is known, as in cost::TaskCosts: its time beside computations, the time for which its
  /// bytes occupy the link, and the core time of its transport. Absent: equal to ns, equal to ns, none.
  std::optional<double> beside_ns, link_ns, cpu_ns;
};

struct OpenEdge {
  std::uint32_t from = 0, to = 0;  // tasks of the same class, from < to
  EdgeKind kind = EdgeKind::completes_before;
  EdgeSource source = EdgeSource::given;
  double confidence = 1;  // from 0 to 1
  /// Of a task that is launched: it can't start earlier than this long after `from` began. Absent: after `from` is
  /// done.
  std::optional<double> after_begin_ns = {};
};

/// The operation of a task that stands before all others of a recorded step: how much later than the first rank's its
/// own rank's step began.
inline constexpr std::string_view kLaterStart = "later_start";

/// The step of ranks with equal graphs, or of one rank.
struct OpenClass {
  std::string name;                 // "" if it is the only one
  std::vector<std::int64_t> ranks;  // rising
  std::vector<OpenStream> streams;
  std::vector<OpenTensor> tensors;
  std::vector<OpenTask> tasks;  // in an order that the edges allow
  std::vector<OpenEdge> edges;  // besides the ones that accesses imply
  /// false: accesses say only how long memory is in use; `edges` holds all edges.
  bool edges_from_accesses = true;
  double recorded_ns = 0;  // the step's recorded length; 0: it was never recorded
};

/// By what factor a collective slows a computation down that runs beside it, by `operation` of both; "": any.
struct OpenSlowdown {
  std::string compute, collective;
  double factor = 1;  // ≥ 1
};

/// The factor of the first that matches; 1 if none does.
double slowdown_of(std::span<const OpenSlowdown> slowdowns, std::string_view compute, std::string_view collective);

/// The part of the speed that any of the computations loses at least beside the collective; 0 without computations.
double least_loss(std::span<const OpenSlowdown> slowdowns, const std::set<std::string_view>& computations,
                  std::string_view collective);

/// How the tasks of a rank disturb each other.
struct OpenContention {
  int compute_streams = 1;
  std::optional<double> shared_cores = {};   // cores that computations and transport share; absent: they share none
  std::vector<OpenSlowdown> slowdowns = {};  // the first that matches applies
};

struct OpenGraph {
  std::string name;                // of the model, the file or the run
  std::string source;              // who made it: "weft", "kineto", "chakra", "nsight"
  std::vector<std::string> notes;  // what was guessed, absent or stood in for, one sentence each
  std::int64_t world = 1;          // ranks of the run; more than the classes hold where traces are missing
  std::vector<OpenChannel> channels;
  std::optional<OpenContention> contention = {};  // absent: unknown
  std::vector<OpenClass> classes;
};

/// Throws UserError on what can't be a step: no task, a name that comes twice, an index out of range, an edge that goes
/// backwards, a collective without a channel, a negative time, a read of a tensor that neither outlives the step nor
/// was written by an earlier task. `file` stands before messages, if it is given.
void check(const OpenGraph& graph, std::string_view file = {});

}  // namespace weft::graph
