#!/bin/sh
# Make sure that the CPU engine finds the system libraries it needs: libatomic, and LLVM 15 or later. Where they are
# missing they are installed through apt if that is possible; else this says how.
# Usage: ensure-engine.sh PYTHON
python=$1
advice='Run: sudo apt-get install libatomic1 libllvm15   (any later libllvm will do)'

imports() { "$python" -c 'import drjit' 2>/dev/null; }
compiles() {
    [ "${PARHELION_DEVICE:-auto}" = cuda ] && return 0
    "$python" -c 'import drjit, sys; sys.exit(not drjit.has_backend(drjit.JitBackend.LLVM))' 2>/dev/null
}
give_up() { echo "The ray engine lacks a system library (libatomic or LLVM). $advice" >&2; exit 1; }

imports && compiles && exit 0
command -v apt-get >/dev/null || give_up
if [ "$(id -u)" = 0 ]; then as_root=
elif sudo -n true 2>/dev/null; then as_root='sudo -n'
else give_up
fi
install() { $as_root apt-get -qq install -y --no-install-recommends "$1" >/dev/null 2>&1; }

echo 'Installing system libraries of the ray engine ...'
$as_root apt-get -qq update || true
imports || install libatomic1
imports || give_up
for version in 19 18 17 16 15; do
    compiles && exit 0
    install "libllvm$version"
done
compiles || give_up
