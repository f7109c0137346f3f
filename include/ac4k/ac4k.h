/* AC4K: low-precision kernels for LLM and diffusion inference. The C ABI.
 *
 * Tensors come in as DLPack views, outputs are allocated by the caller, work is enqueued on the
 * caller's stream. Every function is safe to call from several threads at once. */
#ifndef AC4K_AC4K_H_
#define AC4K_AC4K_H_

#include <stddef.h>
#include <stdint.h>

#include "third_party/dlpack.h"

#define AC4K_VERSION "0.1.0"
/* Raised when a function or struct of this header changes so that what was compiled before no
 * longer fits; additions leave it. Compare it with ac4k_abi_version() after loading the library by
 * hand. */
#define AC4K_ABI_VERSION 1
#define AC4K_MAX_DIMS 8
#define AC4K_MAX_ARGS 16
#define AC4K_MAX_OUTPUTS 4

#if defined(AC4K_BUILDING)
#define AC4K_API __attribute__((visibility("default")))
#else
#define AC4K_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* What went wrong, by the Python exception it becomes. */
typedef enum ac4k_status {
  AC4K_OK = 0,
  AC4K_INVALID_VALUE = 1, /* ValueError: shape, stride, alignment, device, option */
  AC4K_INVALID_TYPE = 2,  /* TypeError: dtype, kind or number of arguments */
  AC4K_UNSUPPORTED = 3,   /* NotImplementedError: valid, but not built or not written */
  AC4K_OUT_OF_MEMORY = 4, /* MemoryError */
  AC4K_RUNTIME_ERROR = 5  /* RuntimeError: driver, compiler, file system */
} ac4k_status;

/* The text of this thread's latest failure; valid until its next failing call. */
AC4K_API const char* ac4k_last_error(void);

AC4K_API const char* ac4k_version(void);
AC4K_API int32_t ac4k_abi_version(void);

/* ---- Ops ------------------------------------------------------------------------------- */

typedef struct ac4k_op ac4k_op; /* lives as long as the library */

AC4K_API size_t ac4k_num_ops(void);
AC4K_API const ac4k_op* ac4k_op_at(size_t index);
/* NULL when there is no such op. */
AC4K_API const ac4k_op* ac4k_find_op(const char* name);
AC4K_API const char* ac4k_op_name(const ac4k_op* op);
/* The whole op table as a JSON array: what the bindings, stubs and docs are made from. */
AC4K_API const char* ac4k_op_table_json(void);

typedef enum ac4k_arg_kind {
  AC4K_ARG_NONE = 0, /* an optional argument left out */
  AC4K_ARG_TENSOR = 1,
  AC4K_ARG_INT = 2,
  AC4K_ARG_FLOAT = 3,
  AC4K_ARG_BOOL = 4,
  AC4K_ARG_STRING = 5 /* the name of a choice, e.g. "tanh" */
} ac4k_arg_kind;

typedef struct ac4k_arg {
  int32_t kind; /* an ac4k_arg_kind; a plain int, so that a wrong one is an error and no more */
  union {
    const DLTensor* tensor;
    int64_t integer; /* AC4K_ARG_INT and AC4K_ARG_BOOL */
    double real;
    const char* string;
  } value;
} ac4k_arg;

/* One parameter of an op, as bindings need it; `ac4k_op_table_json` tells the rest. */
typedef struct ac4k_param {
  const char* name;
  int32_t kind; /* an ac4k_arg_kind: AC4K_ARG_STRING for a choice and for a dtype */
  int32_t keyword_only;
  int32_t has_default;
  int32_t is_mutable; /* a tensor that the op writes into */
  int32_t is_dtype;   /* a string such as "bfloat16" */
} ac4k_param;

/* Of a NULL op there are none; a parameter or an output that is not there is all zero. */
AC4K_API size_t ac4k_op_num_params(const ac4k_op* op);
AC4K_API size_t ac4k_op_num_outputs(const ac4k_op* op);
/* Whether output `index` is there only with certain arguments. */
AC4K_API int32_t ac4k_op_output_is_optional(const ac4k_op* op, size_t index);
AC4K_API ac4k_param ac4k_op_param(const ac4k_op* op, size_t index);

/* Choice `index` of a parameter, NULL behind the last one. */
AC4K_API const char* ac4k_op_choice(const ac4k_op* op, size_t param, size_t index);

#define AC4K_NO_OUTPUT (-1)

/* What an output must be. */
typedef struct ac4k_tensor_spec {
  DLDevice device;
  DLDataType dtype;
  int32_t ndim; /* AC4K_NO_OUTPUT: these arguments have no such output, and NULL takes its place */
  int64_t shape[AC4K_MAX_DIMS];
} ac4k_tensor_spec;

/* Checks the arguments and fills one spec per output. Arguments stand in the order of the
 * signature; trailing ones that have a default may be left out. */
AC4K_API ac4k_status ac4k_infer(const ac4k_op* op, const ac4k_arg* args, size_t num_args,
                                ac4k_tensor_spec* specs, size_t num_outputs);

/* Checks everything, then runs the op on `stream` (a CUstream; ignored on the CPU). Nothing is
 * written unless every check passes. */
AC4K_API ac4k_status ac4k_call(const ac4k_op* op, const ac4k_arg* args, size_t num_args,
                               const DLTensor* const* outputs, size_t num_outputs, void* stream);

/* ---- Settings and facts ------------------------------------------------------------------ */

/* "cpu_isa" (auto, generic, avx2, avx512, amx), "num_threads" (0: as OpenMP decides),
 * "dependent_launch" (on, off), "jit" (auto, off, force), "cache_dir", "nvrtc_path" (a
 * libnvrtc.so), "cuda_include" (colon list of directories with cuda_fp16.h).
 *
 * With dependent_launch a kernel starts while the one before it in the stream still runs, and waits
 * for it before it reads or writes what that one may touch. Quantised weights it reads at once:
 * synchronise between writing them and multiplying by them. */
AC4K_API ac4k_status ac4k_set(const char* name, const char* value);
/* Valid until this thread's next ac4k_get; NULL when there is no such setting. */
AC4K_API const char* ac4k_get(const char* name);

/* What was built and what runs here, as a JSON object. Valid until this thread's next call. */
AC4K_API const char* ac4k_info_json(void);

/* For bindings whose calls hold a lock of their language, such as Python's GIL. A kernel's first
 * use may take seconds, to compile it or to wait for another thread or process that does: `begin`
 * is called before, on the thread of the call, and `end` behind it, with what `begin` gave. */
typedef struct ac4k_wait_hooks {
  void* (*begin)(void);
  void (*end)(void* state);
} ac4k_wait_hooks;

/* For the whole process, which they must outlive; NULL takes them away. */
AC4K_API void ac4k_set_wait_hooks(const ac4k_wait_hooks* hooks);

/* ---- Kernels of your own ----------------------------------------------------------------- */

typedef struct ac4k_kernel ac4k_kernel; /* lives as long as the library */

/* Compiles CUDA C++ text with NVRTC, or takes it from the cache. `entry` is the kernel's name or a
 * name expression such as "scale<float, 4>"; `options` are extra compiler options, one a line, or
 * NULL; `arch` is "sm90a" and the like, NULL for the current device. */
AC4K_API ac4k_status ac4k_jit_compile(const char* source, const char* entry, const char* options,
                                      const char* arch, ac4k_kernel** kernel);
/* A kernel of the library itself: `module` as in "common/stream". */
AC4K_API ac4k_status ac4k_kernel_find(const char* module, const char* entry, const char* arch,
                                      ac4k_kernel** kernel);
/* Registers, spills, shared memory, bytes of each parameter, cache key and compile time, as a JSON
 * object. */
AC4K_API const char* ac4k_kernel_json(const ac4k_kernel* kernel);

typedef struct ac4k_launch {
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t cluster[3];   /* {0, 0, 0}: none */
  uint32_t shared_bytes; /* dynamic shared memory */
  int32_t dependent;     /* programmatic dependent launch */
  int32_t device_id;
  void* stream;
} ac4k_launch;

/* `params` holds one pointer per kernel argument; NULL for a kernel without any. */
AC4K_API ac4k_status ac4k_kernel_launch(const ac4k_kernel* kernel, const ac4k_launch* launch,
                                        void** params);

/* The number of the GPU whose memory `pointer` is; -1 for the host's, and without a driver. */
AC4K_API int32_t ac4k_device_of(const void* pointer);

/* Waits for all work on a device, for callers whose framework has no streams. */
AC4K_API ac4k_status ac4k_synchronize(int32_t device_id);

/* Compiles a module of the library (NULL: every one) for `arch` into the cache. `report`, when not
 * NULL, gets a JSON array, one object a module with registers, local_bytes (spills) and
 * shared_bytes of each kernel; valid until this thread's next call. */
AC4K_API ac4k_status ac4k_jit_build(const char* module, const char* arch, const char** report);
/* The entries of the kernel cache, as a JSON array. Valid until this thread's next call. */
AC4K_API const char* ac4k_jit_list_json(void);
/* Empties the kernel cache, or of the entries of a module or an architecture, where these are not
 * NULL; `num_removed` may be NULL. */
AC4K_API ac4k_status ac4k_jit_clear(const char* module, const char* arch, int64_t* num_removed);

/* ---- Products with packed weights --------------------------------------------------------- */

/* The kernels that the op `quant_linear` can be told to use by its argument `config`, for `tokens`
 * rows of x and weights [N, K] of the format `fmt` ("q4_0" and so on) on a device: their names by
 * number, as a JSON array. The first, "auto", leaves the choice to the library; a CPU has no other.
 * Valid until this thread's next call. */
AC4K_API ac4k_status ac4k_quant_linear_configs(const char* fmt, DLDevice device, int64_t tokens,
                                               int64_t N, int64_t K, const char** names_json);

/* ---- GGUF files -------------------------------------------------------------------------- */

#define AC4K_GGUF_MAX_DIMS 4
#define AC4K_GGUF_MAX_NESTING 4 /* arrays in arrays */

/* An open file: it is mapped, checked once as a whole, and never changed. Version 2 or 3,
 * little-endian. Whatever a damaged or hostile file holds, opening it gives an error that names the
 * field. A file that others shorten while it is open is beyond that: touching lost pages raises
 * SIGBUS, as with every mapping. Replace files by renaming instead. */
typedef struct ac4k_gguf ac4k_gguf;

AC4K_API ac4k_status ac4k_gguf_open(const char* path, ac4k_gguf** file);
/* The same over bytes in memory, which must outlive `file`. */
AC4K_API ac4k_status ac4k_gguf_read(const void* bytes, size_t num_bytes, ac4k_gguf** file);
/* Unmaps the file: values and tensors read from it are gone. NULL is fine. */
AC4K_API void ac4k_gguf_close(ac4k_gguf* file);

/* UTF-8 in the mapped file; not terminated. */
typedef struct ac4k_gguf_string {
  const char* data;
  uint64_t num_bytes;
} ac4k_gguf_string;

typedef struct ac4k_gguf_header {
  uint32_t version;
  uint32_t alignment; /* of tensors in the file */
  uint64_t num_values;
  uint64_t num_tensors;
  uint64_t data_offset; /* of the tensors' section */
  const void* bytes;    /* the whole file; writable, and what is written stays in this process */
  uint64_t num_bytes;
} ac4k_gguf_header;

/* All zero for NULL. */
AC4K_API ac4k_gguf_header ac4k_gguf_get_header(const ac4k_gguf* file);

/* Types of metadata values, numbered as in the file. */
typedef enum ac4k_gguf_kind {
  AC4K_GGUF_UINT8 = 0,
  AC4K_GGUF_INT8 = 1,
  AC4K_GGUF_UINT16 = 2,
  AC4K_GGUF_INT16 = 3,
  AC4K_GGUF_UINT32 = 4,
  AC4K_GGUF_INT32 = 5,
  AC4K_GGUF_FLOAT32 = 6,
  AC4K_GGUF_BOOL = 7, /* a byte, 0 or 1 */
  AC4K_GGUF_STRING = 8,
  AC4K_GGUF_ARRAY = 9,
  AC4K_GGUF_UINT64 = 10,
  AC4K_GGUF_INT64 = 11,
  AC4K_GGUF_FLOAT64 = 12
} ac4k_gguf_kind;

typedef struct ac4k_gguf_value {
  int32_t kind;         /* an ac4k_gguf_kind */
  int32_t element_kind; /* of an array's elements; -1 where there are none */
  uint64_t count;       /* elements of an array, bytes of a string, 1 for a number */
  const void* data;     /* little-endian, not aligned */
  uint64_t num_bytes;   /* at `data` */
} ac4k_gguf_value;

/* Metadata in the order of the file. */
AC4K_API ac4k_status ac4k_gguf_get_value(const ac4k_gguf* file, size_t index, ac4k_gguf_string* key,
                                         ac4k_gguf_value* value);
/* Steps through an array: zero `element` first, then call while it gives 1. */
AC4K_API int32_t ac4k_gguf_next_element(const ac4k_gguf_value* array, ac4k_gguf_value* element);

typedef struct ac4k_gguf_tensor {
  ac4k_gguf_string name;
  const char* format; /* "f32", "q4_0" and so on; lives as long as the library */
  int32_t type;       /* the same, by its number in the file */
  int32_t block_values;
  int32_t block_bytes;
  int32_t ndim;
  int64_t shape[AC4K_GGUF_MAX_DIMS]; /* slowest dim first, as everywhere here but in the file */
  uint64_t offset;                   /* in the file */
  const void* data;
  uint64_t num_bytes;
} ac4k_gguf_tensor;

AC4K_API ac4k_status ac4k_gguf_get_tensor(const ac4k_gguf* file, size_t index,
                                          ac4k_gguf_tensor* tensor);

#ifdef __cplusplus
}
#endif
#endif /* AC4K_AC4K_H_ */
