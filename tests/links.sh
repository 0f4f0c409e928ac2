#!/usr/bin/env bash
# Every relative link of the Markdown files leads to a file that is there, and, if it names a heading, to one that is there.
#
#   tests/links.sh
#
# Needs bash, git, awk, grep and sed. Ends with 1 if a link is broken, and says which.
set -euo pipefail
cd "$(dirname "$0")/.."

# The anchors that GitHub makes of the headings of a file: lower case, without punctuation, blanks as dashes, and a number
# behind those that come again.
anchors() {
    awk '/^```/ { code = !code } !code && /^#+ / { sub(/^#+ +/, ""); print }' "$1" |
        sed -E 's/\[([^]]*)\]\([^)]*\)/\1/g' |
        tr '[:upper:]' '[:lower:]' |
        sed -E 's/[^[:alnum:] _-]//g; s/ /-/g' |
        awk '{ print ($0 in seen) ? $0 "-" seen[$0] : $0; seen[$0]++ }'
}

# The targets of links and images, one on each line; code is no link.
targets() {
    awk '/^ *```/ { code = !code } !code' "$1" |
        sed -E 's/`[^`]*`//g' |
        { grep -oE '\]\([^)[:space:]]+\)' || true; } |
        sed -E 's/^\]\((.*)\)$/\1/'
}

broken=0
checked=0
while read -r file; do
    while read -r target; do
        case $target in
            *://* | mailto:*) continue ;;
        esac
        checked=$((checked + 1))
        path=${target%%#*}
        there=$file
        if [ -n "$path" ]; then
            there=$(dirname "$file")/$path
        fi
        if [ ! -e "$there" ]; then
            echo "$file: $target leads nowhere" >&2
            broken=$((broken + 1))
        elif [[ $target == *#* && $there == *.md ]] && ! anchors "$there" | grep -xF -- "${target#*#}" >/dev/null; then
            echo "$file: $target names no heading of $there" >&2
            broken=$((broken + 1))
        fi
    done < <(targets "$file")
done < <(git ls-files --cached --others --exclude-standard '*.md')

echo "$checked links, $broken broken"
[ "$broken" -eq 0 ]
