#!/usr/bin/env bash
# The check for one GPU: speed, memory against the estimate, exactness. Five minutes at most; a line of JSON after each part,
# kept in OUT/check.jsonl too. Nothing is fetched and no base is needed. Without a GPU it runs with tiny shapes.
#
#   tests/gpu/check.sh wheels FOLDER     where there is a network: fetch what wheels.txt names, for Python 3.12 on Linux
#   WHEELS=FOLDER tests/gpu/check.sh     on a machine with torch and no network: put those wheels before its packages
#   tests/gpu/check.sh [PART …]          where Assay is installed
set -euo pipefail
cd "$(dirname "$0")/../.."
PYTHON=${PYTHON:-python3}
OUT=${OUT:-$(mktemp -d)}
CUDA=${CUDA:-130}  # the library of bitsandbytes that is kept: that of torch.version.cuda

if [ "${1:-}" = wheels ]; then
    platforms=(--platform any)
    for glibc in 5 12 17 24 26 27 28 31 34 35; do platforms+=(--platform "manylinux_2_${glibc}_x86_64"); done
    for year in 1 2010 2014; do platforms+=(--platform "manylinux${year}_x86_64"); done
    "$PYTHON" -m pip download --quiet --no-deps --only-binary :all: --python-version 3.12 --implementation cp --abi cp312 --abi abi3 \
        --abi none "${platforms[@]}" --dest "$2" --requirement tests/gpu/wheels.txt
    "$PYTHON" - "$2"/bitsandbytes-*.whl "libbitsandbytes_cuda$CUDA.so" <<'END'
import pathlib, sys, zipfile

whole, kept = pathlib.Path(sys.argv[1]), ("libbitsandbytes_cpu.so", sys.argv[2])
cut = whole.with_suffix(".cut")
with zipfile.ZipFile(whole) as old, zipfile.ZipFile(cut, "w", zipfile.ZIP_DEFLATED) as new:
    for name in old.namelist():
        if not name.endswith(".so") or name.rpartition("/")[2] in kept:
            new.writestr(old.getinfo(name), old.read(name), zipfile.ZIP_DEFLATED)
cut.replace(whole)
END
    du -sh "$2"
    exit
fi
if [ -n "${WHEELS:-}" ]; then
    "$PYTHON" -m pip install --quiet --no-index --no-deps --find-links "$WHEELS" --target "$OUT/packages" --requirement tests/gpu/wheels.txt
    export PYTHONPATH="$OUT/packages:$PWD${PYTHONPATH:+:$PYTHONPATH}"
fi
mkdir -p "$OUT"
export PYTHONPATH="${PYTHONPATH:-$PWD}" HF_HUB_OFFLINE=1 HF_HUB_DISABLE_TELEMETRY=1 TOKENIZERS_PARALLELISM=false
echo "figures in $OUT/check.jsonl" >&2
timeout "${SECONDS_IN_ALL:-300}" "$PYTHON" -m tests.gpu.check "$OUT" "$@"
