// Stands in for kube-apiserver and etcd in suites that start these programs by name. The name that it is called by selects the role:
// as `kube-apiserver` it starts evenkeel and serves it with the certificates of the suite; as `etcd` it only reports its health.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	flags := parseFlags(os.Args[1:])
	if _, help := flags["help"]; help {
		return
	}
	var err error
	switch filepath.Base(os.Args[0]) {
	case "etcd":
		err = serveHealth(flags["listen-client-urls"])
	default:
		err = serveEvenkeel(flags)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// parseFlags reads `--name=value`, `--name value` and `--name`. The last value of a repeated flag counts.
func parseFlags(arguments []string) map[string]string {
	flags := map[string]string{}
	for index := 0; index < len(arguments); index++ {
		name, isFlag := strings.CutPrefix(arguments[index], "--")
		if !isFlag {
			continue
		}
		if name, value, joined := strings.Cut(name, "="); joined {
			flags[name] = value
		} else if next := index + 1; next < len(arguments) && !strings.HasPrefix(arguments[next], "--") {
			flags[name] = arguments[next]
			index = next
		} else {
			flags[name] = "true"
		}
	}
	return flags
}
