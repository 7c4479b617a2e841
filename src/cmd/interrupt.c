#include "cmd/sweep.h"

#include <signal.h>

static const int watched[] = {SIGINT, SIGTERM};

/* The one thing that a handler may touch: it has no argument through which to reach anything else. */
static volatile sig_atomic_t is_asked = 0;

static void set_handler(int number, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(number, &action, NULL);
}

static void on_signal(int number)
{
    is_asked = number;
    for (size_t i = 0; i < SP_COUNT_OF(watched); i++) {
        set_handler(watched[i], SIG_DFL);
    }
}

/* What the caller ignores (nohup, a job in the background of a script) stays ignored. */
void interrupt_watch(void)
{
    is_asked = 0;
    for (size_t i = 0; i < SP_COUNT_OF(watched); i++) {
        struct sigaction before;
        if (sigaction(watched[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) {
            set_handler(watched[i], on_signal);
        }
    }
}

void interrupt_unwatch(void)
{
    for (size_t i = 0; i < SP_COUNT_OF(watched); i++) {
        struct sigaction now;
        if (sigaction(watched[i], NULL, &now) == 0 && now.sa_handler == on_signal) {
            set_handler(watched[i], SIG_DFL);
        }
    }
}

bool interrupt_is_asked(void)
{
    return is_asked != 0;
}

int interrupt_signal(void)
{
    return is_asked;
}
