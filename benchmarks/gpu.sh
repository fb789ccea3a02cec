#!/bin/sh
# A recipe on a machine with JAX and a GPU, without TensorFlow and without a network.
#
#   benchmarks/gpu.sh pack OUT --python PYTHON --data DATA --recipe msd_lab
#   tar -xJf OUT gpu.sh            # there, or carry gpu.sh beside OUT
#   ./gpu.sh run OUT --python PYTHON
#
# `pack` writes one file of at most 60 MiB: this library and the packages that the run
# imports, unpacked for Linux x86-64 and one version of Python, the default teacher in
# float16, and of DATA the rows that the recipe reads, no others. It prints which. What the
# machine must have is JAX with what it brings: jaxlib, ml_dtypes, numpy, opt_einsum, scipy.
#
# `run` unpacks (into the folder `gpu`; another with --into), runs the recipe, and ends with
# one JSON object, also in result.json: scores, sentences a second of each stage, and model
# FLOP utilisation against --peak-tflops or the best measured product of matrices.
# All other options go to gpu_pack.py and gpu_run.py, which say what they are with --help.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
usage() {
    echo "Usage: gpu.sh pack OUT | run PACK [--into FOLDER], [--python PYTHON] [...]" >&2
    exit 2
}
[ $# -ge 2 ] || usage
what=$1 pack=$2 python=python3 folder=gpu
shift 2
left=$#
while [ "$left" -gt 0 ]; do
    case $1 in
    --python | --into)
        [ "$left" -ge 2 ] || usage
        if [ "$1" = --python ]; then python=$2; else folder=$2; fi
        shift
        left=$((left - 1))
        ;;
    *) set -- "$@" "$1" ;;
    esac
    shift
    left=$((left - 1))
done

case $what in
pack)
    export TF_CPP_MIN_LOG_LEVEL="${TF_CPP_MIN_LOG_LEVEL:-3}"
    exec "$python" "$here/gpu_pack.py" "$pack" "$@"
    ;;
run)
    mkdir -p "$folder"
    "$python" -m tarfile -e "$pack" "$folder" # needs no program that unpacks xz
    export PYTHONPATH="$folder/site"
    exec "$python" "$folder/gpu_run.py" "$@"
    ;;
*) usage ;;
esac
