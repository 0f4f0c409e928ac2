package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/utils/exec"
)

// scriptedRuntime is a container runtime whose commands are functions of this program.
type scriptedRuntime struct {
	// The addresses of the servers behind the ports of all pods.
	ports map[int32]string

	mutex   sync.Mutex
	changed *sync.Cond
	// What happened, by a name that the client chose.
	events map[string]string
}

func newScriptedRuntime() (*scriptedRuntime, error) {
	r := &scriptedRuntime{ports: map[int32]string{}, events: map[string]string{}}
	r.changed = sync.NewCond(&r.mutex)
	return r, r.startPorts()
}

// record publishes an event for the command `wait-for`.
func (r *scriptedRuntime) record(name, event string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.events[name] = event
	r.changed.Broadcast()
}

func (r *scriptedRuntime) hasHappened(name string) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	_, found := r.events[name]
	return found
}

func (r *scriptedRuntime) waitFor(name string) string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for {
		if event, found := r.events[name]; found {
			return event
		}
		r.changed.Wait()
	}
}

// Exec runs a command:
//
//	cat                copies standard input to standard output, to its end
//	copy N             copies N bytes, and ends without the end of its input
//	check N            reads N bytes of the pattern and prints whether they are right
//	count N            reads N bytes and prints their number
//	split              writes to both outputs
//	echo TEXT...       prints its arguments
//	produce N          writes N bytes of the pattern
//	exit CODE          ends with an exit code
//	sizes N            prints N sizes of the terminal
//	nothing            ends without any output
//	fail               cannot be run
//	until-closed NAME  prints "ready", reads standard input to its end, and records that it ended
//	endless NAME       writes the pattern until a write fails, or until it is stopped, and records which
//	stop NAME          stops the command endless
//	wait-for NAME      prints what was recorded
func (r *scriptedRuntime) Exec(_ context.Context, container string, cmd []string, in io.Reader, out, errout io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error {
	argument := ""
	if len(cmd) > 1 {
		argument = cmd[1]
	}
	switch cmd[0] {
	case "cat":
		_, err := io.Copy(out, in)
		return err
	case "copy":
		number, err := strconv.ParseInt(argument, 10, 64)
		if err != nil {
			return err
		}
		_, err = io.CopyN(out, in, number)
		return err
	case "check":
		number, err := strconv.ParseInt(argument, 10, 64)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(out, checkPattern(in, number))
		return err
	case "count":
		number, err := strconv.ParseInt(argument, 10, 64)
		if err != nil {
			return err
		}
		read, err := io.CopyN(io.Discard, in, number)
		fmt.Fprintln(out, read, "bytes")
		return err
	case "split":
		for _, line := range []string{"1", "2", "3"} {
			fmt.Fprintln(out, "out", line)
			fmt.Fprintln(errout, "err", line)
		}
		return nil
	case "echo":
		_, err := fmt.Fprintln(out, container, strings.Join(cmd[1:], " "))
		return err
	case "produce":
		number, err := strconv.ParseInt(argument, 10, 64)
		if err != nil {
			return err
		}
		return writePattern(out, number)
	case "exit":
		code, err := strconv.Atoi(argument)
		if err != nil {
			return err
		}
		if code == 0 {
			return nil
		}
		return exec.CodeExitError{Err: fmt.Errorf("exit status %d", code), Code: code}
	case "sizes":
		number, err := strconv.Atoi(argument)
		if err != nil {
			return err
		}
		for range number {
			size := <-resize
			fmt.Fprintf(out, "%t %dx%d\n", tty, size.Width, size.Height)
		}
		return nil
	case "nothing":
		return nil
	case "fail":
		return fmt.Errorf("container is not running")
	case "until-closed":
		fmt.Fprintln(out, "ready")
		_, err := io.Copy(io.Discard, in)
		r.record(argument, fmt.Sprintf("input ended: %v", err))
		return nil
	case "endless":
		for position := int64(0); !r.hasHappened("stop " + argument); position += 64 * 1024 {
			if _, err := out.Write(patternAt(position, 64*1024)); err != nil {
				r.record(argument, "output failed")
				return err
			}
		}
		r.record(argument, "stopped")
		return nil
	case "stop":
		r.record("stop "+argument, "")
		return nil
	case "wait-for":
		_, err := fmt.Fprintln(out, r.waitFor(argument))
		return err
	default:
		return fmt.Errorf("exec: %q: executable file not found in $PATH", cmd[0])
	}
}

// Attach is a process that prints a greeting and then its input.
func (r *scriptedRuntime) Attach(_ context.Context, container string, in io.Reader, out, _ io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize) error {
	fmt.Fprintf(out, "attached to %s\n", container)
	if in == nil {
		return nil
	}
	_, err := io.Copy(out, in)
	return err
}
