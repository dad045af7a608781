/* The commands of lockstep: one file each, one row each in the table of main.c. An entry takes its own name as argv[0],
 * prints its own --help, and returns the exit status: 0 success, 2 a bad command line or configuration. */
#pragma once

#define LS_CHECK_SECONDS 5.0 /* for answers to check --connect: default */

int run_main(int argc, char **argv);
int agent_main(int argc, char **argv);
/* Is the agent of a host, on standard input and output: the exit status. */
int agent_serve(void);
int train_main(int argc, char **argv);
int plan_main(int argc, char **argv);
int plot_main(int argc, char **argv);
int bench_main(int argc, char **argv);
int check_main(int argc, char **argv);
int settings_main(int argc, char **argv);
int timeline_main(int argc, char **argv);
int top_main(int argc, char **argv);
int convert_main(int argc, char **argv);
int data_main(int argc, char **argv);
int certs_main(int argc, char **argv);
int evaluate_main(int argc, char **argv);
int predict_main(int argc, char **argv);
int serve_main(int argc, char **argv);
int info_main(int argc, char **argv);
