/* Advice on options that are valid and probably not intended. The first worker logs it once before training begins. */
#pragma once
#include "train/model.h"

void ls_advice_give(const ls_model *model, const ls_dataset *data);
