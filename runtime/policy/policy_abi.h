/* The interface of policies in shared libraries: plain C, so that library and program may come from different
 * compilers.
 *
 * A library exports one function, weft_policy_entry_2(), whose result names the version of this header with which it
 * was compiled. It is loaded by `--policy ./mine.so` or `--policy ./mine.so:parameters`. See examples/policy.
 *
 * A policy is a pure function: equal inputs give equal results. The memory of its arguments belongs to who made it and
 * is only valid during the call. Exceptions must not leave it.
 *
 * Version 2 only grows at the ends of its structs. Each begins with its size or has it beside the array that holds it,
 * so that older libraries step over what they don't know, and newer ones find out by WEFT_HAS() what an older Weft
 * doesn't hand over. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether the struct of someone else, which begins with its size, has this field. */
#define WEFT_HAS(pointer, field) \
  ((const char*)(&(pointer)->field + 1) - (const char*)(pointer) <= (ptrdiff_t)(pointer)->size)

enum { weft2_version = 2 };

enum { weft2_phase_forward = 0, weft2_phase_backward = 1, weft2_phase_update = 2 };

enum { weft2_read = 1, weft2_write = 2, weft2_read_write = 3 };

enum {
  weft2_role_parameter = 0,
  weft2_role_gradient = 1,
  weft2_role_optimizer_state = 2,
  weft2_role_scalar = 3,
  weft2_role_input = 4,
  weft2_role_cache = 5,
  weft2_role_activation = 6,
  weft2_role_gathered = 7, /* a parameter's whole block, while tasks read it */
  weft2_role_workspace = 8
};

/* No task, no class. */
#define WEFT2_NONE UINT32_MAX

/* Indices below are into the arrays of the same class. */

typedef struct weft2_tensor {
  const char* name; /* unique in its class */
  int32_t role;     /* weft2_role_... */
  int32_t outlives; /* 1: state, with a fixed address; 0: scratch, which counts against the limit */
  int64_t bytes;
  uint32_t first, last; /* the tasks that touch it first and last, in the order of indices; WEFT2_NONE: none does */
} weft2_tensor;

typedef struct weft2_access {
  uint32_t tensor;
  int32_t mode; /* weft2_read, ... */
  int64_t bytes;
} weft2_access;

/* The order of the tasks' indices is a valid sequence. */
typedef struct weft2_task {
  const char *name, *kind;        /* unique; "gemm", "all_reduce", ... */
  int32_t phase;                  /* weft2_phase_... */
  int32_t layer;                  /* -1: in no layer */
  int32_t micro_batch;            /* -1: in none */
  int32_t channel;                /* of a task that communicates: index into the problem's channels; else -1 */
  uint32_t peer_class, peer_task; /* of a send or a receive: its other half; else WEFT2_NONE */
  uint32_t access_begin, access_count;
  double cost_ns;       /* alone on its resources */
  double beside_ns;     /* of a collective: beside computations; of others cost_ns */
  double cpu_ns;        /* core time that a collective's transport takes from computations */
  double flops, bytes;  /* bytes of memory that it reads and writes */
  double network_bytes; /* that a rank sends */
} weft2_task;

/* `to` must come after `from`: in the same step, or of distance 1, after it in the step before. */
typedef struct weft2_edge {
  uint32_t from, to;
  uint8_t issued_before; /* 1: only the order of issue is fixed; 0: `from` must be complete */
  uint8_t distance;
} weft2_edge;

/* A computation goes on any stream of channel -1, a task that communicates on the stream of its channel. */
typedef struct weft2_stream {
  const char* name;
  int32_t channel;
} weft2_stream;

/* Ranks with equal graphs. Without a pipeline there is one class, else one a pipeline rank. */
typedef struct weft2_class {
  uint32_t size;
  uint32_t tensor_size, access_size, task_size, edge_size, stream_size; /* of the structs above */
  const char* name;
  uint64_t tensor_count, access_count, task_count, edge_count, stream_count;
  const weft2_tensor* tensors;
  const weft2_access* accesses;
  const weft2_task* tasks;
  const weft2_edge* edges;     /* sorted by `to` */
  const weft2_stream* streams; /* compute streams first */
  int64_t memory_limit;        /* bytes of scratch that the plan may take; 0: no limit */
  const uint32_t* meetings;    /* by task: those of several classes with equal numbers start at the same moment;
                                  WEFT2_NONE: alone */
} weft2_class;

/* A process group, messages in one direction, or a queue of the rank's own, such as a CPU thread (group_size 1). */
typedef struct weft2_channel {
  const char* name;
  uint32_t group_size; /* members of a group */
  uint32_t link;       /* index: channels with equal links share one */
} weft2_channel;

typedef struct weft2_link {
  const char* name;
  double bytes_per_ns, latency_ns; /* 0: unknown */
} weft2_link;

/* A computation of one kind takes `factor` times as long while a collective of the other runs beside it; "": any kind.
 * The first that matches applies. */
typedef struct weft2_slowdown {
  const char *compute_kind, *collective_kind;
  double factor;
} weft2_slowdown;

typedef struct weft2_problem {
  uint32_t size;
  uint32_t class_size, channel_size, link_size, slowdown_size;
  uint64_t class_count, channel_count, link_count, slowdown_count;
  const weft2_class* classes;
  const weft2_channel* channels;
  const weft2_link* links;
  const weft2_slowdown* slowdowns;
  double shared_cores;    /* cores that a rank's computations and transports share; 0: none are shared */
  const char* parameters; /* the text after the colon, or "" */
  uint64_t seed;
} weft2_problem;

typedef struct weft2_added_edge {
  uint32_t from, to;
  uint8_t issued_before, distance;
} weft2_added_edge;

/* What a policy answers, for one class. */
typedef struct weft2_order {
  uint32_t size;
  uint32_t* sequence;            /* task_count entries to fill: the tasks in their order */
  uint32_t* streams;             /* task_count entries to fill: of the task at that position, its stream's index */
  uint32_t* reasons;             /* task_count entries, initially 0: results of add_reason() */
  const weft2_added_edge* edges; /* the library's own, copied when order() returns; initially null */
  uint64_t edge_count;
} weft2_order;

typedef struct weft2_simulation {
  uint32_t size;
  double step_ns;
  double *begin_ns, *end_ns; /* task_count entries of all classes in turn, by task; null: not wanted */
  int64_t* scratch_bytes;    /* by class: what the plan would take; null: not wanted, which saves most of the time */
} weft2_simulation;

/* Functions of Weft, for the time of one call, on the thread of that call. */
typedef struct weft2_host {
  uint32_t size;
  void* context; /* their first argument */
  /* Simulates an order for each class, with the costs and the contention of the problem. 0: done; else error() says why
   * the orders are none. */
  int32_t (*simulate)(void* context, const weft2_order* orders, weft2_simulation* result);
  /* In rewrites() alone: a rewrite as --rewrites takes it. 0: done; else error() says why it isn't one. */
  int32_t (*add_rewrite)(void* context, const char* text);
  /* 1, 2, ...; 0: refused, as there are too many. for_memory: the task was delayed or preferred for the memory limit,
   * which `weft explain` then names as the cause; the text gets "for memory: " before it. */
  uint32_t (*add_reason)(void* context, const char* text, uint32_t for_memory);
  const char* (*error)(void* context);              /* of the last function that failed */
  void (*fail)(void* context, const char* message); /* why the library's own function is going to fail */
  /* In order() alone: a list schedule. Whenever a stream is idle, it starts the ready task with the largest priority
   * (task_count entries of all classes in turn, by task), within the memory limits. Fills sequence and streams of an
   * order for each class. 0: done; else error() says why not. `step_ns` may be null. */
  int32_t (*schedule)(void* context, const double* priorities, weft2_order* orders, double* step_ns);
} weft2_host;

typedef struct weft2_policy {
  uint32_t version;         /* weft2_version */
  uint32_t size;            /* of this struct */
  uint32_t several_classes; /* 1: it can order problems of several classes */
  /* 0: done. Anything else: failed, and fail() was told why. `rewrites` may be null; it gets the graphs as they are
   * before any rewrite of its own, one class at a time. `order` has an order for each class to fill, which must run
   * together without a deadlock. */
  int32_t (*rewrites)(const weft2_problem* problem, const weft2_host* host);
  int32_t (*order)(const weft2_problem* problem, const weft2_host* host, weft2_order* orders);
} weft2_policy;

/* Exported by a library. `newest`: the newest version that this Weft knows. The result must stay valid as
 * long as the library is loaded. */
const weft2_policy* weft_policy_entry_2(uint32_t newest);

#ifdef __cplusplus
}
#endif
