#!/bin/sh
# The training step of every stage on a machine with JAX and a GPU or TPU, without
# TensorFlow and without a network.
#
#   benchmarks/gpu.sh pack OUT --python PYTHON   # here
#   tar -xJf OUT gpu.sh                          # there
#   ./gpu.sh run OUT --python PYTHON
#
# `pack` writes one file: this library and the packages that it imports, unpacked for
# Linux x86-64 and one version of Python. What the machine must have is JAX with what it
# brings: jaxlib, ml_dtypes, numpy, opt_einsum, scipy.
#
# `run` unpacks (into the folder `gpu`; another with --into) and prints seconds to compile,
# tokens a second and model FLOP utilisation; also in gpu.json. Other options go to gpu_pack.py and gpu_run.py, which have --help.
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
pack) exec "$python" "$here/gpu_pack.py" "$pack" "$@" ;;
run)
    mkdir -p "$folder"
    "$python" -m tarfile -e "$pack" "$folder" # needs no program that unpacks xz
    export PYTHONPATH="$folder/site"
    exec "$python" "$folder/gpu_run.py" "$@"
    ;;
*) usage ;;
esac
