/* Questions for tests: the shipped inputs with a layout set directly. */
#ifndef SEQPLAN_TESTS_QUESTIONS_H
#define SEQPLAN_TESTS_QUESTIONS_H

#include "step/step.h"

/* Resolves "--model ... --hardware ..." style settings given as "key=value" texts separated by spaces, e.g.
 * "model=llama-3.1-8b hardware=dgx-h100 gpus=8 sp=8 seq=128K zero=3 set=run.loss=plain". Fails the test on any error. */
void question_from(struct sp_arena *arena, const char *settings, struct question *question);
/* The same; returns false and fills err when the question or its rules are refused. */
bool question_try(struct sp_arena *arena, const char *settings, struct question *question, struct sp_error *err);
/* question_from, then the estimate. */
void estimate_from(struct sp_arena *arena, const char *settings, struct estimate *estimate);

#endif
