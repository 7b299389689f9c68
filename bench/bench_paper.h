/* bench_paper.h - the parts of the bench_paper program: tables and figures of
 * "Adaptive Quotient Filters" (Wen and others, 2024), measured with winnow.
 *
 * Each gets the arguments behind its name and returns the exit status: 1 if
 * winnow gave a wrong answer. */
#ifndef BENCH_PAPER_H
#define BENCH_PAPER_H

int run_table2(int argc, char **argv); /* space for the same false-positive rate */
int run_table5(int argc, char **argv); /* insert, merge, sort, bulk load */
int run_fig7(int argc, char **argv);   /* false positives over time, Zipfian queries */
int run_fig9(int argc, char **argv);   /* space of YES/NO lists against the bound */

#endif /* BENCH_PAPER_H */
