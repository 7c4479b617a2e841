#include "base/base.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cjson/cJSON.h>

/* NUMBER_LENGTH: cJSON 1.7.15 reads numbers through a buffer of 64 bytes. */
enum { DEPTH_LIMIT = 200, NUMBER_LENGTH = 60, FILE_LIMIT = 64 * 1024 * 1024, FIRST_READ = 64 * 1024 };

static const double LARGEST_INTEGER = 9007199254740992.0; /* 2^53 */

/* ---- strictness: a scan before cJSON, which would let through what is refused here --------------------------------- */

struct scanner {
    const char *name;
    const char *text;
    const char *at;
    int depth;
    struct sp_error *err;
};

static bool scan_value(struct scanner *scanner);

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex_digit(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* "NAME: line 3, column 14: MESSAGE"; columns count characters. */
static bool refuse_at(const struct scanner *scanner, const char *at, const char *message)
{
    int line = 1;
    int column = 1;
    for (const char *c = scanner->text; c < at; c++) {
        if (*c == '\n') {
            line++;
            column = 1;
        } else if (((unsigned char)*c & 0xc0U) != 0x80U) {
            column++;
        }
    }
    return sp_fail(scanner->err, SP_ERROR_INPUT, "%s: line %d, column %d: %s", scanner->name, line, column, message);
}

/* Length of what an error quotes as found: up to the next character that could end a value, or that one itself. */
static int found_length(const char *at)
{
    static const char ends[] = " \t\r\n,:{}[]\"";
    int length = 1;
    while (strchr(ends, at[0]) == NULL && length < 40 && at[length] != '\0' && strchr(ends, at[length]) == NULL) {
        length++;
    }
    return length;
}

static bool refuse_found(const struct scanner *scanner, const char *expected)
{
    const char *at = scanner->at;
    char message[192];
    if (*at == '\0') {
        (void)snprintf(message, sizeof(message), "expected %s, found the end of the text", expected);
    } else if (starts_with(at, "version https://git-lfs")) {
        (void)snprintf(message, sizeof(message), "expected %s, found a Git LFS pointer (fetch the file itself)",
                       expected);
    } else if (at == scanner->text && *at != '"') {
        /* Hugging Face snapshots hold links; copied as text, such a file is one line with a path. */
        (void)snprintf(message, sizeof(message), "expected %s, found \"%.*s\" (not JSON; a link stored as text?)",
                       expected, found_length(at), at);
    } else {
        (void)snprintf(message, sizeof(message), "expected %s, found \"%.*s\"", expected, found_length(at), at);
    }
    return refuse_at(scanner, at, message);
}

static void skip_space(struct scanner *scanner)
{
    while (*scanner->at == ' ' || *scanner->at == '\t' || *scanner->at == '\n' || *scanner->at == '\r') {
        scanner->at++;
    }
}

/* Value of the four hexadecimal digits of \uXXXX at `at`, or -1. */
static long code_unit(const char *at)
{
    if (at[0] != '\\' || at[1] != 'u') {
        return -1;
    }
    char digits[5] = "";
    for (size_t i = 0; i < 4; i++) {
        if (!is_hex_digit(at[2 + i])) {
            return -1;
        }
        digits[i] = at[2 + i];
    }
    return strtol(digits, NULL, 16);
}

static bool scan_unicode_escape(struct scanner *scanner)
{
    long unit = code_unit(scanner->at);
    if (unit < 0) {
        return refuse_at(scanner, scanner->at, "expected four hexadecimal digits after \\u");
    }
    if (unit == 0) {
        return refuse_at(scanner, scanner->at, "\\u0000 inside a string is not supported");
    }
    if (unit >= 0xdc00 && unit <= 0xdfff) {
        return refuse_at(scanner, scanner->at, "second half of a surrogate pair without the first");
    }
    if (unit >= 0xd800 && unit <= 0xdbff) {
        long second = code_unit(scanner->at + 6);
        if (second < 0xdc00 || second > 0xdfff) {
            return refuse_at(scanner, scanner->at, "first half of a surrogate pair without the second");
        }
        scanner->at += 6;
    }
    scanner->at += 6;
    return true;
}

static bool scan_character(struct scanner *scanner)
{
    const char *at = scanner->at;
    if (*at == '\\') {
        if (at[1] == 'u') {
            return scan_unicode_escape(scanner);
        }
        if (at[1] == '\0' || strchr("\"\\/bfnrt", at[1]) == NULL) {
            return refuse_at(scanner, at, "unknown escape in a string");
        }
        scanner->at += 2;
        return true;
    }
    if (*at == '\0') {
        return refuse_at(scanner, at, "expected '\"' to end the string, found the end of the text");
    }
    if ((unsigned char)*at < 0x20) {
        return refuse_at(scanner, at, "line break or control character inside a string (write it as an escape)");
    }
    size_t length = sp_utf8_length(at);
    if (length == 0) {
        return refuse_at(scanner, at, "invalid UTF-8 inside a string");
    }
    scanner->at += length;
    return true;
}

static bool scan_string(struct scanner *scanner)
{
    scanner->at++;
    while (*scanner->at != '"') {
        if (!scan_character(scanner)) {
            return false;
        }
    }
    scanner->at++;
    return true;
}

static const char *skip_digits(const char *at)
{
    while (is_digit(*at)) {
        at++;
    }
    return at;
}

/* [-] INTEGER [. DIGITS] [e [+-] DIGITS] as in RFC 8259; NULL where it is broken. */
static const char *number_end(const char *at)
{
    at += *at == '-' ? 1 : 0;
    if (!is_digit(*at) || (at[0] == '0' && is_digit(at[1]))) {
        return NULL;
    }
    at = skip_digits(at);
    if (*at == '.') {
        if (!is_digit(at[1])) {
            return NULL;
        }
        at = skip_digits(at + 1);
    }
    if (*at == 'e' || *at == 'E') {
        at += at[1] == '+' || at[1] == '-' ? 2 : 1;
        if (!is_digit(*at)) {
            return NULL;
        }
        at = skip_digits(at);
    }
    return at;
}

static bool scan_number(struct scanner *scanner)
{
    if (starts_with(scanner->at, "-Infinity") || starts_with(scanner->at, "-NaN")) {
        return refuse_found(scanner, "a number (NaN and Infinity are not JSON)");
    }
    const char *end = number_end(scanner->at);
    if (end == NULL) {
        return refuse_found(scanner, "a number written as JSON allows (no leading zero, digits after a point)");
    }
    if (end - scanner->at > NUMBER_LENGTH) {
        return refuse_at(scanner, scanner->at, "number of more than 60 characters");
    }
    if (!isfinite(strtod(scanner->at, NULL))) {
        return refuse_found(scanner, "a number that a double can hold");
    }
    scanner->at = end;
    return true;
}

static bool scan_word(struct scanner *scanner)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < SP_COUNT_OF(words); i++) {
        if (starts_with(scanner->at, words[i])) {
            scanner->at += strlen(words[i]);
            return true;
        }
    }
    if (starts_with(scanner->at, "NaN") || starts_with(scanner->at, "Infinity")) {
        return refuse_found(scanner, "a number (NaN and Infinity are not JSON)");
    }
    return refuse_found(scanner, "a JSON value");
}

static bool scan_key(struct scanner *scanner)
{
    if (*scanner->at != '"') {
        return refuse_found(scanner, "a key in double quotes");
    }
    if (!scan_string(scanner)) {
        return false;
    }
    skip_space(scanner);
    if (*scanner->at != ':') {
        return refuse_found(scanner, "':' after the key");
    }
    scanner->at++;
    skip_space(scanner);
    return true;
}

/* Recursive: the depth is limited to DEPTH_LIMIT */
static bool scan_group(struct scanner *scanner)
{
    bool is_object = *scanner->at == '{';
    char closing = is_object ? '}' : ']';
    if (scanner->depth == DEPTH_LIMIT) {
        return refuse_at(scanner, scanner->at, "nested more than 200 deep");
    }
    scanner->depth++;
    scanner->at++;
    skip_space(scanner);
    bool is_empty = *scanner->at == closing;
    while (!is_empty) {
        if ((is_object && !scan_key(scanner)) || !scan_value(scanner)) {
            return false;
        }
        skip_space(scanner);
        if (*scanner->at == closing) {
            break;
        }
        if (*scanner->at != ',') {
            return refuse_found(scanner, is_object ? "',' or '}'" : "',' or ']'");
        }
        scanner->at++;
        skip_space(scanner);
    }
    scanner->at++;
    scanner->depth--;
    return true;
}

/* Recursive: the depth is limited to DEPTH_LIMIT */
static bool scan_value(struct scanner *scanner)
{
    char c = *scanner->at;
    if (c == '{' || c == '[') {
        return scan_group(scanner);
    }
    if (c == '"') {
        return scan_string(scanner);
    }
    if (c == '-' || is_digit(c)) {
        return scan_number(scanner);
    }
    return scan_word(scanner);
}

static bool scan_text(struct scanner *scanner)
{
    skip_space(scanner);
    if (!scan_value(scanner)) {
        return false;
    }
    skip_space(scanner);
    if (*scanner->at != '\0') {
        return refuse_found(scanner, "nothing after the value");
    }
    return true;
}

/* ---- from cJSON's tree to ours ----------------------------------------------------------------------------------- */

struct converter {
    struct sp_arena *arena;
    const char *name;
    struct sp_error *err;
};

/* What stands above a value, for the path in an error; lives on the stack. */
struct place {
    const struct place *above;
    const char *key; /* NULL inside an array */
    int index;
};

/* Recursive, as deep as the text, which is limited to DEPTH_LIMIT */
static char *path_of(struct sp_arena *arena, const struct place *place)
{
    if (place == NULL) {
        return sp_strdup(arena, "$");
    }
    const char *above = path_of(arena, place->above);
    return place->key != NULL ? sp_format(arena, "%s.%s", above, place->key)
                              : sp_format(arena, "%s[%d]", above, place->index);
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorted, because a hostile file may have a million keys in one object. */
static const char *duplicate_key(struct sp_arena *arena, const cJSON *object, size_t count)
{
    const char **keys = sp_arena_array(arena, count, sizeof(*keys));
    size_t i = 0;
    for (const cJSON *member = object->child; member != NULL; member = member->next) {
        keys[i++] = member->string;
    }
    qsort(keys, count, sizeof(*keys), compare_keys);
    for (i = 1; i < count; i++) {
        if (strcmp(keys[i - 1], keys[i]) == 0) {
            return keys[i];
        }
    }
    return NULL;
}

static bool check_keys(const struct converter *converter, const cJSON *object, size_t count, const struct place *place)
{
    struct sp_arena_mark mark = sp_arena_mark(converter->arena);
    const char *key = duplicate_key(converter->arena, object, count);
    if (key != NULL) {
        (void)sp_fail(converter->err, SP_ERROR_INPUT, "%s: %s: the key \"%s\" stands there twice (remove one)",
                      converter->name, path_of(converter->arena, place), key);
    }
    sp_arena_rewind(converter->arena, mark);
    return key == NULL;
}

static enum sp_json_type type_of(const cJSON *from)
{
    if (cJSON_IsObject(from)) {
        return SP_JSON_OBJECT;
    }
    if (cJSON_IsArray(from)) {
        return SP_JSON_ARRAY;
    }
    if (cJSON_IsString(from)) {
        return SP_JSON_STRING;
    }
    if (cJSON_IsNumber(from)) {
        return SP_JSON_NUMBER;
    }
    return cJSON_IsBool(from) ? SP_JSON_BOOL : SP_JSON_NULL;
}

/* The value itself, without what is in it. */
static struct sp_json *convert_one(struct sp_arena *arena, const cJSON *from)
{
    struct sp_json *to = sp_arena_alloc(arena, sizeof(*to));
    to->type = type_of(from);
    if (from->string != NULL) {
        to->key = sp_strdup(arena, from->string);
    }
    if (to->type == SP_JSON_STRING) {
        to->string = sp_strdup(arena, from->valuestring);
    } else if (to->type == SP_JSON_NUMBER) {
        to->number = from->valuedouble;
    } else if (to->type == SP_JSON_BOOL) {
        to->boolean = cJSON_IsTrue(from);
    }
    return to;
}

/* Recursive, as deep as the text, which is limited to DEPTH_LIMIT */
static bool convert_children(const struct converter *converter, const cJSON *from, const struct place *place,
                             struct sp_json *to)
{
    for (const cJSON *child = from->child; child != NULL; child = child->next) {
        to->count++;
    }
    if (to->type == SP_JSON_OBJECT && !check_keys(converter, from, (size_t)to->count, place)) {
        return false;
    }
    struct sp_json *last = NULL;
    int index = 0;
    for (const cJSON *child = from->child; child != NULL; child = child->next) {
        struct sp_json *copy = convert_one(converter->arena, child);
        struct place here = {.above = place, .key = child->string, .index = index};
        if (!convert_children(converter, child, &here, copy)) {
            return false;
        }
        if (last == NULL) {
            to->first = copy;
        } else {
            last->next = copy;
        }
        last = copy;
        index++;
    }
    return true;
}

const struct sp_json *sp_json_parse(struct sp_arena *arena, const char *name, const char *text, struct sp_error *err)
{
    if (starts_with(text, "\xef\xbb\xbf")) {
        text += 3; /* the byte order mark that some editors write */
    }
    struct scanner scanner = {.name = name, .text = text, .at = text, .err = err};
    if (!scan_text(&scanner)) {
        return NULL;
    }
    const char *end = NULL;
    cJSON *root = cJSON_ParseWithOpts(text, &end, 1);
    if (root == NULL) {
        /* The scan accepts nothing that cJSON does not, so only its memory can have run out. */
        (void)sp_fail(err, SP_ERROR_IO, "%s: out of memory while reading JSON", name);
        return NULL;
    }
    const struct converter converter = {.arena = arena, .name = name, .err = err};
    struct sp_json *json = convert_one(arena, root);
    bool is_good = convert_children(&converter, root, NULL, json);
    cJSON_Delete(root);
    return is_good ? json : NULL;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* The system's word for the failure, in lower case as our errors are. */
static bool fail_errno(struct sp_error *err, const char *name, const char *what, int code)
{
    char reason[128] = "";
    if (strerror_r(code, reason, sizeof(reason)) != 0) {
        (void)snprintf(reason, sizeof(reason), "error %d", code);
    }
    if (reason[0] >= 'A' && reason[0] <= 'Z' && reason[1] >= 'a' && reason[1] <= 'z') {
        reason[0] = (char)(reason[0] - 'A' + 'a');
    }
    return sp_fail(err, SP_ERROR_INPUT, "%s: cannot %s: %s", name, what, reason);
}

/* The whole file as text in the arena, or NULL. */
static const char *read_all(struct sp_arena *arena, FILE *file, const char *name, struct sp_error *err)
{
    size_t capacity = FIRST_READ;
    size_t size = 0;
    char *buffer = sp_arena_alloc(arena, capacity + 1);
    for (;;) {
        size += fread(buffer + size, 1, capacity - size, file);
        if (ferror(file)) {
            (void)fail_errno(err, name, "read", errno);
            return NULL;
        }
        if (size > FILE_LIMIT) {
            (void)sp_fail(err, SP_ERROR_INPUT, "%s: larger than 64 MiB", name);
            return NULL;
        }
        if (size < capacity) {
            break;
        }
        char *larger = sp_arena_alloc(arena, capacity * 2 + 1);
        memcpy(larger, buffer, size);
        buffer = larger;
        capacity *= 2;
    }
    if (strlen(buffer) != size) {
        (void)sp_fail(err, SP_ERROR_INPUT, "%s: expected JSON, found a NUL byte (a binary file?)", name);
        return NULL;
    }
    return buffer;
}

/* fopen() opens a folder for reading without complaint. */
static bool is_file(FILE *file, const char *name, struct sp_error *err)
{
    struct stat status;
    if (fstat(fileno(file), &status) != 0) {
        return fail_errno(err, name, "read", errno);
    }
    if (S_ISDIR(status.st_mode)) {
        return sp_fail(err, SP_ERROR_INPUT, "%s: expected a file, found a folder", name);
    }
    return true;
}

const struct sp_json *sp_json_read(struct sp_arena *arena, const char *path, struct sp_error *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    const char *name = is_stdin ? "standard input" : path;
    FILE *file = is_stdin ? stdin : fopen(path, "r");
    if (file == NULL) {
        (void)fail_errno(err, name, "open", errno);
        return NULL;
    }
    struct sp_arena *text_arena = sp_arena_open();
    const char *text = is_file(file, name, err) ? read_all(text_arena, file, name, err) : NULL;
    const struct sp_json *json = text != NULL ? sp_json_parse(arena, name, text, err) : NULL;
    sp_arena_close(text_arena);
    if (!is_stdin) {
        (void)fclose(file);
    }
    return json;
}

/* ---- reading the tree -------------------------------------------------------------------------------------------- */

const struct sp_json *sp_json_member(const struct sp_json *object, const char *key)
{
    if (object->type != SP_JSON_OBJECT) {
        return NULL; /* the elements of an array have no keys */
    }
    for (const struct sp_json *member = object->first; member != NULL; member = member->next) {
        if (strcmp(member->key, key) == 0) {
            return member;
        }
    }
    return NULL;
}

bool sp_json_integer(const struct sp_json *value, int64_t *integer)
{
    if (value->type != SP_JSON_NUMBER || fabs(value->number) > LARGEST_INTEGER ||
        fabs(value->number - floor(value->number)) > 0.0) {
        return false;
    }
    *integer = (int64_t)value->number;
    return true;
}
