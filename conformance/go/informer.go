package main

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// transformed counts, in an object's annotations, the calls of the transform.
const transformed = "conformance/transformed"

// options are the settings of an informer.
type options struct {
	Server    string `json:"server"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Labels    string `json:"labels,omitempty"`
	Fields    string `json:"fields,omitempty"`
	ResyncMS  int64  `json:"resync_ms"`
	WatchList bool   `json:"watch_list"`
	Transform string `json:"transform,omitempty"`
}

// object holds the compared parts of an object.
type object struct {
	Key         string `json:"key"`
	UID         string `json:"uid"`
	Version     string `json:"version"`
	Value       string `json:"value"`
	Transformed string `json:"transformed,omitempty"`
}

// notification is one call of a handler, or of the watch error handler.
type notification struct {
	Informer string  `json:"informer"`
	Handler  string  `json:"handler"`
	Event    string  `json:"event"`
	Initial  bool    `json:"initial,omitempty"`
	Unknown  bool    `json:"unknown,omitempty"`
	Key      string  `json:"key,omitempty"`
	Old      *object `json:"old,omitempty"`
	New      *object `json:"new,omitempty"`
	Reason   string  `json:"reason,omitempty"`
}

// informer is one shared informer with its handlers.
type informer struct {
	name    string
	out     *output
	shared  cache.SharedIndexInformer
	ctx     context.Context
	cancel  context.CancelFunc
	ended   chan struct{}
	started bool

	mutex    sync.Mutex
	handlers map[string]*handler
}

// registry holds the informers by name.
type registry struct {
	out    *output
	mutex  sync.Mutex
	byName map[string]*informer
}

func (r *registry) run(cmd command) (any, error) {
	if cmd.Do == "new" {
		made, err := newInformer(cmd.Informer, cmd.Options, r.out)
		if err != nil {
			return nil, err
		}
		r.mutex.Lock()
		defer r.mutex.Unlock()
		r.byName[cmd.Informer] = made
		return nil, nil
	}
	r.mutex.Lock()
	found := r.byName[cmd.Informer]
	if cmd.Do == "close" {
		delete(r.byName, cmd.Informer)
	}
	r.mutex.Unlock()
	if found == nil {
		return nil, fmt.Errorf("there is no informer %q", cmd.Informer)
	}
	return found.run(cmd)
}

func newInformer(name string, options *options, out *output) (*informer, error) {
	var example runtime.Object
	var resource string
	switch options.Kind {
	case "ConfigMap":
		example, resource = &corev1.ConfigMap{}, "configmaps"
	case "Pod":
		example, resource = &corev1.Pod{}, "pods"
	default:
		return nil, fmt.Errorf("unknown kind %q", options.Kind)
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	client, err := rest.RESTClientFor(&rest.Config{
		Host:    options.Server,
		APIPath: "/api",
		ContentConfig: rest.ContentConfig{
			GroupVersion:         &corev1.SchemeGroupVersion,
			NegotiatedSerializer: serializer.NewCodecFactory(scheme).WithoutConversion(),
			ContentType:          "application/json",
		},
		QPS: -1,
	})
	if err != nil {
		return nil, err
	}
	var source cache.ListerWatcher = cache.NewFilteredListWatchFromClient(client, resource, options.Namespace,
		func(list *metav1.ListOptions) {
			list.LabelSelector = options.Labels
			list.FieldSelector = options.Fields
		})
	if !options.WatchList {
		source = cache.ToListWatcherWithWatchListSemantics(source.(*cache.ListWatch), listsOnly{})
	}
	shared := cache.NewSharedIndexInformerWithOptions(source, example, cache.SharedIndexInformerOptions{
		ResyncPeriod: time.Duration(options.ResyncMS) * time.Millisecond,
		Indexers:     cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
	})
	made := &informer{
		name:     name,
		out:      out,
		shared:   shared,
		ended:    make(chan struct{}),
		handlers: map[string]*handler{},
	}
	made.ctx, made.cancel = context.WithCancel(context.Background())
	if err := shared.SetWatchErrorHandlerWithContext(made.failed); err != nil {
		return nil, err
	}
	if err := made.transform(options.Transform); err != nil {
		return nil, err
	}
	return made, nil
}

// listsOnly is a client without WatchList support.
type listsOnly struct{}

func (listsOnly) IsWatchListSemanticsUnSupported() bool { return true }

// transform installs the transform of this name: "count" counts its calls per object, "fail:NAME" fails for one object and
// leaves the others alone.
func (i *informer) transform(which string) error {
	switch {
	case which == "":
		return nil
	case which == "count":
		return i.shared.SetTransform(func(value any) (any, error) {
			accessor, err := meta.Accessor(value)
			if err != nil {
				return value, nil // A tombstone.
			}
			annotations := accessor.GetAnnotations()
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[transformed] += "x"
			accessor.SetAnnotations(annotations)
			return value, nil
		})
	case len(which) > 5 && which[:5] == "fail:":
		return i.shared.SetTransform(func(value any) (any, error) {
			if accessor, err := meta.Accessor(value); err == nil && accessor.GetName() == which[5:] {
				return nil, errors.New("the transform fails for this object")
			}
			return value, nil
		})
	default:
		return fmt.Errorf("unknown transform %q", which)
	}
}

func (i *informer) failed(_ context.Context, _ *cache.Reflector, err error) {
	reason := string(apierrors.ReasonForError(err))
	if reason == "" {
		reason = "other"
	}
	i.out.write(notification{Informer: i.name, Handler: "errors", Event: "error", Reason: reason})
}

func (i *informer) run(cmd command) (any, error) {
	switch cmd.Do {
	case "start":
		i.started = true
		go func() {
			defer close(i.ended)
			i.shared.RunWithContext(i.ctx)
		}()
		return nil, nil
	case "stop", "close":
		i.releaseAll(cmd.Do == "close")
		i.cancel()
		if i.started {
			<-i.ended
		}
		return nil, nil
	case "stopped":
		return i.shared.IsStopped(), nil
	case "handler":
		return nil, i.addHandler(cmd)
	case "remove":
		found := i.handler(cmd.Handler)
		if found == nil {
			return nil, fmt.Errorf("there is no handler %q", cmd.Handler)
		}
		return nil, i.shared.RemoveEventHandler(found.registration)
	case "hold", "release":
		found := i.handler(cmd.Handler)
		if found == nil {
			return nil, fmt.Errorf("there is no handler %q", cmd.Handler)
		}
		found.gate.set(cmd.Do == "hold")
		return nil, nil
	case "synced":
		if cmd.Handler == "" {
			return i.shared.HasSynced(), nil
		}
		found := i.handler(cmd.Handler)
		if found == nil {
			return nil, fmt.Errorf("there is no handler %q", cmd.Handler)
		}
		return found.registration.HasSynced(), nil
	case "index":
		label := cmd.Label
		return nil, i.shared.AddIndexers(cache.Indexers{cmd.Index: func(value any) ([]string, error) {
			accessor, err := meta.Accessor(value)
			if err != nil {
				return nil, err
			}
			if found, ok := accessor.GetLabels()[label]; ok {
				return []string{found}, nil
			}
			return nil, nil
		}})
	case "list":
		return describeAll(i.shared.GetIndexer().List()), nil
	case "get":
		value, exists, err := i.shared.GetIndexer().GetByKey(cmd.Key)
		if err != nil || !exists {
			return []*object{}, err
		}
		return []*object{describe(value)}, nil
	case "by-index":
		found, err := i.shared.GetIndexer().ByIndex(cmd.Index, cmd.Value)
		if err != nil {
			return nil, err
		}
		return describeAll(found), nil
	case "index-keys":
		keys, err := i.shared.GetIndexer().IndexKeys(cmd.Index, cmd.Value)
		if keys == nil {
			keys = []string{}
		}
		return keys, err
	case "index-values":
		values := append([]string{}, i.shared.GetIndexer().ListIndexFuncValues(cmd.Index)...)
		sort.Strings(values)
		return values, nil
	case "version":
		return i.shared.LastSyncResourceVersion(), nil
	case "store-version":
		return i.shared.GetStore().LastStoreSyncResourceVersion(), nil
	default:
		return nil, fmt.Errorf("unknown command %q", cmd.Do)
	}
}

func (i *informer) addHandler(cmd command) error {
	made := &handler{informer: i, name: cmd.Handler, panicOn: cmd.PanicOn, gate: newGate()}
	// Stored before it is added: it may be called before AddEventHandler returns.
	i.mutex.Lock()
	i.handlers[cmd.Handler] = made
	i.mutex.Unlock()
	var target cache.ResourceEventHandler = made
	if cmd.Filter != "" {
		selector, err := labels.Parse(cmd.Filter)
		if err != nil {
			return err
		}
		target = cache.FilteringResourceEventHandler{
			FilterFunc: func(value any) bool {
				if tombstone, ok := value.(cache.DeletedFinalStateUnknown); ok {
					value = tombstone.Obj
				}
				accessor, err := meta.Accessor(value)
				return err == nil && selector.Matches(labels.Set(accessor.GetLabels()))
			},
			Handler: made,
		}
	}
	var err error
	if cmd.ResyncMS != nil {
		resync := time.Duration(*cmd.ResyncMS) * time.Millisecond
		made.registration, err = i.shared.AddEventHandlerWithResyncPeriod(target, resync)
	} else {
		made.registration, err = i.shared.AddEventHandler(target)
	}
	return err
}

func (i *informer) handler(name string) *handler {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	return i.handlers[name]
}

// releaseAll releases held handlers, so that the informer can stop.
func (i *informer) releaseAll(all bool) {
	if !all {
		return
	}
	i.mutex.Lock()
	defer i.mutex.Unlock()
	for _, handler := range i.handlers {
		handler.gate.set(false)
	}
}

func describe(value any) *object {
	accessor, err := meta.Accessor(value)
	if err != nil {
		return nil
	}
	key, err := cache.MetaNamespaceKeyFunc(value)
	if err != nil {
		return nil
	}
	return &object{
		Key:         key,
		UID:         string(accessor.GetUID()),
		Version:     accessor.GetResourceVersion(),
		Value:       accessor.GetAnnotations()["conformance/value"],
		Transformed: accessor.GetAnnotations()[transformed],
	}
}

func describeAll(values []any) []*object {
	found := []*object{}
	for _, value := range values {
		found = append(found, describe(value))
	}
	sort.Slice(found, func(a, b int) bool { return found[a].Key < found[b].Key })
	return found
}
