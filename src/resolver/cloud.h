/* The readers of what clouds' training services set. */
#pragma once
#include "resolver/launcher.h"

/* Amazon SageMaker. */
ls_status ls_cloud_read_sagemaker(struct ls_launcher *launch);
/* AWS Batch's jobs of several nodes. */
ls_status ls_cloud_read_aws_batch(struct ls_launcher *launch);
