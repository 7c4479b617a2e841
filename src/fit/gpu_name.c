#include "fit/gpu_name.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- words ------------------------------------------------------------------------------------------------------ */

/* A run of letters and digits. */
struct word {
    const char *text;
    size_t length;
};

static size_t run_of(const char *text, size_t length, int (*is_of)(int))
{
    size_t n = 0;
    while (n < length && is_of((unsigned char)text[n]) != 0) {
        n++;
    }
    return n;
}

/* The next word of the text, from *at on; false: there is none. */
static bool next_word(const char **at, struct word *word)
{
    while (**at != '\0' && isalnum((unsigned char)**at) == 0) {
        ++*at;
    }
    *word = (struct word){*at, run_of(*at, strlen(*at), isalnum)};
    *at += word->length;
    return word->length > 0;
}

static bool is_word(const struct word *word, const char *text)
{
    return word->length == strlen(text) && strncasecmp(word->text, text, word->length) == 0;
}

/* "H100", "A40", "GB300": letters, then two digits or more. */
static bool is_chip(const struct word *word)
{
    size_t letters = run_of(word->text, word->length, isalpha);
    size_t digits = run_of(word->text + letters, word->length - letters, isdigit);
    return letters > 0 && letters + digits == word->length && digits >= 2 &&
           strncasecmp(word->text, "nvl", letters) != 0;
}

static bool has_word(const char *name, const struct word *wanted)
{
    struct word word;
    while (next_word(&name, &word)) {
        if (word.length == wanted->length && strncasecmp(word.text, wanted->text, word.length) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- what a name says ------------------------------------------------------------------------------------------- */

enum form { FORM_UNSAID, FORM_PCIE, FORM_SXM };

static enum form form_of(const char *name)
{
    static const char module[] = "sxm";
    struct word word;
    while (next_word(&name, &word)) {
        if (is_word(&word, "pcie") || is_word(&word, "nvl")) {
            return FORM_PCIE;
        }
        if (word.length >= strlen(module) && strncasecmp(word.text, module, strlen(module)) == 0) {
            return FORM_SXM;
        }
    }
    return FORM_UNSAID;
}

/* "80GB"; 0: not said. */
static double memory_of(const char *name)
{
    struct word word;
    while (next_word(&name, &word)) {
        size_t digits = run_of(word.text, word.length, isdigit);
        const struct word unit = {word.text + digits, word.length - digits};
        if (digits > 0 && is_word(&unit, "gb")) {
            return strtod(word.text, NULL);
        }
    }
    return 0;
}

bool gpu_name_has_chip(const char *name)
{
    struct word word;
    while (next_word(&name, &word)) {
        if (is_chip(&word)) {
            return true;
        }
    }
    return false;
}

static bool shares_a_chip(const char *name, const char *title)
{
    struct word word;
    while (next_word(&title, &word)) {
        if (is_chip(&word) && has_word(name, &word)) {
            return true;
        }
    }
    return false;
}

bool gpu_name_is_other(const char *name, const char *title)
{
    static const double memory_tolerance = 0.1; /* 180 and 192 GB are one chip's, usable and all of it */
    double memory = memory_of(name);
    double own_memory = memory_of(title);
    bool is_other_form =
        form_of(name) != FORM_UNSAID && form_of(title) != FORM_UNSAID && form_of(name) != form_of(title);
    bool is_other_size = memory > 0 && own_memory > 0 && fabs(memory / own_memory - 1) > memory_tolerance;
    return name[0] != '\0' && gpu_name_has_chip(title) &&
           (!shares_a_chip(name, title) || is_other_form || is_other_size);
}
