#!/bin/sh
# Run a command in a copy of this repository that has no data within reach: neither a folder
# ../shared/data next to it nor a variable that names another.
#
#     sh tools/without_data.sh python -m pytest -m data
set -eu

place="$(mktemp -d)"
trap 'rm -rf "$place"' EXIT
trap 'exit 130' INT TERM
mkdir "$place/clone"
git ls-files -z | tar --null --create --files-from=- | tar --extract --directory="$place/clone"
unset SPARSE_PREFGP_DATA
cd "$place/clone"
# What is installed may be this repository itself; tests are of the copy, in their workers too.
PYTHONPATH="$place/clone" "$@"
