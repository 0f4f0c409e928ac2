// Command informer is client-go's side of the informer benchmark: it syncs shared informers, waits for updates,
// reads, and prints its figures as one line of JSON.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// quiet is the time without notifications before memory counts as steady.
const quiet = 2 * time.Second

type figures struct {
	Program     string  `json:"program"`
	Objects     int     `json:"objects"`
	SyncWall    float64 `json:"sync_wall_s"`
	SyncCPU     float64 `json:"sync_cpu_s"`
	PeakKB      int     `json:"rss_peak_kb"`
	SteadyKB    int     `json:"rss_steady_kb"`
	Updates     int64   `json:"updates"`
	StormWall   float64 `json:"storm_wall_s"`
	StormCPU    float64 `json:"storm_cpu_s"`
	EventsPerS  float64 `json:"events_per_s"`
	CollectedKB int     `json:"rss_gc_kb"`
	Handled     []int64 `json:"handled_ns,omitempty"`
	*reads
}

// counter is the handler: it counts updates, and records when the first, the last and each single one arrived.
type counter struct {
	wanted        int64
	notifications atomic.Int64
	updates       int64
	first         moment
	last          chan storm
	handled       []int64
	allHandled    chan struct{}
}

// storm holds the arrival of its first and its last update.
type storm struct{ first, last moment }

func (c *counter) OnAdd(any, bool) { c.notifications.Add(1) }
func (c *counter) OnDelete(any)    { c.notifications.Add(1) }

func (c *counter) OnUpdate(before, after any) {
	c.notifications.Add(1)
	// A relist repeats every object; only new versions are updates.
	if version(before) == version(after) {
		return
	}
	c.updates++
	if c.updates > c.wanted {
		if len(c.handled) < cap(c.handled) {
			c.handled = append(c.handled, time.Now().UnixNano())
			if len(c.handled) == cap(c.handled) {
				close(c.allHandled)
			}
		}
		return
	}
	if c.updates == 1 {
		c.first = now()
	}
	if c.updates == c.wanted {
		c.last <- storm{c.first, now()}
	}
}

func version(object any) string {
	accessor, err := meta.Accessor(object)
	if err != nil {
		log.Fatal(err)
	}
	return accessor.GetResourceVersion()
}

// settle returns when there were no notifications for a while.
func (c *counter) settle() {
	seen, since := c.notifications.Load(), time.Now()
	for time.Since(since) < quiet {
		time.Sleep(20 * time.Millisecond)
		if count := c.notifications.Load(); count != seen {
			seen, since = count, time.Now()
		}
	}
}

// moduleVersion is that of the client-go module this was built with.
func moduleVersion() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "k8s.io/client-go" {
			return module.Version
		}
	}
	return "unknown"
}

// dropManagedFields is a transform, as client-go's users write it.
func dropManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil && accessor.GetManagedFields() != nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

func main() {
	server := flag.String("server", "", "URL of the API server")
	wire := flag.String("wire", "json", "json or protobuf")
	data := flag.String("data", "pods", "pods, secrets, endpointslices, documents or kinds")
	objects := flag.Int("objects", 0, "how many objects there must be; 0 does not check")
	updates := flag.Int64("updates", 0, "how many updates to wait for")
	latency := flag.Int("latency", 0, "how many single updates to wait for then")
	withReads := flag.Bool("reads", false, "read at last, by key and by index")
	drop := flag.Bool("drop-managed-fields", false, "keep objects without their managedFields")
	flag.Parse()

	config := &rest.Config{Host: *server, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	switch *wire {
	case "json":
	case "protobuf":
		config.ContentType = "application/vnd.kubernetes.protobuf"
		config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	default:
		log.Fatalf("there is no wire %q", *wire)
	}
	// Twenty informers start at once; client-go's default rate limit would dominate the figure.
	config.QPS, config.Burst = 1000, 1000
	all, start := informersOf(config, *data)
	handler := &counter{
		wanted: *updates, last: make(chan storm, 1), handled: make([]int64, 0, *latency), allHandled: make(chan struct{}),
	}
	var registrations []cache.ResourceEventHandlerRegistration
	for _, informer := range all {
		if *drop {
			if err := informer.SetTransform(dropManagedFields); err != nil {
				log.Fatal(err)
			}
		}
		registration, err := informer.AddEventHandler(handler)
		if err != nil {
			log.Fatal(err)
		}
		registrations = append(registrations, registration)
	}

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	begin := now()
	start(ctx.Done())
	// WaitForCacheSync polls ten times a second; this polls more often, so as not to add to the figure.
	for _, registration := range registrations {
		for !registration.HasSynced() {
			time.Sleep(time.Millisecond)
		}
	}
	var result figures
	result.SyncWall, result.SyncCPU = now().since(begin)
	result.Program = "client-go " + moduleVersion()
	for _, informer := range all {
		result.Objects += len(informer.GetStore().ListKeys())
	}
	if *objects != 0 && result.Objects != *objects {
		log.Fatalf("synced %d objects instead of %d", result.Objects, *objects)
	}
	handler.settle()
	result.PeakKB, result.SteadyKB = memory("VmHWM"), memory("VmRSS")

	fmt.Fprintf(os.Stderr, "synced %d objects, waiting for %d updates\n", result.Objects, *updates)
	if *updates > 0 {
		storm := <-handler.last
		result.StormWall, result.StormCPU = storm.last.since(storm.first)
		result.Updates = *updates
		result.EventsPerS = float64(*updates) / result.StormWall
	}
	if *latency > 0 {
		fmt.Fprintf(os.Stderr, "updated, waiting for %d single updates\n", *latency)
		<-handler.allHandled
		result.Handled = handler.handled
	}
	if *withReads {
		result.reads = read(all[0])
	}
	// The memory after a forced collection. Programs do not force one, so this is measured last.
	runtime.GC()
	debug.FreeOSMemory()
	result.CollectedKB = memory("VmRSS")
	runtime.KeepAlive(all)
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		log.Fatal(err)
	}
}
