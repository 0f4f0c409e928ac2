// controller-runtime's webhook server: the other side of `evenkeel-bench webhooks serve`.
//
// A validator of pods, and a defaulter that adds a label, with the server's defaults: HTTP/1.1 and HTTP/2 over TLS, metrics,
// certificates from files. The first line of the output is the address.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

type validator struct{}

// ValidateCreate refuses pods without a team, and containers whose image has no tag.
func (validator) ValidateCreate(_ context.Context, pod *corev1.Pod) (admission.Warnings, error) {
	if _, found := pod.Labels["team"]; !found {
		return nil, fmt.Errorf("the pod has no label team")
	}
	for _, container := range pod.Spec.Containers {
		name := container.Image[strings.LastIndex(container.Image, "/")+1:]
		if !strings.Contains(name, ":") {
			return nil, fmt.Errorf("the image of container %s has no tag", container.Name)
		}
	}
	return nil, nil
}

func (validator) ValidateUpdate(context.Context, *corev1.Pod, *corev1.Pod) (admission.Warnings, error) {
	return nil, nil
}

func (validator) ValidateDelete(context.Context, *corev1.Pod) (admission.Warnings, error) {
	return nil, nil
}

type defaulter struct{}

func (defaulter) Default(_ context.Context, pod *corev1.Pod) error {
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels["bench.evenkeel.dev/seen"] = "true"
	return nil
}

func main() {
	folder := flag.String("certificates", "", "the folder of tls.crt and tls.key")
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	scheme := runtime.NewScheme()
	check(corev1.AddToScheme(scheme))
	server := webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: freePort(), CertDir: *folder})
	server.Register("/validate--v1-pod", admission.WithValidator[*corev1.Pod](scheme, validator{}))
	server.Register("/mutate--v1-pod", admission.WithDefaulter[*corev1.Pod](scheme, defaulter{}))
	options := server.(*webhook.DefaultServer).Options
	fmt.Printf("%s:%d\n", options.Host, options.Port)
	check(server.Start(ctrl.SetupSignalHandler()))
}

// freePort returns a port that no program has. The server takes a number, and zero means its default.
func freePort() int {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
