/* ranks: the processes that mpirun started together, as a mailbox for texts. ranks_mpi.c is built where MPI is found,
 * ranks_one.c elsewhere: there is one process, and nobody to write to. What fails inside MPI ends all of them with MPI's
 * own words.
 */
#ifndef SEQPLAN_RANKS_H
#define SEQPLAN_RANKS_H

#include "base/base.h"

/* A text with a word of what it is. */
struct ranks_message {
    int from;
    char kind;
    const char *text;
};

/* How many processes mpirun started; 0: it did not start this one. */
int ranks_launched(void);
/* Joins the others when mpirun started several, before anything else is done. Without MPI that is refused, for each of
 * them would do the same work: SP_ERROR_USAGE. */
bool ranks_open(struct sp_error *err) SP_MUST_CHECK;
/* Waits for the others. Every message to this rank must have been received. */
void ranks_close(void);
int ranks_rank(void);
int ranks_size(void);
/* May wait until the other one receives. */
void ranks_send(int to, char kind, const char *text);
/* False: there is none at this moment. Copies the text into arena. */
bool ranks_receive(struct sp_arena *arena, struct ranks_message *message);
/* For a little while, or until a signal: between two looks at the mailbox. */
void ranks_pause(void);

#endif
