/* What only the lockstep command needs beside lockstep.h: looking at TF_CONFIG, settings and devices without training. */
#ifndef LOCKSTEP_TOOLS_H
#define LOCKSTEP_TOOLS_H

#include <lockstep/lockstep.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Looks at TF_CONFIG (NULL: the variable is absent) without opening a port. *json receives one object of one line: valid,
 * mode, task_type, task_index, is_chief, num_workers, id_in_cluster, collective_leader, cluster, warnings, and error
 * {code, message} when it is invalid; freed with ls_memory_free. Returns what parsing returned: INVALID_ARGUMENT for a
 * bad one, with *json written all the same. */
LS_API ls_status ls_tools_check_json(const char *tf_config, char **json);
/* The same as text for people, several lines. */
LS_API ls_status ls_tools_check_text(const char *tf_config, char **text);
/* Settings in force, one line each with default and help; freed with ls_memory_free. */
LS_API ls_status ls_tools_settings(char **text);
/* Devices that this build and machine offer, and why not the rest; and the communication kinds likewise. */
LS_API ls_status ls_tools_devices(char **text);
/* "gcc 12.2.0, oneDNN 2.6.3, gRPC 1.51.1, ..." */
LS_API ls_status ls_tools_build(char **text);

#ifdef __cplusplus
}
#endif
#endif
