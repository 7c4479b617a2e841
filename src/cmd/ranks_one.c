/* One process: built where MPI is not found. */
#include "cmd/ranks.h"

bool ranks_open(struct sp_error *err)
{
    int n_ranks = ranks_launched();
    if (n_ranks <= 1) {
        return true;
    }
    return sp_fail(err, SP_ERROR_USAGE,
                   "mpirun started %d ranks, but this seqplan is built without MPI and each would do the same work: "
                   "start it without mpirun, or install libopenmpi-dev and build it again",
                   n_ranks);
}

void ranks_close(void)
{
}

int ranks_rank(void)
{
    return 0;
}

int ranks_size(void)
{
    return 1;
}

void ranks_send(int to, char kind, const char *text)
{
    (void)to;
    (void)kind;
    (void)text;
}

bool ranks_receive(struct sp_arena *arena, struct ranks_message *message)
{
    (void)arena;
    (void)message;
    return false;
}

void ranks_pause(void)
{
}
