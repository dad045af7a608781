/* Bytes that claim to be an Envelope become a message, checked field by field. */
#pragma once
#include "cluster/message.h"

/* INVALID_ARGUMENT naming the field that is not right. The message is released with ls_message_decode_release. */
ls_status ls_message_decode(const void *data, size_t size, struct ls_message *message);
void ls_message_decode_release(struct ls_message *message);
