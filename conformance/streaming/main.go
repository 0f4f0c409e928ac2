// Command streaming serves exec, attach and port-forward with the code of Kubernetes: the streaming server of container
// runtimes (k8s.io/cri-streaming), behind the proxy handlers of kube-apiserver (k8s.io/apiserver/pkg/util/proxy).
//
// It prints one line of JSON with the addresses of two API servers: `current` translates v5 channels and tunnels SPDY, as
// kube-apiserver does since 1.30; `old` passes WebSockets on to the container runtime, which has v4 channels only. It ends
// with its standard input.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/cri-streaming/pkg/streaming"
	"k8s.io/klog/v2"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "streaming:", err)
		os.Exit(1)
	}
}

func run() error {
	// Lost connections are part of the scenarios.
	klog.SetLogger(logr.Discard())

	runtime, err := newScriptedRuntime()
	if err != nil {
		return err
	}
	backend, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	config := streaming.DefaultConfig
	config.BaseURL = &url.URL{Scheme: "http", Host: backend.Addr().String(), Path: "/"}
	server, err := streaming.NewServer(config, runtime)
	if err != nil {
		return err
	}
	go serve(backend, server)

	addresses := map[string]string{}
	for name, translates := range map[string]bool{"current": true, "old": false} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		go serve(listener, newAPI(server, translates))
		addresses[name] = "http://" + listener.Addr().String()
	}
	if err := json.NewEncoder(os.Stdout).Encode(addresses); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func serve(listener net.Listener, handler http.Handler) {
	if err := http.Serve(listener, handler); err != nil {
		fmt.Fprintln(os.Stderr, "streaming:", err)
		os.Exit(1)
	}
}
