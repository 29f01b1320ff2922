# Sourced by the scripts beside it: the program to use, a world of its own to use it in, and a few words.

# A command that fails where none may says so: `set -e` alone ends without a word.
set -E
trap 'printf "FAILED: line %s of %s: %s\n" "$LINENO" "${BASH_SOURCE[0]}" "$BASH_COMMAND" >&2' ERR

# The program: SANDBOX_PROGRAM, or one built here with this profile.
find_program() { # debug|release
    if [[ -z ${SANDBOX_PROGRAM:-} ]]; then
        local target
        if [[ $1 == release ]]; then cargo build --quiet --release; else cargo build --quiet; fi
        target=$(cargo metadata --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
        SANDBOX_PROGRAM=$target/$1/sandbox
    fi
    [[ -x $SANDBOX_PROGRAM ]] || fail "there is no program at $SANDBOX_PROGRAM"
}

# A folder that goes when the script ends, with a home, a place for worktrees and no settings but its own.
enter_own_world() {
    local name
    WORLD=$(mktemp -d "${TMPDIR:-/tmp}/sandbox-script.XXXXXX")
    trap leave_own_world EXIT
    # A relative or linked temporary folder would not be the one that git names.
    WORLD=$(cd "$WORLD" && pwd -P)
    for name in ${!GIT_*} ${!XDG_*} ${!SANDBOX_*}; do
        [[ $name == SANDBOX_PROGRAM ]] || unset "$name"
    done
    export HOME=$WORLD/home SANDBOX_WORKTREES=$WORLD/worktrees GIT_CONFIG_NOSYSTEM=1 LC_ALL=C
    mkdir -p "$HOME" "$WORLD/bin"
    ln -s "$SANDBOX_PROGRAM" "$WORLD/bin/sandbox"
    export PATH=$WORLD/bin:$PATH
    git config --global user.name "Ada"
    git config --global user.email "ada@example.org"
    git config --global init.defaultBranch main
    git config --global advice.detachedHead false
}

leave_own_world() {
    local code=$?
    cd /
    rm -rf "$WORLD"
    exit "$code"
}

fail() {
    printf 'FAILED: %s\n' "$*" >&2
    exit 1
}

# Whether both are the same, and what they are if not.
same() { # what, expected, found
    [[ $2 == "$3" ]] || fail "$1: expected '$2', found '$3'"
}

# Whether a text has another in it.
has() { # text, part
    [[ $1 == *"$2"* ]] || fail "this does not say '$2':
$1"
}

# One value of a line of JSON, by its key: the first that is a plain text.
json_text() { # key
    sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p" | head -n 1
}

# Milliseconds since some moment.
now_ms() {
    echo $(($(date +%s%N) / 1000000))
}
