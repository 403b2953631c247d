/* The interface of policies in shared libraries: plain C, so that library and program may come from different
 * compilers.
 *
 * A library exports one function, weft_policy_entry(), whose result names the version of this header with which it was
 * compiled. It is loaded by `--policy ./mine.so` or `--policy ./mine.so:parameters`. See examples/policy.
 *
 * A policy is a pure function: equal inputs give equal results. The memory of its arguments belongs to the caller and
 * is only valid during the call. Exceptions must not leave it. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { weft_policy_abi_version = 1 };

enum { weft_phase_forward = 0, weft_phase_backward = 1, weft_phase_update = 2 };

/* A task is named by its index. The order of indices is a valid sequence. */
typedef struct weft_policy_task {
  const char* name; /* unique */
  const char* kind; /* "gemm", "all_reduce", ... */
  int32_t phase;    /* weft_phase_... */
  int32_t layer;    /* -1: in no layer */
  int32_t micro_batch;
  int32_t channel; /* of a collective: its process group; -1: a computation */
  double cost_ns;  /* alone on its resources */
  double bytes;    /* of memory that it reads and writes; of a collective: what a rank sends */
} weft_policy_task;

/* `to` must come after `from` in the sequence. */
typedef struct weft_policy_edge {
  uint32_t from, to;
} weft_policy_edge;

/* A computation goes on any stream of channel -1, a collective on the stream of its channel. */
typedef struct weft_policy_stream {
  const char* name;
  int32_t channel;
} weft_policy_stream;

typedef struct weft_policy_input {
  uint32_t size;                              /* of this struct */
  uint32_t task_size, edge_size, stream_size; /* of the structs above */
  const weft_policy_task* tasks;
  const weft_policy_edge* edges; /* within a step, sorted by `to` */
  const weft_policy_stream* streams;
  uint64_t task_count, edge_count, stream_count;
  const char* parameters; /* the text after the colon, or "" */
  int64_t memory_limit;   /* bytes of scratch that the plan may take; 0: no limit */
  uint64_t seed;
} weft_policy_input;

typedef struct weft_policy_output {
  uint32_t size;      /* of this struct */
  uint32_t* sequence; /* task_count entries to fill: the tasks in their order */
  uint32_t* streams;  /* task_count entries to fill: of the task at that position, its stream's index */
  uint32_t* reasons;  /* task_count entries, initially 0: results of add_reason() */
  uint32_t (*add_reason)(void* context, const char* text);     /* returns 1, 2, ... */
  void (*add_edge)(void* context, uint32_t from, uint32_t to); /* an edge of your own */
  void* context;                                               /* for the two functions above */
  char* error;                                                 /* to fill when order() fails */
  uint64_t error_capacity;                                     /* with its terminating 0 */
} weft_policy_output;

typedef struct weft_policy {
  uint32_t version; /* weft_policy_abi_version */
  uint32_t size;    /* of this struct */
  /* 0: done. Anything else: failed, and `error` says why. */
  int32_t (*order)(const weft_policy_input* input, weft_policy_output* output);
} weft_policy;

/* Exported by a library. The result must stay valid as long as the library is loaded. */
const weft_policy* weft_policy_entry(void);

#ifdef __cplusplus
}
#endif
