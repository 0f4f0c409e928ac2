#!/usr/bin/env bash
# Checks that every relative link in Markdown files names an existing file and, with a fragment, an existing heading.
#
#   tests/links.sh
#
# Requires bash, git, awk, grep and sed. Prints broken links and exits with 1 if there are any.
set -euo pipefail
cd "$(dirname "$0")/.."

# Prints the anchors that GitHub generates for the headings of a file: lower case, no punctuation, dashes for blanks, and a
# numeric suffix for duplicates.
anchors() {
    awk '/^```/ { code = !code } !code && /^#+ / { sub(/^#+ +/, ""); print }' "$1" |
        sed -E 's/\[([^]]*)\]\([^)]*\)/\1/g' |
        tr '[:upper:]' '[:lower:]' |
        sed -E 's/[^[:alnum:] _-]//g; s/ /-/g' |
        awk '{ print ($0 in seen) ? $0 "-" seen[$0] : $0; seen[$0]++ }'
}

# Prints the targets of links and images outside of code, one per line.
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
            echo "$file: $target: no such file" >&2
            broken=$((broken + 1))
        elif [[ $target == *#* && $there == *.md ]] && ! anchors "$there" | grep -xF -- "${target#*#}" >/dev/null; then
            echo "$file: $target: no such heading in $there" >&2
            broken=$((broken + 1))
        fi
    done < <(targets "$file")
done < <(git ls-files --cached --others --exclude-standard '*.md')

echo "$checked links, $broken broken"
[ "$broken" -eq 0 ]
