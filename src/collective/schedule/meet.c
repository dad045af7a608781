/* The dissemination barrier of Hensgen, Finkel and Manber (1988): in step k a rank sends a byte 2^k places ahead and
 * receives one from 2^k places behind, after the bytes of all steps before. ceil(log2 n) steps, for any n. */
#include "collective/schedule/schedules.h"

static int rank_at(const int *ranks, int count, int place) {
    int index = (place % count + count) % count;
    return ranks ? ranks[index] : index;
}

void ls_meet_schedule(struct ls_schedule *schedule, const int *ranks, int count, int own) {
    static const unsigned char token = 1;
    int before = -1;
    for (int distance = 1; distance < count; distance *= 2) {
        unsigned char *to = ls_schedule_take(schedule, 1);
        int sent = ls_schedule_send(schedule, rank_at(ranks, count, own + distance), &token, 1);
        ls_schedule_gate(schedule, sent, before);
        int received = ls_schedule_receive(schedule, rank_at(ranks, count, own - distance), to, 1);
        ls_schedule_gate(schedule, received, before); /* so that each step waits for all before it */
        before = received;
    }
}
