/* base: what every other layer stands on. Knows no models and no machines.
 *
 * Errors are values: a fallible function returns bool (true = done) and takes `struct sp_error *` last. The message is
 * complete where it arises; a caller may only prefix context. Nothing here prints, and nothing exits but the arena on
 * out-of-memory.
 *
 * Ownership words used in every header: "borrows" (keeps the pointer, the caller keeps it alive), "copies into arena"
 * (valid until the arena is rewound or closed), "caller closes".
 */
#ifndef SEQPLAN_BASE_H
#define SEQPLAN_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#if defined(__GNUC__)
#define SP_PRINTF(format_at, first_at) __attribute__((format(printf, format_at, first_at)))
#define SP_MUST_CHECK __attribute__((warn_unused_result))
#else
#define SP_PRINTF(format_at, first_at)
#define SP_MUST_CHECK
#endif

#define SP_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* ---- errors (error.c) ------------------------------------------------------------------------------------------- */

/* The value of a kind is the exit code of the program (docs: contract, "Exit codes and errors"). */
enum sp_error_kind {
    SP_ERROR_NONE = 0,
    SP_ERROR_USAGE = 2, /* bad option, a layout that breaks a rule, a bad --set */
    SP_ERROR_INPUT = 3, /* a model, hardware or input file that is unknown, cannot be opened or is bad */
    SP_ERROR_IO = 4,    /* I/O, database or device */
    SP_ERROR_BUG = 70   /* ours */
};

enum { SP_ERROR_TEXT = 2048, SP_ERROR_RULE = 48 };

struct sp_error {
    enum sp_error_kind kind;
    char rule[SP_ERROR_RULE]; /* name of the broken layout rule ("sequence_divides"), empty for other errors */
    char text[SP_ERROR_TEXT]; /* one line: lower case, no full stop; where, what was expected, found, what to do */
};

/* Sets *err and returns false, so that `return sp_fail(err, ...)` is one line. Line breaks in the text become spaces. */
bool sp_fail(struct sp_error *err, enum sp_error_kind kind, const char *format, ...) SP_PRINTF(3, 4);
/* Several broken rules become one line joined by "; ". The rule of the first stays. Returns false. */
bool sp_fail_rule(struct sp_error *err, const char *rule, const char *format, ...) SP_PRINTF(3, 4);
/* Puts `prefix: ` before the text, e.g. the file that was being read. */
void sp_error_prefix(struct sp_error *err, const char *format, ...) SP_PRINTF(2, 3);

/* ---- memory (arena.c) ------------------------------------------------------------------------------------------- */

/* A bump allocator; zero-fills, aligns to 16, poisons rewound memory under AddressSanitizer. On out-of-memory it
 * reports and exits with 4: it is the only place that meets it. */
struct sp_arena;
struct sp_arena_mark {
    void *block;
    size_t used;
};

struct sp_arena *sp_arena_open(void); /* caller closes */
void sp_arena_close(struct sp_arena *arena);
void *sp_arena_alloc(struct sp_arena *arena, size_t size);
/* Count times size, checked against overflow. */
void *sp_arena_array(struct sp_arena *arena, size_t count, size_t size);
/* A larger array that begins with the `count` items of a full one; *capacity doubles. The old one is left to the arena. */
void *sp_arena_grow(struct sp_arena *arena, const void *items, int64_t count, int64_t *capacity, size_t size);
size_t sp_arena_used(const struct sp_arena *arena); /* bytes handed out and not rewound */
struct sp_arena_mark sp_arena_mark(const struct sp_arena *arena);
void sp_arena_rewind(struct sp_arena *arena, struct sp_arena_mark mark);
char *sp_strdup(struct sp_arena *arena, const char *text);
char *sp_strndup(struct sp_arena *arena, const char *text, size_t length);
char *sp_format(struct sp_arena *arena, const char *format, ...) SP_PRINTF(2, 3);

/* ---- text (text.c) ---------------------------------------------------------------------------------------------- */

/* A growing list of strings in an arena (warnings, assumed inputs, names). Duplicates are kept once. */
struct sp_texts {
    struct sp_arena *arena;
    const char **items;
    size_t count;
    size_t capacity;
};
void sp_texts_add(struct sp_texts *texts, const char *format, ...) SP_PRINTF(2, 3); /* copies into arena */
bool sp_texts_has(const struct sp_texts *texts, const char *text);

/* The name closest to `text` by edit distance (at most a third of its length, at least 1), or NULL. Borrows. */
const char *sp_nearest(const char *text, const char *const *names, size_t n_names);
/* "a, b, c" of the names, copied into the arena. */
char *sp_join(struct sp_arena *arena, const char *const *names, size_t n_names, const char *separator);
const char *sp_plural(int64_t count); /* "s" behind a noun, "" of 1 */
/* Index of `text` in the NULL-terminated list, or -1. */
int sp_index_of(const char *text, const char *const *names);
/* Bytes of the UTF-8 sequence at `text` (1 to 4); 0 at the end of the text and where it is not valid UTF-8. */
size_t sp_utf8_length(const char *text);

/* 64-bit FNV-1a of Fowler, Noll and Vo: begins with the basis, and goes on with what came before. */
#define SP_FNV1A_BASIS UINT64_C(0xcbf29ce484222325)
uint64_t sp_fnv1a(uint64_t hash, const void *bytes, size_t n_bytes);

/* ---- quantities (quantity.c) ------------------------------------------------------------------------------------ */

/* A quantity is a double in the SI unit of its dimension; text carries the unit and is matched exactly:
 * b bit, B byte, K M G T P decimal, Ki Mi Gi Ti binary. Counts of tokens use K = 1024, M = 1024^2, G = 1024^3. */
enum sp_dimension {
    SP_PURE,        /* plain number: "0.97" */
    SP_COUNT,       /* plain integer: "132" */
    SP_TOKENS,      /* "128K" = 131072, "1M" = 1048576, plain integers exact */
    SP_BYTES,       /* "141GB", "80GiB" */
    SP_SECONDS,     /* "1.2us", "3ms", "2s", "5min", "1h", "2d" */
    SP_BYTES_PER_S, /* "4.8TB/s", "400Gb/s" */
    SP_FLOP_PER_S,  /* "989TFLOP/s" */
    SP_WATT,        /* "700W", "10.2kW" */
    SP_HERTZ,       /* "1.98GHz" */
    SP_PER_HOUR,    /* "2.99/h": a price in the currency of its file */
    SP_FRACTION,    /* "0.85" or "85%", 0 to 1 */
    SP_N_DIMENSIONS
};

/* Fails (SP_ERROR_USAGE) on: empty text, unknown or missing unit, wrong dimension, negative, NaN, infinite, trailing
 * text, a fraction where a whole number is needed. The text says what was expected, with an example, and what was
 * found: `expected a rate such as "4.8TB/s", found "8" (add a unit)`. */
bool sp_quantity_parse(const char *text, enum sp_dimension dimension, double *value,
                       struct sp_error *err) SP_MUST_CHECK;
/* "a rate such as \"4.8TB/s\"": what an error says was expected. */
const char *sp_dimension_expects(enum sp_dimension dimension);
/* Shortest text that parses back to exactly the same value, with the largest fitting decimal unit ("4.8TB/s",
 * "85520809984B" where no prefix is exact). Copies into arena. */
char *sp_quantity_exact(struct sp_arena *arena, double value, enum sp_dimension dimension);
/* For reading: three significant digits; memory in GiB, rates in GB/s, times scaled. Copies into arena. */
char *sp_quantity_print(struct sp_arena *arena, double value, enum sp_dimension dimension);
/* "128K", "1M" where exact in binary, else plain digits. Copies into arena. */
char *sp_tokens_print(struct sp_arena *arena, int64_t tokens);

/* ---- JSON (json.c: the only file that includes cJSON) ----------------------------------------------------------- */

enum sp_json_type { SP_JSON_NULL, SP_JSON_BOOL, SP_JSON_NUMBER, SP_JSON_STRING, SP_JSON_ARRAY, SP_JSON_OBJECT };

/* A parsed value as plain data in an arena. Reading is strict: duplicate keys, text after the value, numbers that are
 * not JSON ("01", "1.", "1e999"), NUL inside strings, invalid UTF-8 and nesting over 200 are errors with line and
 * column (or path). The bare tokens NaN and Infinity are refused by name. */
struct sp_json {
    enum sp_json_type type;
    const char *key;    /* in an object: the member's name; else NULL */
    const char *string; /* SP_JSON_STRING */
    double number;      /* SP_JSON_NUMBER */
    bool boolean;       /* SP_JSON_BOOL */
    int count;          /* members or elements */
    const struct sp_json *first;
    const struct sp_json *next;
};

/* name: what errors call the text, usually the path. Errors are SP_ERROR_INPUT. Copies into arena. */
const struct sp_json *sp_json_parse(struct sp_arena *arena, const char *name, const char *text, struct sp_error *err);
/* path "-" reads standard input. A file that cannot be opened, is a folder, is larger than 64 MiB or is not JSON (a
 * git symlink stored as text, say) is SP_ERROR_INPUT and is named. */
const struct sp_json *sp_json_read(struct sp_arena *arena, const char *path, struct sp_error *err);
const struct sp_json *sp_json_member(const struct sp_json *object, const char *key); /* NULL when absent */
/* True for a number without fraction, at most 2^53 in size. */
bool sp_json_integer(const struct sp_json *value, int64_t *integer);

/* ---- writing JSON (json_write.c) -------------------------------------------------------------------------------- */

/* Text writer with indentation. Refuses NaN and infinity (assert: a bug), doubles round-trip ("%.17g", shortest that
 * does), integers up to 2^53 print without exponent. key is NULL inside arrays. */
struct sp_json_writer {
    FILE *file;
    int depth;
    bool is_first;
    bool is_compact;   /* set after a begin: that array or object goes on one line; its end clears it */
    int compact_depth; /* private: where is_compact was set, once something is nested in it */
};
void sp_json_begin_object(struct sp_json_writer *writer, const char *key);
void sp_json_end_object(struct sp_json_writer *writer);
void sp_json_begin_array(struct sp_json_writer *writer, const char *key);
void sp_json_end_array(struct sp_json_writer *writer);
void sp_json_put_string(struct sp_json_writer *writer, const char *key, const char *value); /* NULL writes null */
void sp_json_put_number(struct sp_json_writer *writer, const char *key, double value);
void sp_json_put_integer(struct sp_json_writer *writer, const char *key, int64_t value);
void sp_json_put_bool(struct sp_json_writer *writer, const char *key, bool value);
void sp_json_put_null(struct sp_json_writer *writer, const char *key);

/* ---- field tables (field_table.c) ------------------------------------------------------------------------------- */

/* Where a figure comes from. "set" marks a value given with --set. */
enum sp_figure_kind {
    SP_FIGURE_NONE,
    SP_FIGURE_DATASHEET,
    SP_FIGURE_MEASURED,
    SP_FIGURE_DERIVED,
    SP_FIGURE_FITTED,
    SP_FIGURE_ASSUMED,
    SP_FIGURE_SET
};
extern const char
    *const sp_figure_kind_names[]; /* "none", "datasheet", "measured", "derived", "fitted", "assumed", "set", NULL */

/* A number with its provenance. In a file: {"value": "4.8TB/s", "kind": "datasheet", "source": "...", "note": "...",
 * "low": "4.1TB/s", "high": "4.9TB/s"}; value, kind and source are required, the rest optional. */
struct sp_figure {
    double value;
    double low; /* interval; equal to value when none is given */
    double high;
    enum sp_figure_kind kind;
    const char *source;
    const char *note; /* or NULL */
};

enum sp_field_type {
    SP_FIELD_STRING,   /* const char * */
    SP_FIELD_BOOL,     /* bool */
    SP_FIELD_INTEGER,  /* int64_t; JSON number without fraction */
    SP_FIELD_PURE,     /* double; JSON number */
    SP_FIELD_QUANTITY, /* double; JSON string with a unit, in `dimension` (SP_COUNT, SP_PURE: JSON number) */
    SP_FIELD_FIGURE,   /* struct sp_figure in `dimension` */
    SP_FIELD_ENUM,     /* int: index in `names` */
    SP_FIELD_OBJECT,   /* nested struct at offset, decoded by `fields` */
    SP_FIELD_CUSTOM    /* `decode` is called with the object's address plus offset */
};

struct sp_decoder {
    struct sp_arena *arena;
    const char *file; /* named in every error */
    const void *user; /* for custom decoders */
};

struct sp_field {
    const char *key;
    enum sp_field_type type;
    enum sp_dimension dimension;
    size_t offset;
    double min; /* of the value in SI units; min == max == 0: no bounds */
    double max;
    bool is_required;
    const char *help;              /* one line; becomes docs/formats.md and `show --fields` */
    const struct sp_field *fields; /* SP_FIELD_OBJECT; ends with a row whose key is NULL */
    const char *const *names;      /* SP_FIELD_ENUM; NULL-terminated */
    bool (*decode)(const struct sp_decoder *decoder, const struct sp_json *json, const char *path, void *target,
                   struct sp_error *err);
};

/* Decodes an object. Unknown key (with the nearest known one), missing required key, wrong type, bare number where a
 * unit is needed, out of range: `FILE: $.gpu.hbm_bandwidth: expected ..., found ...` (SP_ERROR_INPUT). The field
 * tables end with a row whose key is NULL. path is "$" at the root. */
bool sp_fields_decode(const struct sp_field *fields, const struct sp_decoder *decoder, const struct sp_json *json,
                      const char *path, void *object, struct sp_error *err) SP_MUST_CHECK;
/* --set: finds `path` ("gpu.hbm_bandwidth") in the table and its nested ones and sets it from text; a figure becomes
 * kind SP_FIGURE_SET with source "--set". Unknown path, unit missing, out of range: SP_ERROR_USAGE, naming the path and
 * the nearest known one. Custom fields cannot be set. */
bool sp_fields_set(const struct sp_field *fields, struct sp_arena *arena, const char *path, const char *text,
                   void *object, struct sp_error *err) SP_MUST_CHECK;
/* Calls visit for every row, depth first, with the dotted path and the address of the value inside object (NULL when
 * object is NULL). Used for `show`, docs and suggestions. */
typedef void (*sp_field_visitor)(const char *path, const struct sp_field *field, const void *value, void *user);
void sp_fields_visit(const struct sp_field *fields, const void *object, sp_field_visitor visit, void *user);

/* ---- options (option_table.c) ----------------------------------------------------------------------------------- */

enum sp_option_type {
    SP_OPTION_FLAG,   /* bool: no argument; "--no-NAME" clears it */
    SP_OPTION_TEXT,   /* const char * */
    SP_OPTION_COUNT,  /* struct sp_option_count */
    SP_OPTION_TOKENS, /* struct sp_option_count; K = 1024 */
    SP_OPTION_CHOICE, /* int: index in names, -1 when not given (initialise!) */
    SP_OPTION_LIST    /* struct sp_texts: may be repeated, every value kept (duplicates too) in order */
};
struct sp_option_count {
    bool is_given;
    int64_t value;
};

struct sp_option {
    const char *name;  /* without the dashes */
    const char *alias; /* another long name for the same option, or NULL */
    char letter;       /* or 0 */
    enum sp_option_type type;
    size_t offset;
    int64_t min;              /* of counts; 0 means 1 */
    int64_t max;              /* of counts; 0 means 2^40 */
    const char *const *names; /* SP_OPTION_CHOICE, NULL-terminated */
    const char *argument;     /* "N", "NAME|PATH": shown in help */
    const char *help;         /* one line, with the default */
    const char *group;        /* heading in help */
    bool is_hidden;           /* read, so that the command can say why not, but not in help */
};

/* Parses argv[1..]; GNU long options ("--seq 128K", "--seq=128K"), through getopt_long. No positional arguments unless
 * n_positional is not NULL, which then receives how many stand at *positional. Unknown option (with the nearest),
 * missing argument, bad number, unknown choice (with the choices): SP_ERROR_USAGE. An option given twice takes the last
 * value. The table ends with a row whose name is NULL. Borrows argv. */
bool sp_options_parse(const struct sp_option *options, int argc, char **argv, void *object, struct sp_texts *positional,
                      struct sp_error *err) SP_MUST_CHECK;
/* "--name value", a line for each option that is given, in the order of the table; those named in `except`
 * (NULL-terminated) are left out. However it was typed, what means the same has the same text. Copies into arena. */
char *sp_options_text(const struct sp_option *options, const void *object, const char *const *except,
                      struct sp_arena *arena);
/* The options as aligned help lines, grouped, at most 100 columns. */
void sp_options_help(const struct sp_option *options, FILE *file);

#endif
