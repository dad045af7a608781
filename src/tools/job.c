/* Tells whether a training uses a checkpoint folder, behind tools.h: its lock tells. */
#include <lockstep/tools.h>

#include "base/need.h"
#include "base/settings.h"
#include "checkpoint/folder_lock.h"

ls_status ls_tools_folder_job(const char *folder, bool *there, bool *left, double *comes, double *returns) {
    LS_NEED(folder, there, left, comes, returns);
    struct ls_settings settings;
    ls_status status = ls_settings_read(&settings);
    if (status) return status;
    enum ls_folder_holder holder = ls_folder_lock_look(folder);
    *there = holder != LS_FOLDER_FREE;
    *left = holder == LS_FOLDER_LEFT;
    *comes = settings.join_timeout;
    *returns = settings.rejoin_timeout;
    return LS_OK;
}
