/* A message becomes the bytes of an Envelope. */
#pragma once
#include "cluster/message.h"

/* Allocates the encoded bytes; the caller frees them with ls_free. Control characters in texts become spaces. */
ls_status ls_message_encode(const struct ls_message *message, void **data, size_t *size);
