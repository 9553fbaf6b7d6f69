#!/bin/bash
# The session of a newcomer: types the commands of README.md, "Try it", block by block as a user pastes them, into an interactive bash and an
# interactive zsh in tmux, each in a clone of its own, and prints what the screens show. It fails if a shell or make doesn't take a line, or if
# a command doesn't end as the README says. The server's ports are those of the README; as root, they are in a network namespace of their own.
#
#   test/newcomer.sh [bash] [zsh]              the shells; both without arguments
#   SOURCE=<checkout> test/newcomer.sh         of another checkout, such as one of another commit
# shellcheck disable=SC2317 # what await calls is reachable
set -euo pipefail
source=$(cd "${SOURCE:-$(dirname "$0")/..}" && pwd)
[ $# -gt 0 ] || set -- bash zsh
for program in tmux git make curl go "$@"; do
	command -v "$program" >/dev/null || { echo "$program is not installed" >&2; exit 1; }
done
if [ -z "${NEWCOMER_ALONE:-}" ] && unshare --net true 2>/dev/null && command -v ip >/dev/null; then
	make -s -C "$source" build # with a network, for modules that are not here yet
	export NEWCOMER_ALONE=1
	exec unshare --net sh -c 'ip link set lo up; exec "$@"' sh "$0" "$@"
fi

GOCACHE=$(go env GOCACHE) GOMODCACHE=$(go env GOMODCACHE) # a newcomer's home is empty, but this is not what is tried here
export GOCACHE GOMODCACHE
work=$(mktemp -d)
export TMUX_TMPDIR=$work
screen() { tmux -L newcomer "$@"; }
trap '{ screen kill-server; chmod -R u+w "$work"; rm -rf "$work"; } 2>/dev/null || true' EXIT # its end is not the session's
unset TMUX
failed=0

shows() { screen capture-pane -p -J -S - -t "$1" | sed 's/ *$//' | cat -s; }    # shows <window>
idle() { [ "$(shows "$1" | grep . | tail -n 1)" = '$' ]; }                      # idle <window>: its last line is the prompt
says() { shows "$1" | grep -q -- "$2"; }                                        # says <window> <words>

await() { # await <seconds> <window> <command...>: until it succeeds
	local end=$((SECONDS + $1)) window=$2
	shift 2
	until "$@"; do
		[ "$SECONDS" -lt "$end" ] || { echo "!!! $shell: $* did not come true" | tee -a "$work/failures"; shows "$window"; return 1; }
		sleep 0.2
	done
}

paste_() { # paste_ <window> <text>: in one piece, as a terminal does it, and then Enter
	printf %s "$2" | screen load-buffer -
	screen paste-buffer -p -d -t "$1"
	screen send-keys -t "$1" Enter
}

either() { idle "$1" || says "$1" "$2"; } # either <window> <words>: it says them, or has ended

demo() { # demo <command>
	local file
	paste_ user "$1"
	await 300 user either user "3 of 3 ready.*successfully" || return 0
	shows user
	file=$(shows user | grep -o '/[^ ]*/group.yaml' | tail -n 1) || { await 60 user idle user; return 0; }
	sed -i.bak 's/replicas: 3/replicas: 5/' "$file"
	await 60 user says user "5 of 5 ready.*successfully" || return 0
	shows user
	screen send-keys -t user C-c
	await 60 user idle user
}

session() {
	local block
	local at=$work/$shell
	mkdir "$at"
	grep -q '^git clone ' "$source/README.md" || { at=$work/$shell/vmgroup; git clone -q "$source" "$at"; } # it begins in a checkout
	screen -f /dev/null new-session -d -s "$shell" -n user -x 150 -y 45 -c "$at" "env PS1='\$ ' HOME=$work/$shell $1"
	screen set-option -g history-limit 20000
	await 20 user idle user
	local server=
	while IFS= read -r -d '' block; do
		block=${block%$'\n'}
		case $block in
		'git clone '*)
			paste_ user "${block/https:\/\/github.com\/OWNER\/vmgroup.git/$source vmgroup}" ;;
		'make demo'*) demo "$block" ;;
		'make run'*)
			server=server
			screen new-window -d -n server -c "$work/$shell/vmgroup" "env PS1='\$ ' HOME=$work/$shell $1"
			await 20 server idle server
			paste_ server "$block"
			await 300 server either server 'serving hooks' || true ;;
		*) paste_ user "$block" ;;
		esac
		sleep 0.3 # the prompt of before is still there
		await 60 user idle user || { screen send-keys -t user C-c; await 60 user idle user || true; }
	done < <(awk '/^## /{here = $0 == "## Try it"} here && /^```$/{if (code) printf "%c", 0; code = 0} code{print} here && /^```sh$/{code = 1}' "$source/README.md")
	echo "=== $shell, the user's terminal"
	shows user | tee "$work/said"
	[ -z "$server" ] || { echo "=== $shell, the terminal of the server"; shows server | tee -a "$work/said"; }
	grep -E 'no matches found|[Nn]o rule to make target|command not found|parse error|syntax error|unknown file attribute|make: \*\*\*' "$work/said" |
		sed "s/^/!!! $shell: /" >>"$work/failures" || true
	screen kill-session -t "$shell"
}

: >"$work/failures"
for shell; do
	case $shell in
	bash) session "bash --norc -i" ;;
	zsh) session "zsh -f -i" ;;
	*) session "$shell -i" ;;
	esac
done
if [ -s "$work/failures" ]; then
	echo "=== failures"
	cat "$work/failures"
	failed=1
fi
exit "$failed"
