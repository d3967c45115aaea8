#!/bin/sh
# Make sure the CPU engine finds an LLVM shared library: install one through apt where that is possible, else say how.
# Usage: ensure-llvm.sh PYTHON
python=$1
[ "${PARHELION_DEVICE:-auto}" = cuda ] && exit 0

found() {
    "$python" -c 'import drjit, sys; sys.exit(not drjit.has_backend(drjit.JitBackend.LLVM))' 2>/dev/null
}

found && exit 0
advice='The LLVM shared library is missing. Run: sudo apt-get install libllvm15   (any later libllvm will do)'
command -v apt-get >/dev/null || { echo "$advice" >&2; exit 1; }
if [ "$(id -u)" = 0 ]; then as_root=
elif sudo -n true 2>/dev/null; then as_root='sudo -n'
else echo "$advice" >&2; exit 1
fi
echo 'Installing the LLVM shared library ...'
$as_root apt-get -qq update || true
for version in 19 18 17 16 15; do
    $as_root apt-get -qq install -y "libllvm$version" >/dev/null 2>&1 && found && exit 0
done
echo "$advice" >&2
exit 1
