#!/bin/sh
# Run a command with LLVM 17 or later: Sionna RT ends its process with LLVM 15 and 16. If the LLVM of the system is
# older, the newest package that apt knows is unpacked into FOLDER; nothing is installed.
# Usage: with-newer-llvm.sh PYTHON FOLDER COMMAND...
python=$1 folder=$2
shift 2

new_enough() {
    "$python" -c 'import drjit as dr, sys
sys.exit(not (dr.has_backend(dr.JitBackend.LLVM) and dr.detail.llvm_version()[0] >= 17))' 2>/dev/null
}
unpacked() { find "$folder" -name 'libLLVM*.so*' -type f 2>/dev/null | head -n 1; }
unpack() {
    mkdir -p "$folder" && cd "$folder" || return 1
    for version in 20 19 18 17; do
        apt-get -qq download "libllvm$version" >/dev/null 2>&1 && dpkg-deb -x libllvm*.deb . && return 0
    done
    return 1
}

if ! new_enough; then
    if [ -z "$(unpacked)" ]; then
        (unpack) || { [ "$(id -u)" = 0 ] && apt-get -qq update && (unpack); } || {
            echo 'The oracle Sionna RT needs LLVM 17 or later. Run: sudo apt-get install libllvm19' >&2
            exit 1
        }
    fi
    DRJIT_LIBLLVM_PATH=$(realpath "$(unpacked)")
    export DRJIT_LIBLLVM_PATH
fi
exec "$@"
