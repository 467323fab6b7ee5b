#!/bin/sh
# Make the virtual environment named by the first argument with the Python named by the second, a
# command such as python3.12 or the path of an interpreter, if it is one that the package runs on.
#
#     sh tools/make_venv.sh .venv-3.12 python3.12
#     sh tools/make_venv.sh --version python3     prints 3.12, nothing where there is none
#     sh tools/make_venv.sh --find python3.12     prints its path; fails where there is none
#     sh tools/make_venv.sh --first               prints the first of python3.11, python3.12 and
#                                                 python3.13 that is there, else python3.11
#
# Several interpreters may be on PATH and some of them only pretend (a version manager's shim whose
# version is not chosen, a Debian python3.12 without ensurepip), so each one is tried in turn, and
# after them those that pyenv keeps next to its shims.
set -eu

supported="3.11, 3.12 or 3.13"
tell_version='import sys; print("%d.%d" % sys.version_info[:2])'

# The version that an interpreter says it has, nothing where it does not run.
version_of() {
    "$1" -c "$tell_version" 2>/dev/null </dev/null || true
}

# Every interpreter that the command $1 can mean, one a line.
candidates() {
    case "$1" in
    */*)
        echo "$1"
        return
        ;;
    esac
    # python3.12 may also be called python3 or python; which version it has is asked anyhow.
    names="$1"
    case "$1" in
    python3.*) names="$1 python3 python" ;;
    esac
    (
        IFS=:
        for folder in $PATH; do
            IFS=" "
            for name in $names; do
                [ -x "$folder/$name" ] && echo "$folder/$name"
            done
            IFS=:
        done
    )
    for candidate in "${PYENV_ROOT:-${HOME:-}/.pyenv}"/versions/*/bin/"$1"; do
        [ -x "$candidate" ] && echo "$candidate"
    done
    return 0
}

# The version that the command $1 is to have, nothing where no such interpreter runs.
wanted_version() {
    case "$1" in
    */*) ;;
    python3.*)
        echo "${1#python}"
        return
        ;;
    esac
    candidates "$1" | while IFS= read -r candidate; do
        version="$(version_of "$candidate")"
        if [ -n "$version" ]; then
            echo "$version"
            break
        fi
    done
}

# The first interpreter of the command $1 that has the version $2 and can make environments; where
# there is none, return 1, having printed one that cannot make them, if any.
find_python() {
    without_venv=""
    found="$(candidates "$1")"
    old_ifs="$IFS"
    IFS='
'
    for candidate in $found; do
        IFS="$old_ifs"
        [ "$(version_of "$candidate")" = "$2" ] || continue
        if "$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1 </dev/null; then
            echo "$candidate"
            return 0
        fi
        without_venv="$candidate"
    done
    IFS="$old_ifs"
    echo "$without_venv"
    return 1
}

case "$1" in
--first)
    for python in python3.11 python3.12 python3.13 python3.11; do
        find_python "$python" "${python#python}" >/dev/null && break
    done
    echo "$python"
    exit 0
    ;;
--version)
    wanted_version "$2"
    exit 0
    ;;
--find)
    find_python "$2" "$(wanted_version "$2")"
    exit
    ;;
esac

venv="$1"
python="$2"
wanted="$(wanted_version "$python")"
case "$wanted" in
3.11 | 3.12 | 3.13) ;;
"")
    echo "No working interpreter $python was found: give Python $supported, such as" \
        "PYTHON=python3.12." >&2
    exit 2
    ;;
*)
    echo "$python is Python $wanted: give Python $supported, such as PYTHON=python3.12." >&2
    exit 2
    ;;
esac

# An environment whose interpreter still runs is kept: only its packages are brought up to date.
if [ "$(version_of "$venv/bin/python")" = "$wanted" ] &&
    "$venv/bin/python" -c 'import pip' 2>/dev/null; then
    exit 0
fi

if interpreter="$(find_python "$python" "$wanted")"; then
    rm -rf "$venv"
    if "$interpreter" -m venv "$venv" </dev/null; then
        echo "Made $venv with $interpreter."
        exit 0
    fi
    rm -rf "$venv"
    echo "$interpreter could not make $venv: give another interpreter with PYTHON=." >&2
elif [ -n "$interpreter" ]; then
    echo "$interpreter cannot make virtual environments:" \
        "install the package python$wanted-venv (Debian, Ubuntu) and run make again." >&2
else
    echo "No working Python $wanted was found: install it, or give another with PYTHON=, which can" \
        "be Python $supported." >&2
fi
exit 1
