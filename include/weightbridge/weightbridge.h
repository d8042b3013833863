/* WeightBridge: moves model weights from trainers to rollout workers by one-sided reads.
 *
 * This C ABI is all that libweightbridge.so exports. weightbridge.hpp is its C++20 face.
 *
 * The rules of every call
 *   Errors     Fallible calls return a wb_code; WB_OK is 0. On failure nothing has happened unless
 *              the call says otherwise, output handles are set to NULL, and wb_last_error() has the
 *              sentence and the facts. No call throws, and no misuse of a handle crashes: NULL,
 *              closed and foreign handles give WB_INVALID_ARGUMENT.
 *   Strings    NUL-terminated UTF-8. Those passed in are copied before the call returns. Those that
 *              come out belong to the library; each call says how long they live.
 *   Structs    Those with a struct_size take sizeof(the struct) in it and zero in what is not set:
 *              zero is every field's default. A program built with an older (shorter) struct works
 *              with a newer library; a newer (longer) struct is accepted by an older library when
 *              what that library does not know is zero. The size is a multiple of 8.
 *   Time       timeout_ms: milliseconds from the call, in [0, WB_MAX_TIMEOUT_MS]. No wait is
 *              infinite. Durations that come out are nanoseconds.
 *   Sizes      Shapes and boxes count elements, offsets and strides count bytes.
 *   Threads    Any call from any thread, except where it says "one thread at a time": a second
 *              thread then gets WB_FAILED_PRECONDITION. Closing waits for the calls inside.
 *   fork       A child process must not use the handles of its parent.
 */
#ifndef WEIGHTBRIDGE_WEIGHTBRIDGE_H
#define WEIGHTBRIDGE_WEIGHTBRIDGE_H

#include <stddef.h>
#include <stdint.h>

#define WB_VERSION_MAJOR 0
#define WB_VERSION_MINOR 1
#define WB_VERSION_PATCH 0

#define WB_API __attribute__((visibility("default")))

#ifdef __cplusplus
#define WB_NOEXCEPT noexcept
extern "C" {
#else
#define WB_NOEXCEPT
#endif

/* ---- Errors --------------------------------------------------------------------------------- */

typedef int32_t wb_code;
enum {
  WB_OK = 0,
  WB_INVALID_ARGUMENT = 1,     /* the caller's words are wrong; calling again cannot help */
  WB_BAD_DATA = 2,             /* a file, the store or a peer gave malformed bytes */
  WB_NOT_FOUND = 3,            /* a file, key, tensor or rank that does not exist */
  WB_DEADLINE = 4,             /* the timeout passed before the thing waited for happened */
  WB_UNAVAILABLE = 5,          /* the store or a peer cannot be reached now */
  WB_UNAUTHENTICATED = 6,      /* wrong token or password */
  WB_PERMISSION = 7,           /* the operating system forbids it */
  WB_NO_MEMORY = 8,            /* memory, locked memory or descriptors are exhausted */
  WB_MISMATCH = 9,             /* the two sides do not describe the same model or world */
  WB_NOT_COVERED = 10,         /* no source holds a byte that the receiver needs */
  WB_UNPROVEN = 11,            /* a plan failed its proof; nothing was executed */
  WB_TORN = 12,                /* the source changed during the read */
  WB_STARVED = 13,             /* every attempt until the timeout was torn */
  WB_PEER_LOST = 14,           /* a source died or went away */
  WB_GENERATION_CHANGED = 15,  /* the set of trainer ranks was re-formed: wb_publisher_rejoin() */
  WB_FAILED_PRECONDITION = 16, /* calls in the wrong order */
  WB_UNSUPPORTED = 17,         /* this build, machine or transport cannot do it */
  WB_BUSY = 18,                /* an address, port or rank that is already taken */
  WB_CANCELLED = 19,           /* closed by its owner while it waited */
  WB_IO = 20,                  /* a system call failed in a way no other code names */
  WB_INTERNAL = 21             /* a broken invariant of the library: please report it */
};

typedef struct wb_error {
  size_t struct_size; /* of the library's struct */
  wb_code code;
  int32_t retryable; /* 1: the same call may succeed later with nothing changed by the caller */
  int32_t sys_errno; /* errno of the failed system call, or 0 */
  int32_t reserved;
  int64_t vendor;       /* status of the lower library (UCX, verbs, HTTP), or 0 */
  const char* sentence; /* for a person; never NULL */
  const char* peer;     /* worker or address concerned, or "" */
  const char* tensor;   /* checkpoint tensor concerned, or "" */
} wb_error;

/* The last error of the calling thread. Never NULL; lives until this thread's next failed call.
 * Calls that succeed leave it alone. */
WB_API const wb_error* wb_last_error(void) WB_NOEXCEPT;

/* "no_memory" for WB_NO_MEMORY; static. An unknown code gives "internal". */
WB_API const char* wb_code_name(wb_code code) WB_NOEXCEPT;

/* "0.1.0" of the library that is loaded; static. */
WB_API const char* wb_version(void) WB_NOEXCEPT;

#define WB_MAX_TIMEOUT_MS INT64_C(2592000000) /* 30 days */

/* ---- Types ---------------------------------------------------------------------------------- */

typedef struct wb_job wb_job;             /* this process's membership in one training run */
typedef struct wb_table wb_table;         /* all checkpoint tensors of a model */
typedef struct wb_layout wb_layout;       /* what one worker holds or needs, and where */
typedef struct wb_probe wb_probe;         /* the learning of a layout from a loader */
typedef struct wb_publisher wb_publisher; /* a trainer rank */
typedef struct wb_receiver wb_receiver;   /* a rollout worker */

/* Element types, as safetensors names them. */
typedef int32_t wb_dtype;
enum {
  WB_BOOL = 1,
  WB_U8 = 2,
  WB_I8 = 3,
  WB_F8_E5M2 = 4,
  WB_F8_E4M3 = 5,
  WB_F8_E8M0 = 6,
  WB_I16 = 7,
  WB_U16 = 8,
  WB_F16 = 9,
  WB_BF16 = 10,
  WB_I32 = 11,
  WB_U32 = 12,
  WB_F32 = 13,
  WB_I64 = 14,
  WB_U64 = 15,
  WB_F64 = 16,
  WB_C64 = 17,
  WB_F4 = 18,
  WB_F6_E2M3 = 19,
  WB_F6_E3M2 = 20,
  WB_F8_E4M3_FNUZ = 21,
  WB_F8_E5M2_FNUZ = 22
};

/* A version of the weights: the trainer's number inside one generation of trainer ranks. */
typedef struct wb_model_version {
  uint64_t generation;
  uint64_t number;
} wb_model_version;

/* ---- Job ------------------------------------------------------------------------------------ */

enum { WB_LOG_DEBUG = 0, WB_LOG_INFO = 1, WB_LOG_WARN = 2, WB_LOG_ERROR = 3 };

typedef struct wb_log_field {
  const char* key;
  const char* value;
} wb_log_field;

/* One structured log record; all pointers live for the call. Called from any thread, never
 * concurrently with itself, and not after wb_job_close() returned. It must not throw and must not
 * call the library. */
typedef void (*wb_log_fn)(void* user, int32_t level, const char* room, const char* message,
                          const wb_log_field* fields, size_t field_count);

typedef struct wb_job_options {
  size_t struct_size;
  const char* name;  /* NULL: "default". Jobs with other names do not see each other */
  const char* store; /* required: "embed:HOST:PORT" (this process serves the store; port 0: any) or
                        "http(s)://HOST:PORT[,...]" of an etcd v3 or of another process's store */
  const char* token; /* this or token_file is required, printable ASCII without spaces:
                        authenticates the workers of the job */
  const char* token_file; /* first line of a file that only its owner may read */
  const char* host;       /* NULL: "127.0.0.1". Address of this machine that peers can reach */
  const char* transports; /* allowed ones of local, ucx and verbs, best first, as "local,ucx".
                             NULL: local, and ucx unless host is a loopback address */
  const char* etcd_user;
  const char* etcd_password;
  const char* ca_file; /* https: trusted certificates; NULL: the system's */
  wb_log_fn log;       /* NULL: no log */
  void* log_user;
  int32_t log_level; /* least level that reaches `log` */
  int32_t reserved;
  const char* verbs; /* for the verbs transport, as "devices=mlx5_0,traffic_class=106"; NULL: it
                        chooses by itself. docs/verbs.md lists the keys */
} wb_job_options;

/* Reaches (or starts) the store. WB_UNAVAILABLE, WB_UNAUTHENTICATED, WB_BUSY (port taken),
 * WB_DEADLINE, WB_PERMISSION (token file readable by others). */
WB_API wb_code wb_job_open(const wb_job_options* options, int64_t timeout_ms,
                           wb_job** job) WB_NOEXCEPT;

/* The URL under which other processes reach the store of this job (for "embed:" the embedded
 * server's). NULL on error. Lives until this thread's next call of it. */
WB_API const char* wb_job_store_url(const wb_job* job) WB_NOEXCEPT;

/* WB_FAILED_PRECONDITION while publishers or receivers of the job are open; WB_DEADLINE: the job is
 * still there, close it again. After any other result the handle is gone. */
WB_API wb_code wb_job_close(wb_job* job, int64_t timeout_ms) WB_NOEXCEPT;

/* ---- Memory --------------------------------------------------------------------------------- */

typedef int32_t wb_memory_kind;
enum {
  WB_MEMORY_HOST = 1,  /* private pages: same-host readers copy through the kernel */
  WB_MEMORY_SHARED = 2 /* same-host readers map it and copy at memcpy speed; the default */
};

typedef struct wb_memory_options {
  size_t struct_size;
  wb_memory_kind kind;
  int32_t huge_pages; /* 1: or WB_UNSUPPORTED / WB_NO_MEMORY; never silently without */
  const char* name;   /* NULL: "weightbridge". Shown in /proc/PID/maps */
} wb_memory_options;

/* `bytes` zero bytes, page-aligned. `options` may be NULL. WB_NO_MEMORY before a page is touched
 * when the machine, the control group or the process limits cannot hold them. */
WB_API wb_code wb_memory_alloc(const wb_memory_options* options, uint64_t bytes,
                               void** data) WB_NOEXCEPT;

/* Says that [data, data + bytes) is one host allocation of the caller, so that all buffers inside
 * it are registered together. Optional: unknown buffers are grouped when they lie less than a page
 * apart. The memory stays the caller's. WB_UNSUPPORTED for device memory. */
WB_API wb_code wb_memory_adopt(void* data, uint64_t bytes) WB_NOEXCEPT;

/* `data` as it was given by wb_memory_alloc() or to wb_memory_adopt(). The memory of
 * wb_memory_alloc() stays mapped until the last layout, publisher and receiver that uses it is
 * gone; adopted memory is only forgotten. */
WB_API wb_code wb_memory_free(void* data) WB_NOEXCEPT;

/* ---- Tensor table --------------------------------------------------------------------------- */

/* This struct will not change. */
typedef struct wb_tensor {
  const char* name;
  wb_dtype dtype;
  uint32_t rank;        /* at most 8 */
  const int64_t* shape; /* `rank` dimensions, in elements; NULL when rank is 0 */
} wb_tensor;

/* The tensors of a .safetensors file, or of a folder with model.safetensors or
 * model.safetensors.index.json. Reads the headers only. WB_NOT_FOUND, WB_BAD_DATA. */
WB_API wb_code wb_table_open(const char* path, wb_table** table) WB_NOEXCEPT;

/* Names are unique and not empty; the order does not matter. Both sides of a job must give equal
 * tables. */
WB_API wb_code wb_table_create(const wb_tensor* tensors, size_t count,
                               wb_table** table) WB_NOEXCEPT;

WB_API wb_code wb_table_count(const wb_table* table, size_t* count) WB_NOEXCEPT;

/* Tensor `index` in order of names. Its pointers live as long as the table handle. */
WB_API wb_code wb_table_tensor(const wb_table* table, size_t index, wb_tensor* tensor) WB_NOEXCEPT;

/* Layouts keep what they need of their table. */
WB_API wb_code wb_table_free(wb_table* table) WB_NOEXCEPT;

/* ---- Worker layout -------------------------------------------------------------------------- */

typedef struct wb_buffer {
  size_t struct_size;
  const char* name; /* the worker's own name of the parameter; unique in the layout */
  wb_dtype dtype;
  uint32_t rank;
  const int64_t* shape; /* in elements; the array is dense and row-major */
  void* data;           /* NULL: no memory yet, see wb_layout_bind() and wb_layout_allocate() */
  uint64_t bytes;       /* 0: what dtype and shape need; else at least that */
} wb_buffer;

/* A box of a checkpoint tensor inside a buffer. Element (i0, i1, ...) of the box lies at byte
 * offset + i0 * stride[0] + i1 * stride[1] + ... of the buffer. */
typedef struct wb_piece {
  size_t struct_size;
  const char* tensor;    /* name in the table */
  uint32_t buffer;       /* index given by wb_layout_add_buffer() */
  uint32_t rank;         /* of the tensor: entries in each array; ignored when all are NULL */
  const int64_t* start;  /* first coordinate per dimension; NULL: the whole tensor */
  const int64_t* count;  /* coordinates per dimension, at least 1 each */
  const int64_t* step;   /* distance of neighbouring coordinates; NULL: 1 each */
  int64_t offset;        /* bytes */
  const int64_t* stride; /* bytes, may be negative; NULL: the box is dense and row-major.
                            Sub-byte types: the last dimension advances by whole units (F4: 2
                            elements in 1 byte, F6: 4 elements in 3 bytes) */
} wb_piece;

typedef int32_t wb_extra_kind;
enum {
  WB_UNMAPPED = 1,  /* not in the checkpoint: kept as it is */
  WB_ZERO_FILL = 2, /* padding: set to zero at each pull */
  WB_COMPUTED = 3   /* derived by the engine: a pull names it among the finalisers to run */
};

typedef int32_t wb_role;
enum { WB_SOURCE = 1, WB_RECEIVER = 2 };

/* An empty layout over `table`. */
WB_API wb_code wb_layout_create(const wb_table* table, wb_layout** layout) WB_NOEXCEPT;

/* The layout of `rank` by the sharding rules of a framework: `spec` as in "vllm:tp=4", `model_dir`
 * the folder with config.json. Its buffers have no memory yet. WB_INVALID_ARGUMENT for a spec or
 * rank that the framework itself refuses, WB_UNSUPPORTED for a model family without rules,
 * WB_MISMATCH when the table is not of this model. */
WB_API wb_code wb_layout_from_rules(const wb_table* table, const char* model_dir, const char* spec,
                                    uint32_t rank, wb_layout** layout) WB_NOEXCEPT;

/* `index` (may be NULL) gets the buffer's index: 0, 1, 2, ... The memory at `data` must stay until
 * the last publisher and receiver that uses it is closed; pointers into wb_memory_alloc() memory
 * are recognised and keep it alive. */
WB_API wb_code wb_layout_add_buffer(wb_layout* layout, const wb_buffer* buffer,
                                    uint32_t* index) WB_NOEXCEPT;

/* WB_NOT_FOUND for an unknown tensor; WB_UNSUPPORTED for a sub-byte range that is not on a byte. */
WB_API wb_code wb_layout_add_piece(wb_layout* layout, const wb_piece* piece) WB_NOEXCEPT;

/* A buffer that holds the whole of `tensor` under the tensor's own name, dense and row-major: the
 * two calls above in one. `data` and `bytes` as in wb_buffer. */
WB_API wb_code wb_layout_add_tensor(wb_layout* layout, const char* tensor, void* data,
                                    uint64_t bytes, uint32_t* index) WB_NOEXCEPT;

/* Names `bytes` bytes at byte `offset` of buffer `buffer` that no piece covers. */
WB_API wb_code wb_layout_add_extra(wb_layout* layout, uint32_t buffer, uint64_t offset,
                                   uint64_t bytes, wb_extra_kind kind,
                                   const char* name) WB_NOEXCEPT;

/* Gives a buffer without memory its place. `bytes`: what is usable at `data`.
 * WB_FAILED_PRECONDITION when it has memory. */
WB_API wb_code wb_layout_bind(wb_layout* layout, uint32_t buffer, void* data,
                              uint64_t bytes) WB_NOEXCEPT;

/* One allocation for all buffers that have no memory yet, each aligned to 4096 bytes. It lives
 * until the layout is freed and the last publisher and receiver made from it is closed. `options`
 * may be NULL. */
WB_API wb_code wb_layout_allocate(wb_layout* layout, const wb_memory_options* options) WB_NOEXCEPT;

/* Number of buffers. */
WB_API wb_code wb_layout_count(const wb_layout* layout, size_t* buffers) WB_NOEXCEPT;

/* `buffer->struct_size` is set by the caller. Its pointers live until the layout is changed or
 * freed (`data`: as its memory). */
WB_API wb_code wb_layout_buffer(const wb_layout* layout, uint32_t index,
                                wb_buffer* buffer) WB_NOEXCEPT;

/* Pieces inside their tensors and buffers and, for a receiver, no byte written twice. Creating a
 * publisher or receiver checks the same; this tells earlier. */
WB_API wb_code wb_layout_check(const wb_layout* layout, wb_role role) WB_NOEXCEPT;

/* Pieces and extras, in the order in which they were added. */
WB_API wb_code wb_layout_piece_count(const wb_layout* layout, size_t* pieces) WB_NOEXCEPT;
WB_API wb_code wb_layout_extra_count(const wb_layout* layout, size_t* extras) WB_NOEXCEPT;

/* `piece->struct_size` is set by the caller; all arrays are given. Its pointers live until this
 * thread's next call of it. */
WB_API wb_code wb_layout_piece(const wb_layout* layout, size_t index, wb_piece* piece) WB_NOEXCEPT;

typedef struct wb_extra {
  size_t struct_size;
  const char* name;
  uint32_t buffer;
  wb_extra_kind kind;
  uint64_t offset;
  uint64_t bytes;
} wb_extra;

/* As wb_layout_piece(). */
WB_API wb_code wb_layout_extra(const wb_layout* layout, size_t index, wb_extra* extra) WB_NOEXCEPT;

/* 32 hexadecimal digits over the whole mapping: table, buffers, pieces, extras; not where the
 * memory lies. NULL on error. Lives until this thread's next call of it. */
WB_API const char* wb_layout_digest(const wb_layout* layout) WB_NOEXCEPT;

/* Writes table, buffers, pieces and extras as a layout file, which appears complete or not at all;
 * a regular file of that name is replaced. */
WB_API wb_code wb_layout_save(const wb_layout* layout, const char* path) WB_NOEXCEPT;

/* The layout of a file that wb_layout_save() or `weightbridge layout --out` wrote, and its table.
 * Its buffers have no memory yet. WB_BAD_DATA for what is malformed or was changed. */
WB_API wb_code wb_layout_load(const char* path, wb_table** table, wb_layout** layout) WB_NOEXCEPT;

/* Where two layouts of one worker differ, in coordinates of the checkpoint, as JSON: {"equal": ...,
 * "differences": [...]}. Two layouts are equal when they bind the same elements to the same bytes,
 * however that is cut into pieces. NULL on error; WB_MISMATCH: other tables. Lives until this
 * thread's next call of it. */
WB_API const char* wb_layout_diff(const wb_layout* a, const wb_layout* b) WB_NOEXCEPT;

/* Publishers and receivers keep what they need of their layout. */
WB_API wb_code wb_layout_free(wb_layout* layout) WB_NOEXCEPT;

/* ---- Probing -------------------------------------------------------------------------------- */

/* Learns a worker's layout from its own loader: the loader runs a few times over probe tensors,
 * whose values say where they come from, and the buffers are read back. docs/probing.md.
 *
 *   wb_probe_create(table, options, &probe);
 *   wb_probe_add_buffer(probe, &buffer, &index);            for each live tensor of the worker
 *   for (;;) {
 *     wb_probe_begin_pass(probe, &pass);
 *     if (pass.kind == WB_PASS_DONE) break;
 *     if (pass.kind == WB_PASS_LOAD)   ... load what wb_probe_view_of(probe, 0, 1, 2, ...) gives
 *     if (pass.kind == WB_PASS_RELOAD) ... load the real weights
 *     wb_probe_end_pass(probe, places, count);              the live tensors, listed again
 *   }
 *   wb_probe_summary_of(probe, &summary);  wb_probe_layout(probe, &layout);
 *   wb_probe_free(probe);
 *
 * When the loader fails, or a call from the first begin_pass on does: wb_probe_abort(). Between
 * the first wb_probe_begin_pass() and WB_PASS_DONE (or abort) the buffers hold probe values: nobody
 * may use them. Buffers are host memory. One thread at a time, except wb_probe_view_of(). */

typedef int32_t wb_probe_restore;
enum {
  WB_RESTORE_BACKUP = 1, /* all buffers are copied before the first pass and put back after the
                            last, or at abort; the default */
  WB_RESTORE_RELOAD = 2  /* the caller loads the real weights at the end (WB_PASS_RELOAD), or after
                            abort; only bytes that the loader does not write are copied aside */
};

typedef struct wb_probe_options {
  size_t struct_size;
  wb_probe_restore restore; /* 0: WB_RESTORE_BACKUP */
  uint32_t threads;         /* that read the buffers; 0: one per core, at most 8 */
  const char* backup_dir;   /* the backup is an unnamed file in this folder; NULL: in memory */
  uint64_t max_bytes;       /* memory for what is read back, the backup apart; 0: a tenth of the
                               buffers and 64 MiB. What is too irregular to be kept in it counts as
                               computed; WB_NO_MEMORY when the probe tensors do not fit */
  uint64_t seed;            /* of the random values; the result does not depend on it */
} wb_probe_options;

/* A probe tensor: what the checkpoint tensor `name` holds in this pass. Not dense: a stride may be
 * 0 or shorter than the elements below it (overlapping). A loader that needs dense tensors gets a
 * copy. Not to be written. This struct will not change. */
typedef struct wb_probe_view {
  const char* name;
  wb_dtype dtype; /* of the tensor; WB_U8 for F4 and F6 */
  uint32_t rank;
  const int64_t* shape;  /* of the tensor, in elements; for F4 and F6 the last dimension in bytes */
  const int64_t* stride; /* bytes, never negative */
  const void* data;
} wb_probe_view;

typedef int32_t wb_pass_kind;
enum {
  WB_PASS_LOAD = 1,   /* run the loader over the probe tensors */
  WB_PASS_RELOAD = 2, /* run the loader over the real weights */
  WB_PASS_DONE = 3    /* the buffers are as before, the result is there */
};

typedef struct wb_probe_pass {
  size_t struct_size;
  wb_pass_kind kind;
  uint32_t index; /* 0, 1, 2, ... */
  uint32_t count; /* passes in all, WB_PASS_DONE not counted */
  int32_t reserved;
  const char* what; /* "tensor number", "coordinate 1", "check", ...; lives as long as the probe */
} wb_probe_pass;

/* A live tensor as it is now. This struct will not change. */
typedef struct wb_probe_place {
  const char* name;
  const void* data;
  uint64_t bytes;
} wb_probe_place;

/* `options` may be NULL. WB_UNSUPPORTED when an index of this table needs more than 48 bits. */
WB_API wb_code wb_probe_create(const wb_table* table, const wb_probe_options* options,
                               wb_probe** probe) WB_NOEXCEPT;

/* A live tensor with its memory, before the first pass. The memory stays where it is until the
 * probe is freed, unless an end_pass was told that it is gone. A buffer that lies inside another
 * one (tied weights, views) becomes its alias and is no buffer of the layout. `index` (may be NULL)
 * counts the calls: 0, 1, 2, ... */
WB_API wb_code wb_probe_add_buffer(wb_probe* probe, const wb_buffer* buffer,
                                   uint32_t* index) WB_NOEXCEPT;

/* Prepares the next pass; `pass->struct_size` is set by the caller. The first call copies the
 * backup. WB_INVALID_ARGUMENT: two buffers share some bytes but neither lies inside the other;
 * WB_NO_MEMORY: the buffers are as before. */
WB_API wb_code wb_probe_begin_pass(wb_probe* probe, wb_probe_pass* pass) WB_NOEXCEPT;

/* Tensor `index` of the table in this pass; any order, any number of times, from any thread. What
 * `data` points to stays until the probe is freed, also for a loader that keeps references. The
 * other pointers live as long as the probe. WB_FAILED_PRECONDITION outside of a WB_PASS_LOAD. */
WB_API wb_code wb_probe_view_of(const wb_probe* probe, size_t index,
                                wb_probe_view* view) WB_NOEXCEPT;

/* Reads the buffers. `places`: the live tensors, listed again by the caller (in any order);
 * WB_MISMATCH names one that moved, is gone or is new. NULL with 0: the caller vouches that their
 * memory is where it was. WB_MISMATCH also for a loader that is not deterministic: it names the
 * tensor and the buffer. */
WB_API wb_code wb_probe_end_pass(wb_probe* probe, const wb_probe_place* places,
                                 size_t count) WB_NOEXCEPT;

/* Ends the probing early and puts back what is in the backup. `reload` (may be NULL) becomes 1 when
 * the caller must load the real weights (WB_RESTORE_RELOAD), else 0. May be called at any time. */
WB_API wb_code wb_probe_abort(wb_probe* probe, int32_t* reload) WB_NOEXCEPT;

/* Every byte of every buffer is of one kind. */
typedef int32_t wb_byte_kind;
enum {
  WB_BYTES_COPIED = 1,    /* bits of one checkpoint element: a piece of the layout */
  WB_BYTES_CAST = 2,      /* one checkpoint element in another dtype: no raw read can fill it */
  WB_BYTES_UNTOUCHED = 3, /* the loader does not write it */
  WB_BYTES_CONSTANT = 4,  /* the loader writes the same value whatever the weights are (padding) */
  WB_BYTES_COMPUTED = 5   /* the loader writes what depends on the weights, but is no copy */
};

/* `count` ranges of `bytes` bytes, `pitch` bytes apart. This struct will not change. */
typedef struct wb_probe_range {
  uint32_t buffer; /* index in the layout; its name: wb_layout_buffer() */
  wb_byte_kind kind;
  uint64_t offset;
  uint64_t bytes;
  uint64_t count;
  uint64_t pitch;
} wb_probe_range;

/* Where the elements of one checkpoint tensor went. This struct will not change. */
typedef struct wb_probe_homes {
  const char* name;  /* lives as long as the probe */
  uint64_t elements; /* = no_home + one_home + more_homes; F4 and F6 count units */
  uint64_t no_home;  /* nowhere as bits: dropped, cast or computed with; to be staged and loaded */
  uint64_t one_home;
  uint64_t more_homes;
  uint64_t cast; /* of those without a home: found in another dtype */
} wb_probe_homes;

/* This struct will not change. */
typedef struct wb_probe_alias {
  const char* name;  /* of the buffer that is none of the layout; lives as long as the probe */
  const char* owner; /* of the buffer it lies in */
  uint64_t offset;   /* bytes, in the owner */
} wb_probe_alias;

typedef struct wb_probe_summary {
  size_t struct_size;
  uint64_t buffer_bytes; /* aliases not counted; the sum of the next five */
  uint64_t copied_bytes;
  uint64_t cast_bytes;
  uint64_t untouched_bytes;
  uint64_t constant_bytes;
  uint64_t computed_bytes;
  uint64_t elements; /* of all checkpoint tensors; the sum of the next three */
  uint64_t no_home;
  uint64_t one_home;
  uint64_t more_homes;
  size_t buffers; /* of the layout */
  size_t pieces;
  size_t ranges;  /* that are not copied: wb_probe_range_at() */
  size_t aliases; /* wb_probe_alias_at() */
  uint64_t passes;
  uint64_t backup_bytes;
  uint64_t peak_bytes; /* memory taken at once, the backup apart */
  uint64_t load_ns;    /* in the caller's hands: from begin_pass to end_pass */
  uint64_t read_ns;    /* reading the buffers */
  uint64_t solve_ns;   /* from digits to pieces, and their verification */
  const char* digest;  /* of the layout; lives as long as the probe */
} wb_probe_summary;

/* The next five: WB_FAILED_PRECONDITION before WB_PASS_DONE. */
WB_API wb_code wb_probe_summary_of(const wb_probe* probe, wb_probe_summary* summary) WB_NOEXCEPT;

/* In order of buffers and offsets. What no range names is copied. */
WB_API wb_code wb_probe_range_at(const wb_probe* probe, size_t index,
                                 wb_probe_range* range) WB_NOEXCEPT;

/* Tensor `index` of the table. */
WB_API wb_code wb_probe_homes_of(const wb_probe* probe, size_t index,
                                 wb_probe_homes* homes) WB_NOEXCEPT;

WB_API wb_code wb_probe_alias_at(const wb_probe* probe, size_t index,
                                 wb_probe_alias* alias) WB_NOEXCEPT;

/* The learnt layout, bound to the buffers' memory: for wb_publisher_create() and
 * wb_receiver_create(). Copied bytes are pieces; zero padding is WB_ZERO_FILL, other constants and
 * untouched bytes are WB_UNMAPPED, computed and cast bytes are WB_COMPUTED, so that a pull names
 * them. A layout of its own: free it. */
WB_API wb_code wb_probe_layout(const wb_probe* probe, wb_layout** layout) WB_NOEXCEPT;

/* The whole result as JSON: by name what is not copied and which tensors have elements without a
 * home. NULL on error. Lives until this thread's next call of it. */
WB_API const char* wb_probe_report(const wb_probe* probe) WB_NOEXCEPT;

/* Aborts a probing that is not done. */
WB_API wb_code wb_probe_free(wb_probe* probe) WB_NOEXCEPT;

/* ---- Publisher ------------------------------------------------------------------------------ */

typedef int32_t wb_publish_mode;
enum {
  WB_IN_PLACE = 1, /* receivers read the live buffers: publishing is one store; the default */
  WB_SNAPSHOT = 2  /* publishing copies into a slot: the live buffers are free at once */
};

typedef struct wb_publisher_options {
  size_t struct_size;
  uint32_t rank;
  uint32_t world; /* trainer ranks; 0: 1 */
  wb_publish_mode mode;
  uint32_t slots;     /* snapshot: versions held at once, at least 2; 0: 2 */
  int32_t huge_pages; /* 1: for the snapshot slots */
  int32_t reserved;
} wb_publisher_options;

typedef struct wb_publisher_stats_t {
  size_t struct_size;
  uint64_t published;       /* versions */
  uint64_t last_publish_ns; /* time inside the last publish */
  uint64_t last_begin_ns;   /* time inside the last begin_update */
  uint64_t max_publish_ns;
  wb_model_version version; /* last published */
} wb_publisher_stats_t;

/* Registers the buffers of `layout` and returns when all `world` ranks have joined. `options` may
 * be NULL. WB_DEADLINE, WB_MISMATCH (another table or world), WB_NO_MEMORY, WB_UNSUPPORTED. */
WB_API wb_code wb_publisher_create(wb_job* job, const wb_layout* layout,
                                   const wb_publisher_options* options, int64_t timeout_ms,
                                   wb_publisher** publisher) WB_NOEXCEPT;

/* In-place: from here to wb_publisher_publish() the buffers may change; create() has begun the
 * first update. Snapshot: no effect. `stream`: the CUDA stream whose earlier work precedes the
 * change, or NULL; WB_UNSUPPORTED when not NULL in a build without CUDA. WB_GENERATION_CHANGED
 * (in-place): the update has begun all the same; rejoin before publishing it. Never waits for
 * readers. One thread at a time. */
WB_API wb_code wb_publisher_begin_update(wb_publisher* publisher, void* stream) WB_NOEXCEPT;

/* The buffers hold version `number`, which is greater than the last one of this generation. Never
 * waits for readers, never talks to the network, allocates nothing. WB_FAILED_PRECONDITION:
 * in-place without an update begun, or a number that does not grow. WB_GENERATION_CHANGED: nothing
 * is published, rejoin to go on. One thread at a time. */
WB_API wb_code wb_publisher_publish(wb_publisher* publisher, uint64_t number,
                                    void* stream) WB_NOEXCEPT;

/* Joins the newest set of trainer ranks and waits until it is complete. What was published before
 * is gone for readers; in-place, an update has begun, as after create(). One thread at a time. */
WB_API wb_code wb_publisher_rejoin(wb_publisher* publisher, int64_t timeout_ms) WB_NOEXCEPT;

/* `stats->struct_size` is set by the caller. */
WB_API wb_code wb_publisher_stats(const wb_publisher* publisher,
                                  wb_publisher_stats_t* stats) WB_NOEXCEPT;

/* The start-up report: what was chosen and why, as JSON. NULL on error. Lives until this thread's
 * next call of it. */
WB_API const char* wb_publisher_report(const wb_publisher* publisher) WB_NOEXCEPT;

/* Stops serving (readers get WB_PEER_LOST) and deregisters; afterwards the buffers may be freed.
 * WB_DEADLINE: the publisher is still there, close it again. After any other result the handle is
 * gone. */
WB_API wb_code wb_publisher_close(wb_publisher* publisher, int64_t timeout_ms) WB_NOEXCEPT;

/* ---- Receiver ------------------------------------------------------------------------------- */

typedef int32_t wb_want;
enum {
  WB_LATEST = 1,  /* the newest version that all needed sources hold */
  WB_EXACTLY = 2, /* number == n of the newest generation */
  WB_AT_LEAST = 3 /* number >= n of the newest generation */
};

/* Of the memory that a pull writes: the buffers, or the staging set. */
typedef int32_t wb_memory_state;
enum {
  WB_MEMORY_UNTOUCHED = 1, /* as before the call */
  WB_MEMORY_COMPLETE = 2,  /* exactly the report's version in every byte */
  WB_MEMORY_TORN = 3       /* bytes of unknown versions: pull again before use */
};

typedef int32_t wb_pull_step;
enum {
  WB_STEP_DISCOVER = 1,
  WB_STEP_PLAN = 2,
  WB_STEP_CONNECT = 3,
  WB_STEP_WAIT = 4, /* for the trainer ranks to form, then for a version that all sources hold */
  WB_STEP_READ = 5,
  WB_STEP_CHECK = 6, /* second look at the sources' headers */
  WB_STEP_INSTALL = 7
};

typedef int32_t wb_event_kind;
enum {
  WB_EVENT_STEP_BEGIN = 1,
  WB_EVENT_STEP_END = 2,
  WB_EVENT_FIRST_BYTES = 3, /* some bytes of `source` have been read, nothing is checked yet */
  WB_EVENT_TORN = 4,        /* `source` changed during the read: the attempt is discarded */
  WB_EVENT_SOURCE_LOST = 5  /* `source` died; the pull goes on if others hold its bytes */
};

typedef struct wb_pull_event {
  size_t struct_size;
  wb_event_kind kind;
  wb_pull_step step;
  const char* source; /* "" where no source is concerned */
  wb_model_version version;
} wb_pull_event;

/* Called on the pulling thread while the pull's timeout goes on; may block. Pointers live for the
 * call. It must not throw. */
typedef void (*wb_event_fn)(void* user, const wb_pull_event* event);

typedef struct wb_receiver_options {
  size_t struct_size;
  const char* name;   /* required; unique in the job: "rollout-0" */
  uint32_t index;     /* place among the receivers, for people who read the job's records */
  int32_t staging;    /* 1: pull into a second set of memory; wb_receiver_install() copies it in */
  int32_t huge_pages; /* 1: of the staging set */
  int32_t reserved;
  wb_event_fn on_event; /* NULL: none */
  void* event_user;
} wb_receiver_options;

/* This struct will not change. */
typedef struct wb_timeline_entry {
  wb_pull_step step;
  int32_t reserved;
  uint64_t begin_ns; /* since the call of the pull */
  uint64_t end_ns;
} wb_timeline_entry;

/* This struct will not change. */
typedef struct wb_source_report {
  const char* worker;    /* "trainer-0" */
  const char* transport; /* "local" */
  const char* mechanism; /* "mapped memfd" */
  const char* reason;    /* why this transport */
  uint64_t bytes;        /* read in the accepted attempt */
  uint64_t reads;
} wb_source_report;

typedef struct wb_pull_report {
  size_t struct_size;       /* of the library's struct */
  wb_model_version version; /* accepted, or last tried */
  wb_memory_state memory;
  uint32_t attempts;
  uint32_t torn; /* attempts discarded */
  uint32_t reserved;
  uint64_t bytes;
  uint64_t reads;
  uint64_t versions_skipped; /* numbers between this version and the one pulled before */
  uint64_t read_ns;          /* of the accepted attempt */
  uint64_t total_ns;
  const wb_source_report* sources;
  size_t source_count;
  const wb_timeline_entry* timeline; /* in order of time */
  size_t timeline_count;
  const char* const* finalisers; /* names of computed extras that the engine must recompute now */
  size_t finaliser_count;
} wb_pull_report;

/* Registers the buffers of `layout` and, with staging, allocates the second set: WB_NO_MEMORY is
 * known here. Does not wait for trainers. Bytes of a buffer that are in no piece and no extra
 * (padding of an engine) are left as they are: a warning is logged, and "unnamed_bytes" of
 * wb_receiver_report() counts them. */
WB_API wb_code wb_receiver_create(wb_job* job, const wb_layout* layout,
                                  const wb_receiver_options* options, int64_t timeout_ms,
                                  wb_receiver** receiver) WB_NOEXCEPT;

/* Ends with exactly one version in every byte, or with an error. `number` counts for WB_EXACTLY and
 * WB_AT_LEAST. `report` (may be NULL) is set in both cases, to memory of the receiver that lives
 * until its next pull, install or close; it is NULL when the call itself was wrong (handle, want,
 * timeout, thread). WB_DEADLINE: no such version came; WB_STARVED: every attempt was torn;
 * WB_PEER_LOST: no source is left for some bytes; WB_NOT_COVERED, WB_MISMATCH, WB_CANCELLED
 * (closed meanwhile). report->memory says what the buffers hold. One thread at a time. */
WB_API wb_code wb_receiver_pull(wb_receiver* receiver, wb_want want, uint64_t number,
                                int64_t timeout_ms, const wb_pull_report** report) WB_NOEXCEPT;

/* Staging only: copies the last complete pull into the buffers. WB_FAILED_PRECONDITION without one.
 * One thread at a time. */
WB_API wb_code wb_receiver_install(wb_receiver* receiver,
                                   const wb_pull_report** report) WB_NOEXCEPT;

/* As wb_publisher_report(). */
WB_API const char* wb_receiver_report(const wb_receiver* receiver) WB_NOEXCEPT;

/* Cancels a pull in another thread (it ends with WB_CANCELLED, also out of a call to a store or
 * peer that does not answer), then as wb_publisher_close(). */
WB_API wb_code wb_receiver_close(wb_receiver* receiver, int64_t timeout_ms) WB_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif
