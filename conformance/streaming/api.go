package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/proxy"
	translator "k8s.io/apiserver/pkg/util/proxy"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// The pods of the namespace "default", with their containers.
var pods = map[string][]string{
	"web":  {"main"},
	"pair": {"main", "sidecar"},
}

// api answers the paths of an API server that exec, attach and port-forward use, those of kubectl included.
type api struct {
	streaming  streaming.Server
	translates bool
}

func newAPI(server streaming.Server, translates bool) http.Handler {
	a := &api{streaming: server, translates: translates}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK, &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
	})
	mux.HandleFunc("GET /apis", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK, &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}})
	})
	mux.HandleFunc("GET /api/v1", func(w http.ResponseWriter, _ *http.Request) { respond(w, http.StatusOK, resources()) })
	path := "/api/v1/namespaces/default/pods/{pod}"
	mux.HandleFunc("GET "+path, a.get)
	mux.HandleFunc(path+"/exec", a.connect(a.exec))
	mux.HandleFunc(path+"/attach", a.connect(a.attach))
	mux.HandleFunc(path+"/portforward", a.connect(a.portForward))
	return mux
}

func resources() *metav1.APIResourceList {
	pods := metav1.APIResource{Name: "pods", SingularName: "pod", Namespaced: true, Kind: "Pod", Verbs: []string{"get"}}
	return &metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: "v1",
		APIResources: []metav1.APIResource{pods},
	}
}

func (a *api) get(w http.ResponseWriter, req *http.Request) {
	name := req.PathValue("pod")
	containers, found := pods[name]
	if !found {
		respondError(w, notFound(name))
		return
	}
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: "5b1c2d3e"},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, container := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: container, Image: "scripted", Stdin: true})
	}
	respond(w, http.StatusOK, pod)
}

// connect refuses pods and containers that do not exist, as kube-apiserver does before it connects to a kubelet.
func (a *api) connect(handle func(http.ResponseWriter, *http.Request, string)) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		name := req.PathValue("pod")
		containers, found := pods[name]
		if !found {
			respondError(w, notFound(name))
			return
		}
		container := req.URL.Query().Get("container")
		switch {
		case container == "" && len(containers) > 1 && !strings.HasSuffix(req.URL.Path, "/portforward"):
			respondError(w, apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s, choose one of: %v", name, containers)))
		case container == "":
			handle(w, req, containers[0])
		case !slices.Contains(containers, container):
			respondError(w, apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", container, name)))
		default:
			handle(w, req, container)
		}
	}
}

func (a *api) exec(w http.ResponseWriter, req *http.Request, container string) {
	query := req.URL.Query()
	streams := streamsOf(query)
	response, err := a.streaming.GetExec(&runtimeapi.ExecRequest{
		ContainerId: container,
		Cmd:         query["command"],
		Tty:         streams.Tty,
		Stdin:       streams.Stdin,
		Stdout:      streams.Stdout,
		Stderr:      streams.Stderr,
	})
	if err != nil {
		respondError(w, apierrors.NewInternalError(err))
		return
	}
	a.process(w, req, response.Url, streams)
}

func (a *api) attach(w http.ResponseWriter, req *http.Request, container string) {
	streams := streamsOf(req.URL.Query())
	response, err := a.streaming.GetAttach(&runtimeapi.AttachRequest{
		ContainerId: container,
		Tty:         streams.Tty,
		Stdin:       streams.Stdin,
		Stdout:      streams.Stdout,
		Stderr:      streams.Stderr,
	})
	if err != nil {
		respondError(w, apierrors.NewInternalError(err))
		return
	}
	a.process(w, req, response.Url, streams)
}

// process connects a session of a process with the streaming server, as kube-apiserver does.
func (a *api) process(w http.ResponseWriter, req *http.Request, address string, streams translator.Options) {
	location, err := url.Parse(address)
	if err != nil {
		respondError(w, apierrors.NewInternalError(err))
		return
	}
	handler := passOn(location)
	if a.translates {
		translating := translator.NewStreamTranslatorHandler(location, nil, 0, streams)
		handler = translator.NewTranslatingHandler(handler, translating, wsstream.IsWebSocketRequestWithStreamCloseProtocol)
	}
	handler.ServeHTTP(w, req)
}

func (a *api) portForward(w http.ResponseWriter, req *http.Request, _ string) {
	request := &runtimeapi.PortForwardRequest{PodSandboxId: req.PathValue("pod")}
	for _, text := range req.URL.Query()["ports"] {
		for _, number := range strings.Split(text, ",") {
			var port int32
			if _, err := fmt.Sscan(number, &port); err != nil {
				respondError(w, apierrors.NewBadRequest(fmt.Sprintf("not a port: %q", number)))
				return
			}
			request.Port = append(request.Port, port)
		}
	}
	response, err := a.streaming.GetPortForward(request)
	if err != nil {
		respondError(w, apierrors.NewInternalError(err))
		return
	}
	location, err := url.Parse(response.Url)
	if err != nil {
		respondError(w, apierrors.NewInternalError(err))
		return
	}
	handler := passOn(location)
	if a.translates {
		tunneling := translator.NewTunnelingHandler(handler)
		handler = translator.NewTranslatingHandler(handler, tunneling, wsstream.IsWebSocketRequestWithTunnelingProtocol)
	}
	handler.ServeHTTP(w, req)
}

func passOn(location *url.URL) http.Handler {
	return proxy.NewUpgradeAwareHandler(location, nil, false, true, responder{})
}

func streamsOf(query url.Values) translator.Options {
	set := func(name string) bool { return query.Get(name) == "true" || query.Get(name) == "1" }
	return translator.Options{Stdin: set("stdin"), Stdout: set("stdout"), Stderr: set("stderr"), Tty: set("tty")}
}

type responder struct{}

func (responder) Error(w http.ResponseWriter, _ *http.Request, err error) { respondError(w, err) }

func notFound(name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, name)
}

func respondError(w http.ResponseWriter, err error) {
	status, ok := err.(apierrors.APIStatus)
	if !ok {
		status = apierrors.NewInternalError(err)
	}
	body := status.Status()
	body.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	respond(w, int(body.Code), &body)
}

func respond(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}
