package main

import (
	"bufio"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// serveEvenkeel starts the program of $EVENKEEL and serves it at the secure port of kube-apiserver's flags.
// $EVENKEEL_FLAGS are further flags of it. No controllers run unless they name some: these suites have no kube-controller-manager.
func serveEvenkeel(flags map[string]string) error {
	tlsConfig, err := servingTLS(flags)
	if err != nil {
		return err
	}
	token, err := randomToken()
	if err != nil {
		return err
	}
	evenkeel, target, err := startEvenkeel(token, evenkeelFlags(flags, os.Getenv("EVENKEEL_FLAGS")))
	if err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-stop
		_ = evenkeel.Process.Signal(syscall.SIGTERM)
	}()
	go func() {
		// The suite sees the end of evenkeel as the end of kube-apiserver.
		_ = evenkeel.Wait()
		os.Exit(0)
	}()
	server := &http.Server{
		Addr:      net.JoinHostPort(flags["bind-address"], flags["secure-port"]),
		Handler:   authenticatingProxy(target, token, !strings.Contains(flags["feature-gates"], "AggregatedDiscoveryEndpoint=false")),
		TLSConfig: tlsConfig,
	}
	return server.ListenAndServeTLS("", "")
}

func servingTLS(flags map[string]string) (*tls.Config, error) {
	certificateFile, keyFile := flags["tls-cert-file"], flags["tls-private-key-file"]
	if certificateFile == "" {
		certificateFile = filepath.Join(flags["cert-dir"], "apiserver.crt")
		keyFile = filepath.Join(flags["cert-dir"], "apiserver.key")
	}
	certificate, err := tls.LoadX509KeyPair(certificateFile, keyFile)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, ClientAuth: tls.VerifyClientCertIfGiven}
	if file := flags["client-ca-file"]; file != "" {
		authorities, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(authorities) {
			return nil, fmt.Errorf("%s has no certificate", file)
		}
	}
	return config, nil
}

func randomToken() (string, error) {
	var bytes [16]byte
	if _, err := rand.Read(bytes[:]); err != nil {
		return "", err
	}
	return hex.EncodeToString(bytes[:]), nil
}

// evenkeelFlags returns the flags of `evenkeel apiserver` for those of kube-apiserver, followed by the further ones.
func evenkeelFlags(flags map[string]string, further string) []string {
	var translated []string
	if !strings.Contains(further, "--controllers") {
		translated = append(translated, "--controllers", "off")
	}
	if slices.Contains(strings.Split(flags["authorization-mode"], ","), "RBAC") && !strings.Contains(further, "--rbac") {
		translated = append(translated, "--rbac")
	}
	return append(translated, strings.Fields(further)...)
}

func startEvenkeel(token string, flags []string) (*exec.Cmd, *url.URL, error) {
	program := os.Getenv("EVENKEEL")
	if program == "" {
		return nil, nil, fmt.Errorf("EVENKEEL must be the path of the program evenkeel")
	}
	tokens, err := os.CreateTemp("", "evenkeel-tokens")
	if err != nil {
		return nil, nil, err
	}
	defer os.Remove(tokens.Name())
	if _, err := fmt.Fprintf(tokens, "%s,envtest-proxy,0,\"system:masters\"\n", token); err != nil {
		return nil, nil, err
	}
	arguments := []string{"apiserver", "--plain-http", "--listen", "127.0.0.1:0", "--token-file", tokens.Name()}
	evenkeel := exec.Command(program, append(arguments, flags...)...)
	evenkeel.Stderr = os.Stderr
	output, err := evenkeel.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := evenkeel.Start(); err != nil {
		return nil, nil, err
	}
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if address, ready := strings.CutPrefix(lines.Text(), "listening on "); ready {
			go func() {
				for lines.Scan() {
				}
			}()
			target, err := url.Parse(strings.TrimSpace(address))
			return evenkeel, target, err
		}
	}
	return nil, nil, fmt.Errorf("%s ended before it was ready", program)
}

// withoutAggregatedDiscovery removes the clauses of an Accept header that name aggregated discovery.
func withoutAggregatedDiscovery(accept string) string {
	clauses := strings.Split(accept, ",")
	return strings.Join(slices.DeleteFunc(clauses, func(clause string) bool {
		return strings.Contains(clause, "as=APIGroupDiscoveryList")
	}), ",")
}

// authenticatingProxy forwards requests. The user of a client certificate becomes the impersonated user; bearer tokens pass unchanged.
func authenticatingProxy(target *url.URL, token string, aggregatedDiscovery bool) http.Handler {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 1000
	transport.DisableCompression = true
	return &httputil.ReverseProxy{
		FlushInterval: -1,
		Transport:     transport,
		Rewrite: func(request *httputil.ProxyRequest) {
			// Not SetURL: it would clean names that contain an escaped slash.
			request.Out.URL.Scheme, request.Out.URL.Host = target.Scheme, target.Host
			request.Out.Host = target.Host
			if accept := request.Out.Header.Get("Accept"); accept != "" && !aggregatedDiscovery {
				request.Out.Header.Set("Accept", withoutAggregatedDiscovery(accept))
			}
			connection := request.In.TLS
			if connection == nil || len(connection.VerifiedChains) == 0 {
				return
			}
			subject := connection.PeerCertificates[0].Subject
			header := request.Out.Header
			header.Set("Authorization", "Bearer "+token)
			if header.Get("Impersonate-User") != "" {
				return
			}
			header.Set("Impersonate-User", subject.CommonName)
			for _, group := range subject.Organization {
				header.Add("Impersonate-Group", group)
			}
		},
	}
}
