// Command informer is client-go's side of the informer benchmark: it syncs a shared informer of all pods, waits for
// updates, and prints what that cost as one line of JSON.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// quiet is how long nothing must have happened before memory counts as steady.
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
}

// moment is a point in wall and processor time.
type moment struct {
	wall time.Time
	cpu  time.Duration
}

func now() moment {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	return moment{time.Now(), time.Duration(usage.Utime.Nano() + usage.Stime.Nano())}
}

func (m moment) since(start moment) (wall, cpu float64) {
	return m.wall.Sub(start.wall).Seconds(), (m.cpu - start.cpu).Seconds()
}

// counter is the handler: it counts, and notes when the first and the last update came.
type counter struct {
	wanted        int64
	notifications atomic.Int64
	updates       int64
	first         moment
	last          chan moment
}

func (c *counter) OnAdd(any, bool) { c.notifications.Add(1) }
func (c *counter) OnDelete(any)    { c.notifications.Add(1) }

func (c *counter) OnUpdate(before, after any) {
	c.notifications.Add(1)
	// A relist repeats every object; only new versions are updates.
	if before.(*corev1.Pod).ResourceVersion == after.(*corev1.Pod).ResourceVersion {
		return
	}
	c.updates++
	if c.updates == 1 {
		c.first = now()
	}
	if c.updates == c.wanted {
		c.last <- now()
	}
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

// memory reads a figure of this process, such as VmRSS, in KiB.
func memory(name string) int {
	file, err := os.Open("/proc/self/status")
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if rest, found := strings.CutPrefix(lines.Text(), name+":"); found {
			value, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				log.Fatal(err)
			}
			return value
		}
	}
	log.Fatalf("no %s in /proc/self/status", name)
	return 0
}

// version is that of the client-go module this was built with.
func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "k8s.io/client-go" {
			return module.Version
		}
	}
	return "unknown"
}

func main() {
	server := flag.String("server", "", "URL of the API server")
	objects := flag.Int("objects", 0, "how many pods there must be; 0 does not check")
	updates := flag.Int64("updates", 100_000, "how many updates to wait for")
	flag.Parse()

	config := &rest.Config{Host: *server, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(clients, 0)
	// The generated informers index by namespace of their own accord.
	informer := factory.Core().V1().Pods().Informer()
	handler := &counter{wanted: *updates, last: make(chan moment, 1)}
	registration, err := informer.AddEventHandler(handler)
	if err != nil {
		log.Fatal(err)
	}

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	begin := now()
	factory.Start(ctx.Done())
	// WaitForCacheSync looks ten times a second; this looks more often, so as not to add to the figure.
	for !registration.HasSynced() {
		time.Sleep(time.Millisecond)
	}
	var result figures
	result.SyncWall, result.SyncCPU = now().since(begin)
	result.Program = "client-go " + version()
	result.Objects = len(informer.GetStore().ListKeys())
	if *objects != 0 && result.Objects != *objects {
		log.Fatalf("synced %d objects instead of %d", result.Objects, *objects)
	}
	handler.settle()
	result.PeakKB, result.SteadyKB = memory("VmHWM"), memory("VmRSS")

	fmt.Fprintf(os.Stderr, "synced %d objects, waiting for %d updates\n", result.Objects, *updates)
	if *updates > 0 {
		result.StormWall, result.StormCPU = (<-handler.last).since(handler.first)
		result.Updates = *updates
		result.EventsPerS = float64(*updates) / result.StormWall
	}
	// What is left when the collector has been told to do its utmost. Programs do not do that, so it comes last.
	runtime.GC()
	debug.FreeOSMemory()
	result.CollectedKB = memory("VmRSS")
	runtime.KeepAlive(factory)
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		log.Fatal(err)
	}
}
