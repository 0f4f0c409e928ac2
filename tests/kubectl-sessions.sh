#!/usr/bin/env bash
# Runs a stock kubectl against the embedded server with exec, attach, cp, port-forward and debug.
#
#   tests/kubectl-sessions.sh [SERVER]   SERVER: evenkeel-session-server; by default the newest one under target/
#   KUBECTL=/path/to/kubectl             another kubectl than the first on the PATH
#
# Containers are processes of this machine. All files are in a temporary directory; it is removed and the server is
# stopped at exit. Needs kubectl 1.31 or later, python3 for terminals and sockets, tar and setsid.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
kubectl_binary=${KUBECTL:-kubectl}
server_binary=${1:-}
for candidate in "$root/target/release/evenkeel-session-server" "$root/target/debug/evenkeel-session-server"; do
    if [[ -x $candidate && (-z $server_binary || (-z ${1:-} && $candidate -nt $server_binary)) ]]; then
        server_binary=$candidate
    fi
done
if [[ ! -x $server_binary ]]; then
    echo "no evenkeel-session-server: build it with 'cargo build -p evenkeel-conformance', or name it" >&2
    exit 2
fi
for needed in "$kubectl_binary" python3 tar setsid; do
    command -v "$needed" >/dev/null || {
        echo "no $needed on the PATH" >&2
        exit 2
    }
done

work=$(mktemp -d)
server=
forward=
stop() { # PID
    if [[ -n $1 ]]; then
        kill "$1" 2>/dev/null || true
        wait "$1" 2>/dev/null || true
    fi
}
cleanup() {
    stop "$forward"
    stop "$server"
    rm -rf "$work"
}
trap cleanup EXIT

export HOME=$work KUBECONFIG=$work/kubeconfig KUBECACHEDIR=$work/cache KUBECTL_COMMAND_HEADERS=false
export KUBECTL_REMOTE_COMMAND_WEBSOCKETS=true KUBECTL_PORT_FORWARD_WEBSOCKETS=true
# A background process ignores SIGINT, and so would its containers.
env --default-signal=INT,QUIT "$server_binary" --directory "$work/containers" --kubeconfig-out "$KUBECONFIG" >"$work/server.log" 2>&1 &
server=$!
# wait_for FILE PID REGEX: waits for a line; `tail -f` ends with the process.
wait_for() { grep -m1 -qE -- "$3" < <(timeout 30 tail -n +1 -f --pid="$2" "$1"); }
wait_for "$work/server.log" "$server" '^https://' || {
    echo "the server did not start:" >&2
    cat "$work/server.log" >&2
    exit 2
}

count=0
failed=0

k() { timeout 60 "$kubectl_binary" "$@"; }

# check DESCRIPTION EXPECTED GOT: both are equal.
check() {
    count=$((count + 1))
    if [[ $2 == "$3" ]]; then
        echo "ok $count - $1"
        return
    fi
    failed=$((failed + 1))
    echo "FAILED $count - $1"
    head -c 2000 <<<"$2" | sed 's/^/#   expected: /'
    head -c 2000 <<<"$3" | sed 's/^/#        got: /'
}

# contains DESCRIPTION REGEX GOT: a line matches.
contains() {
    if grep -qE -- "$2" <<<"$3"; then check "$1" "" ""; else check "$1" "$2" "$3"; fi
}

# Runs a command on a terminal of 33 rows and 101 columns. Reads pairs of lines from FILE: a text to wait for, and what is then
# typed ("<resize>" makes the terminal 44 rows high instead). Prints the output and the exit code.
cat >"$work/terminal.py" <<'PY'
import fcntl, os, pty, select, struct, sys, termios
def resize(fd, rows, columns): fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
dialogue = open(sys.argv[1]).read().splitlines()
pid, fd = pty.fork()
if pid == 0:
    # The command starts when its terminal has a size.
    os.read(0, 1)
    os.execvp(sys.argv[2], sys.argv[2:])
resize(fd, 33, 101)
os.write(fd, b"\n")
output, start = b"", 0
while True:
    while dialogue and dialogue[0].encode() in output[start:]:
        start = output.index(dialogue[0].encode(), start) + len(dialogue[0])
        if dialogue[1] == "<resize>": resize(fd, 44, 101)
        else: os.write(fd, dialogue[1].encode().decode("unicode_escape").encode())
        dialogue = dialogue[2:]
    if not select.select([fd], [], [], 60)[0]: break
    try: data = os.read(fd, 65536)
    except OSError: break
    if not data: break
    output += data
sys.stdout.write(output.decode(errors="replace").replace("\r\n", "\n"))
status = os.waitpid(pid, 0)[1]
print("exit", os.waitstatus_to_exitcode(status))
PY
on_terminal() { # DIALOGUE COMMAND...
    printf '%s' "$1" >"$work/dialogue"
    shift
    timeout 90 python3 "$work/terminal.py" "$work/dialogue" "$@" 2>&1
}

# echo PORT BYTES CONNECTIONS: sends random bytes through several connections at once, ends each, and compares what comes back.
# source PORT: reads to the end and prints the number of bytes and whether the pattern is right.
# refused PORT: prints whether the connection is closed without data.
cat >"$work/client.py" <<'PY'
import os, socket, sys, threading
mode, port = sys.argv[1], int(sys.argv[2])
def connect(): return socket.create_connection(("127.0.0.1", port), timeout=60)
def read_all(s):
    parts = []
    while True:
        data = s.recv(1 << 18)
        if not data: return b"".join(parts)
        parts.append(data)
if mode == "echo":
    results = []
    def run():
        s, sent = connect(), os.urandom(int(sys.argv[3]))
        def write(): s.sendall(sent); s.shutdown(socket.SHUT_WR)
        t = threading.Thread(target=write); t.start()
        results.append(read_all(s) == sent); t.join()
    threads = [threading.Thread(target=run) for _ in range(int(sys.argv[4]))]
    [t.start() for t in threads]; [t.join() for t in threads]
    print(len(results), "connections,", "equal" if all(results) else "different")
elif mode == "source":
    data = read_all(connect())
    pattern = bytes(range(251)) * (len(data) // 251 + 1)
    print(len(data), "bytes,", "equal" if data == pattern[:len(data)] else "different")
else:
    try: print(len(read_all(connect())), "bytes")
    except ConnectionError: print("0 bytes")
PY

k create -f - >/dev/null <<'YAML'
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: main, image: busybox}, {name: side, image: busybox}]}
YAML
k wait --for=condition=Ready pod/p --timeout=20s >/dev/null

# exec.
status=0
k exec p -- sh -c 'echo out; echo err >&2; exit 7' >"$work/out" 2>"$work/err" || status=$?
check "exec: standard output" out "$(cat "$work/out")"
check "exec: standard error" "err
command terminated with exit code 7" "$(grep -v '^Defaulted' "$work/err")"
check "exec: exit code" 7 "$status"
check "exec: arguments are passed on as they are" '[a b] [] ["$x"]' \
    "$(k exec p -c main -- printf '[%s] [%s] [%s]' 'a b' '' '"$x"')"
check "exec -c" "$work/containers/p/side" "$(k exec p -c side -- pwd)"
check "exec -i: the end of standard input" 'a
b' "$(printf 'b\na\n' | k exec -i p -c main -- sort)"
head -c 20000000 /dev/urandom >"$work/random"
check "exec -i: 20 MB of input" "$(sha256sum <"$work/random")" "$(k exec -i p -c main -- sha256sum <"$work/random")"
check "exec: 20 MB of output" "$(sha256sum <"$work/random")" "$(k exec p -c main -- cat "$work/random" | sha256sum)"
check "exec -i: 20 MB in both directions" "$(sha256sum <"$work/random")" \
    "$(k exec -i p -c main -- cat <"$work/random" | sha256sum)"
contains "exec: a command that cannot be started" 'exit code 127' "$(k exec p -c main -- /none 2>&1 || true)"
contains "exec: a container that does not exist" 'container none.* (not found|is not valid)' "$(k exec p -c none -- true 2>&1 || true)"
contains "exec: a pod that does not exist" 'pods "none" not found' "$(k exec none -- true 2>&1 || true)"
contains "exec over SPDY is refused" 'SPDY' \
    "$(KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false k exec p -c main -- true 2>&1 || true)"

# exec on a terminal.
check "exec -it: the size of the terminal" '33 101
exit 0' "$(on_terminal '' "$kubectl_binary" exec -it p -c main -- stty size | tail -n 2)"
check "exec -it: a shell, and its exit code" '42
exit 3' "$(on_terminal '$
echo $((6*7))\n
42
exit 3\n
' "$kubectl_binary" exec -it p -c main -- env PS1='$ ' sh | grep -xE '42|exit [0-9]+' | tail -n 2)"
contains "exec -it: a resized terminal" '44 101$' "$(on_terminal 'ready
<resize>
' "$kubectl_binary" exec -it p -c main -- sh -c 'trap "stty size; exit" WINCH; echo ready; while :; do sleep 0.1; done')"
contains "exec -it: Ctrl-C reaches the process" 'interrupted$' "$(on_terminal 'ready
\x03
' "$kubectl_binary" exec -it p -c main -- sh -c 'trap "echo interrupted; exit" INT; echo ready; while :; do sleep 0.1; done')"

# attach.
check "attach -i" 'attached
in-42' "$(echo 'echo in-$((40+2))' | k attach -i p -c main 2>/dev/null)"
contains "attach -it" 'in-42$' "$(on_terminal 'attached
echo in-$((40+2)); exit\n
' "$kubectl_binary" attach -it p -c main)"

# cp, with names that a shell or tar could misread.
mkdir -p "$work/odd/sub dir" "$work/odd/empty"
for name in 'plain' 'two words' '-dash' 'ünï' "quo'te\"s" '$(dollar)' 'star*' '.hidden' 'sub dir/inner'; do
    echo "content of $name" >"$work/odd/$name"
done
: >"$work/odd/nothing"
head -c 3000000 "$work/random" >"$work/odd/large"
chmod 700 "$work/odd/plain"
k cp "$work/odd" p:"$work/arrived" -c main >/dev/null 2>"$work/err" || cat "$work/err"
check "cp into a container" "" "$(diff -r "$work/odd" "$work/arrived" 2>&1)"
check "cp keeps the mode of a file" 700 "$(stat -c %a "$work/arrived/plain" 2>&1)"
k cp p:"$work/arrived" "$work/returned" -c main >/dev/null 2>"$work/err" || cat "$work/err"
check "cp out of a container" "" "$(diff -r "$work/odd" "$work/returned" 2>&1)"

# port-forward.
forward_ports() { # PORTS...: any free local port for each
    local ports=("${@/#/:}")
    timeout 300 "$kubectl_binary" port-forward pod/p --address 127.0.0.1 "${ports[@]}" >"$work/forward.log" 2>&1 &
    forward=$!
    wait_for "$work/forward.log" "$forward" "-> ${*: -1:1}\$" || cat "$work/forward.log"
}
local_port() { sed -nE "s/^Forwarding from 127\.0\.0\.1:([0-9]+) -> $1\$/\1/p" "$work/forward.log"; }
forward_ports 5000 5001 5002
check "port-forward: half-close, two connections at once" '2 connections, equal' \
    "$(python3 "$work/client.py" echo "$(local_port 5000)" 10000000 2)"
check "port-forward: 100 MB" '100000000 bytes, equal' "$(python3 "$work/client.py" source "$(local_port 5001)")"
check "port-forward: twenty connections" '20 connections, equal' \
    "$(python3 "$work/client.py" echo "$(local_port 5000)" 100000 20)"
# client-go closes all connections after the error of one, so this is the last one.
check "port-forward: a port that refuses" '0 bytes' "$(python3 "$work/client.py" refused "$(local_port 5002)")"
wait_for "$work/forward.log" "$forward" 'connection refused' || true
contains "port-forward: the error of the port" 'forwarding.*5002.*connection refused' "$(cat "$work/forward.log")"
contains "port-forward: a pod that does not exist" 'pods "none" not found' "$(k port-forward pod/none 5000 2>&1 || true)"

# debug.
check "debug -i attaches to an ephemeral container" 'attached
in-42' "$(echo 'echo in-$((40+2))' | k debug -i p --image=busybox -c dbg -- sh 2>/dev/null)"
contains "debug -it" 'in-42$' "$(on_terminal 'attached
echo in-$((40+2)); exit\n
' "$kubectl_binary" debug -it p --image=busybox -c dbg2 -- sh)"
check "debug: the containers of the pod" 'dbg dbg2' "$(k get pod p -o 'jsonpath={.spec.ephemeralContainers[*].name}')"
check "exec in an ephemeral container" "$work/containers/p/dbg" "$(k exec p -c dbg -- pwd)"

if kill -0 "$server" 2>/dev/null; then check "the server is still running" "" ""; else check "the server is still running" running exited; fi
echo "$((count - failed)) passed, $failed failed"
[[ $failed == 0 ]]
