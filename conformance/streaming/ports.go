package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

const (
	// The port of a server that sends back what it receives.
	echoPort = 7
	// The port of a server of one command:
	//
	//	get N [NAME]  sends N bytes of the pattern and closes; records under the name that the client left
	//	put N         reads N bytes of the pattern and prints whether they are right
	//	count N       reads N bytes and prints their number
	transferPort = 8
)

// startPorts starts the servers behind the ports. All other ports refuse connections.
func (r *scriptedRuntime) startPorts() error {
	for port, handle := range map[int32]func(*net.TCPConn) error{echoPort: echo, transferPort: r.transfer} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		r.ports[port] = listener.Addr().String()
		go accept(listener, handle)
	}
	return nil
}

func accept(listener net.Listener, handle func(*net.TCPConn) error) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer connection.Close()
			// A client that left is not an error of the server.
			_ = handle(connection.(*net.TCPConn))
		}()
	}
}

func echo(connection *net.TCPConn) error {
	_, err := io.Copy(connection, connection)
	return err
}

func (r *scriptedRuntime) transfer(connection *net.TCPConn) error {
	reader := bufio.NewReaderSize(connection, 64*1024)
	line, err := reader.ReadString('\n')
	if err != nil {
		return err
	}
	words := append(strings.Fields(line), "", "", "")
	number, err := strconv.ParseInt(words[1], 10, 64)
	if err != nil {
		return err
	}
	switch words[0] {
	case "get":
		err := writePattern(connection, number)
		if err != nil {
			r.record(words[2], "the client left")
		}
		return err
	case "put":
		_, err = fmt.Fprintln(connection, checkPattern(reader, number))
		return err
	default:
		read, err := io.CopyN(io.Discard, reader, number)
		fmt.Fprintln(connection, read, "bytes")
		return err
	}
}

// PortForward connects a stream with a port, as container runtimes do.
func (r *scriptedRuntime) PortForward(_ context.Context, pod string, port int32, stream io.ReadWriteCloser) error {
	address, found := r.ports[port]
	if !found {
		return fmt.Errorf("failed to connect to localhost:%d inside %s: connection refused", port, pod)
	}
	connection, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer connection.Close()
	ended := make(chan error, 2)
	go func() {
		_, err := io.Copy(connection, stream)
		_ = connection.(*net.TCPConn).CloseWrite()
		ended <- err
	}()
	go func() {
		_, err := io.Copy(stream, connection)
		ended <- err
	}()
	err = <-ended
	// A stream that the client has reset looks like one that it has closed for writing. containerd waits as long.
	select {
	case <-ended:
	case <-time.After(500 * time.Millisecond):
	}
	return err
}
