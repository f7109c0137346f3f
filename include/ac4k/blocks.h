/* The blocks of GGUF files, as they lie there: little-endian, fields in storage order, no padding.
 *
 * Halves are kept as their 16 bits, so that the structs need no type of a compiler, and every field
 * is a byte array or a 16-bit word, so that no struct is aligned to more than 2 bytes: blocks of
 * 18, 22, 34, 110 or 210 bytes follow each other without a gap. Plain C; device code (NVRTC has no
 * <stdint.h>) reads it too, hence `unsigned short` and `unsigned char`.
 *
 * What the fields mean, and how values become codes, is in docs/gguf_formats.md. */
#ifndef AC4K_BLOCKS_H_
#define AC4K_BLOCKS_H_

#if defined(__GNUC__) || defined(__clang__) || defined(__CUDACC__)
#define AC4K_PACKED __attribute__((packed))
#else
#define AC4K_PACKED /* every field already lies where it would: only addresses must be even */
#endif

/* name, values in a block, bytes of a block: the one list of formats. */
#define AC4K_BLOCK_FORMATS(X) \
  X(q4_0, 32, 18)             \
  X(q4_1, 32, 20)             \
  X(q5_0, 32, 22)             \
  X(q5_1, 32, 24)             \
  X(q8_0, 32, 34)             \
  X(q8_1, 32, 36)             \
  X(q2_k, 256, 84)            \
  X(q3_k, 256, 110)           \
  X(q4_k, 256, 144)           \
  X(q5_k, 256, 176)           \
  X(q6_k, 256, 210)           \
  X(iq4_nl, 32, 18)           \
  X(iq4_xs, 256, 136)         \
  X(mxfp4, 32, 17)            \
  X(nvfp4, 64, 36)

/* 32 values. Codes of 4 bits: byte j holds value j (low) and value j + 16 (high). */
typedef struct AC4K_PACKED {
  unsigned short d;
  unsigned char qs[16];
} ac4k_block_q4_0;

typedef struct AC4K_PACKED {
  unsigned short d, m;
  unsigned char qs[16];
} ac4k_block_q4_1;

typedef struct AC4K_PACKED {
  unsigned short d;
  unsigned char qh[4]; /* bit j: the fifth bit of value j */
  unsigned char qs[16];
} ac4k_block_q5_0;

typedef struct AC4K_PACKED {
  unsigned short d, m;
  unsigned char qh[4];
  unsigned char qs[16];
} ac4k_block_q5_1;

typedef struct AC4K_PACKED {
  unsigned short d;
  signed char qs[32];
} ac4k_block_q8_0;

typedef struct AC4K_PACKED {
  unsigned short d, s; /* s: d times the sum of the codes */
  signed char qs[32];
} ac4k_block_q8_1;

/* 256 values in sub-blocks of 16 (q2_k, q3_k, q6_k) or 32 (q4_k, q5_k, iq4_xs). */
typedef struct AC4K_PACKED {
  unsigned char scales[16]; /* scale (low 4 bits) and minimum (high 4 bits) of a sub-block */
  unsigned char qs[64];     /* 128 values are 32 bytes: bits 2i, 2i + 1 are of quarter i */
  unsigned short d, dmin;
} ac4k_block_q2_k;

typedef struct AC4K_PACKED {
  unsigned char hmask[32]; /* bit i of byte l: the third bit of value 32 * i + l */
  unsigned char qs[64];
  unsigned char scales[12]; /* 16 scales of 6 bits: 8 bytes of low nibbles, 4 of high pairs */
  unsigned short d;
} ac4k_block_q3_k;

typedef struct AC4K_PACKED {
  unsigned short d, dmin;
  unsigned char scales[12]; /* 8 scales and 8 minimums of 6 bits */
  unsigned char qs[128];    /* 64 values are 32 bytes: low nibbles, then high nibbles */
} ac4k_block_q4_k;

typedef struct AC4K_PACKED {
  unsigned short d, dmin;
  unsigned char scales[12];
  unsigned char qh[32]; /* bit i of byte l: the fifth bit of value 32 * i + l */
  unsigned char qs[128];
} ac4k_block_q5_k;

typedef struct AC4K_PACKED {
  unsigned char ql[128]; /* 128 values are 64 bytes: low nibbles, then high nibbles */
  unsigned char qh[64];  /* 128 values are 32 bytes: bits 2i, 2i + 1 are of quarter i */
  signed char scales[16];
  unsigned short d;
} ac4k_block_q6_k;

typedef struct AC4K_PACKED {
  unsigned short d;
  unsigned char qs[16]; /* indices of the table of 16 values */
} ac4k_block_iq4_nl;

typedef struct AC4K_PACKED {
  unsigned short d;
  unsigned short scales_h;   /* 8 pairs: the high bits of the scales */
  unsigned char scales_l[4]; /* 8 nibbles: the low bits */
  unsigned char qs[128];     /* 32 values are 16 bytes, as in iq4_nl */
} ac4k_block_iq4_xs;

/* FP4 (E2M1) with a shared scale. */
typedef struct AC4K_PACKED {
  unsigned char e; /* E8M0 */
  unsigned char qs[16];
} ac4k_block_mxfp4;

typedef struct AC4K_PACKED {
  unsigned char d[4];   /* UE4M3, one for 16 values */
  unsigned char qs[32]; /* 16 values are 8 bytes: value j (low) and value j + 8 (high) */
} ac4k_block_nvfp4;

#undef AC4K_PACKED

#endif /* AC4K_BLOCKS_H_ */
