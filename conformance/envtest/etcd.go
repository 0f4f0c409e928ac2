package main

import (
	"net/http"
	"net/url"
)

// serveHealth serves the health check of etcd at the first of the client URLs. evenkeel needs no etcd.
func serveHealth(clientURLs string) error {
	address, err := url.Parse(clientURLs)
	if err != nil {
		return err
	}
	healthy := func(response http.ResponseWriter, _ *http.Request) {
		_, _ = response.Write([]byte(`{"health":"true"}`))
	}
	return http.ListenAndServe(address.Host, http.HandlerFunc(healthy))
}
