#!/usr/bin/env bash
# From a folder of pictures, a folder each class, to a table of named predictions of new ones: five commands. FOLDER has
# pictures/CLASS/NAME.jpg and new/NAME.jpg; the results are written into it. docs/tutorials/pictures.md shows what they print.
#
# usage: examples/pictures.sh [FOLDER]
set -euo pipefail
cd "${1:-.}"

lockstep data pictures --validation-split 0.2
lockstep run -np 2 -- lockstep train --dataset pictures --validation-split 0.2 --model lenet --optimizer adam \
    --learning-rate 0.002 --epochs 6 --batch-size 32 --save-best best.safetensors --csv log.csv
lockstep plot log.csv --output curves.svg
lockstep evaluate --dataset pictures --validation-split 0.2 --weights best.safetensors --report
lockstep predict --weights best.safetensors --output predictions.csv new
