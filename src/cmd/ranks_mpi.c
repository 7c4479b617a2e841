/* Ranks through MPI: the only file that includes its header. The kind of a message is its tag. */
#include "cmd/ranks.h"

#include <mpi.h>

#include <string.h>
#include <time.h>

/* Waiting inside MPI would keep a core busy, and would not see a signal. */
static const struct timespec PAUSE = {.tv_nsec = 200000};

/* A single process needs no MPI, whose start takes a tenth of a second. Rows may be filled by several threads; messages
 * are of the first one. */
bool ranks_open(struct sp_error *err)
{
    int provided = MPI_THREAD_FUNNELED;
    bool is_started =
        ranks_launched() <= 1 || MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) == MPI_SUCCESS;
    return (is_started && provided >= MPI_THREAD_FUNNELED) ||
           sp_fail(err, SP_ERROR_IO,
                   "expected MPI to start, as mpirun started this process, and to allow threads: is this the mpirun of "
                   "the MPI that seqplan was built with?");
}

static bool is_open(void)
{
    int is_initialized = 0;
    (void)MPI_Initialized(&is_initialized);
    return is_initialized != 0;
}

void ranks_close(void)
{
    if (is_open()) {
        (void)MPI_Finalize();
    }
}

int ranks_rank(void)
{
    int rank = 0;
    if (is_open()) {
        (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    }
    return rank;
}

int ranks_size(void)
{
    int size = 1;
    if (is_open()) {
        (void)MPI_Comm_size(MPI_COMM_WORLD, &size);
    }
    return size;
}

void ranks_send(int to, char kind, const char *text)
{
    (void)MPI_Send(text, (int)strlen(text), MPI_CHAR, to, kind, MPI_COMM_WORLD);
}

bool ranks_receive(struct sp_arena *arena, struct ranks_message *message)
{
    int is_there = 0;
    MPI_Status status;
    (void)MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &is_there, &status);
    if (is_there == 0) {
        return false;
    }
    int length = 0;
    (void)MPI_Get_count(&status, MPI_CHAR, &length);
    char *text = sp_arena_alloc(arena, (size_t)length + 1); /* zero-filled: the end is there */
    (void)MPI_Recv(text, length, MPI_CHAR, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    *message = (struct ranks_message){.from = status.MPI_SOURCE, .kind = (char)status.MPI_TAG, .text = text};
    return true;
}

void ranks_pause(void)
{
    (void)nanosleep(&PAUSE, NULL);
}
