#!/bin/sh
# Make the virtual environment named by the first argument with a Python 3.11 that works.
# Several interpreters may be on PATH and some of them only pretend (a version manager's shim whose
# version is not chosen, a Debian python3.11 without ensurepip), so each one is tried in turn.
set -eu

venv="$1"

# An environment whose interpreter still runs is kept: only its packages are brought up to date.
if "$venv/bin/python" -c 'import sys, pip; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null
then
    exit 0
fi

without_venv=""
old_ifs="$IFS"
IFS=:
for folder in $PATH; do
    for name in python3.11 python3 python; do
        candidate="$folder/$name"
        [ -x "$candidate" ] || continue
        "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' \
            >/dev/null 2>&1 </dev/null || continue
        if ! "$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1 </dev/null; then
            without_venv="$candidate"
            continue
        fi
        rm -rf "$venv"
        if "$candidate" -m venv "$venv" </dev/null; then
            echo "Made $venv with $candidate."
            exit 0
        fi
        rm -rf "$venv"
    done
done
IFS="$old_ifs"

if [ -n "$without_venv" ]; then
    echo "$without_venv cannot make virtual environments:" \
        "install the package python3.11-venv (Debian, Ubuntu) and run make again." >&2
else
    echo "No working Python 3.11 was found on PATH: install it and run make again." >&2
fi
exit 1
