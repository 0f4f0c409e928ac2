// What client-go's work queue and controller-runtime's priority queue cost: the other side of `evenkeel bench queue`.
//
// One case in one process, so that memory of another case does not distort it; one JSON object is printed.
//
// Neither queue keeps metrics: client-go's has a name but no provider, and controller-runtime's has no name, since with one
// it always keeps them. The plain cases have strings as keys, no name and no limiter, and do not call Forget.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

type (
	key     = cache.ObjectName
	queue   = workqueue.TypedRateLimitingInterface[key]
	limiter = workqueue.TypedRateLimiter[key]
)

const controllerRuntime = "controller-runtime"

var (
	name    = flag.String("case", "add", "add, get-done, workers, plain-add, plain-get-done, plain-workers, "+
		"delayed, rate-limited, waiting-memory or back-off-memory")
	peer    = flag.String("queue", "client-go", "client-go or "+controllerRuntime)
	keys    = flag.Int("keys", 1_000_000, "how many keys")
	workers = flag.Int("workers", 1, "how many take keys, in the cases of that name")
)

// namespaces are shared, as they are by the objects of an informer that hold them.
var namespaces = func() (all [50]string) {
	for number := range all {
		all[number] = fmt.Sprintf("team-%02d", number)
	}
	return all
}()

func makeKey(number int) key {
	return cache.NewObjectName(namespaces[number%len(namespaces)], fmt.Sprintf("web-5d9c8b7f6-%08d", number))
}

func makeKeys(count int) []key {
	all := make([]key, count)
	for number := range all {
		all[number] = makeKey(number)
	}
	return all
}

// makeStrings makes keys as MetaNamespaceKeyFunc does. They are made before the measurement, as on the other side.
func makeStrings(count int) []string {
	all := make([]string, count)
	for number := range all {
		all[number] = makeKey(number).String()
	}
	return all
}

// random is xorshift64*, as on the other side.
type random uint64

const seed random = 88172645463325252

// delay is between one hour and two.
func (r *random) delay() time.Duration {
	x := uint64(*r)
	x ^= x >> 12
	x ^= x << 25
	x ^= x >> 27
	*r = random(x)
	return time.Hour + time.Duration(x*0x2545f4914f6cdd1d%uint64(time.Hour))
}

func newQueue(clock *testclock.FakeClock) queue {
	limiter := workqueue.DefaultTypedControllerRateLimiter[key]()
	if *peer == controllerRuntime {
		return priorityqueue.New("", func(options *priorityqueue.Opts[key]) { options.RateLimiter = limiter })
	}
	config := workqueue.TypedRateLimitingQueueConfig[key]{Name: "bench"}
	if clock != nil {
		config.Clock = clock
	}
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, config)
}

func newPlainQueue() workqueue.TypedInterface[string] {
	if *peer == controllerRuntime {
		return priorityqueue.New[string]("")
	}
	return workqueue.NewTyped[string]()
}

// timed measures one part of a case: the time that passes, and the processor time of all threads, the collector's too.
func timed(part string, work func()) {
	runtime.GC()
	cpu, begin := processorTime(), time.Now()
	work()
	passed := time.Since(begin)
	result["ns_per_key"+part] = perKey(passed.Nanoseconds())
	result["cpu_ns_per_key"+part] = perKey(processorTime() - cpu)
}

func perKey(sum int64) float64 { return math.Round(float64(sum)/float64(*keys)*10) / 10 }

var result = map[string]any{}

func main() {
	flag.Parse()
	if *keys < 1 || *workers < 1 || *peer != "client-go" && *peer != controllerRuntime {
		refuse("keys and workers are at least 1, and the queue is client-go or " + controllerRuntime)
	}
	result["case"], result["queue"], result["keys"] = *name, *peer, *keys
	switch *name {
	case "add":
		all, queue := makeKeys(*keys), newQueue(nil)
		timed("", func() { addAll(queue, all) })
	case "get-done":
		all, queue := makeKeys(*keys), newQueue(nil)
		addAll(queue, all)
		timed("", func() { takeAll(queue, len(all)) })
	case "workers":
		all, queue := makeKeys(*keys), newQueue(nil)
		result["workers"] = *workers
		timed("", func() { workOff(queue, all, queue.Forget) })
	case "plain-add":
		all, queue := makeStrings(*keys), newPlainQueue()
		timed("", func() { addAll(queue, all) })
	case "plain-get-done":
		all, queue := makeStrings(*keys), newPlainQueue()
		addAll(queue, all)
		timed("", func() { takeAll(queue, len(all)) })
	case "plain-workers":
		all, queue := makeStrings(*keys), newPlainQueue()
		result["workers"] = *workers
		timed("", func() { workOff(queue, all, nil) })
	case "delayed":
		if *peer == controllerRuntime {
			refuse("controller-runtime's queue takes no clock")
		}
		clock := testclock.NewFakeClock(time.Now())
		all, queue, random := makeKeys(*keys), newQueue(clock), seed
		timed("_in", func() {
			for _, key := range all {
				queue.AddAfter(key, random.delay())
			}
		})
		timed("_out", func() {
			clock.Step(3 * time.Hour)
			takeAll(queue, len(all))
		})
	case "rate-limited":
		all, queue := makeKeys(*keys), newQueue(nil)
		timed("", func() {
			for _, key := range all {
				queue.AddRateLimited(key)
			}
			// controller-runtime's queue buffers adds until the next call.
			_ = queue.Len()
		})
	case "waiting-memory":
		random := seed
		measureMemory(func(queue queue, key key) { queue.AddAfter(key, random.delay()) })
	case "back-off-memory":
		measureMemory(func(queue queue, key key) { queue.AddRateLimited(key) })
	default:
		refuse("no such case: " + *name)
	}
	line, _ := json.Marshal(result)
	fmt.Println(string(line))
}

func addAll[K comparable](queue workqueue.TypedInterface[K], all []K) {
	for _, key := range all {
		queue.Add(key)
	}
	expect(queue.Len() == len(all))
}

func takeAll[K comparable](queue workqueue.TypedInterface[K], count int) {
	for range count {
		key, _ := queue.Get()
		queue.Done(key)
	}
	expect(queue.Len() == 0)
}

func workOff[K comparable](queue workqueue.TypedInterface[K], all []K, forget func(K)) {
	// client-go's queue hands out what is in it when it is shut down, controller-runtime's does not.
	drains := *peer != controllerRuntime
	var taken atomic.Int64
	var group sync.WaitGroup
	for range *workers {
		group.Go(func() {
			count := int64(0)
			for {
				key, shutdown := queue.Get()
				if shutdown {
					break
				}
				if forget != nil {
					forget(key)
				}
				queue.Done(key)
				count++
				if !drains && taken.Add(1) == int64(len(all)) {
					queue.ShutDown()
				}
			}
			if drains {
				taken.Add(count)
			}
		})
	}
	for _, key := range all {
		queue.Add(key)
	}
	if drains {
		queue.ShutDown()
	}
	group.Wait()
	expect(taken.Load() == int64(len(all)))
}

func measureMemory(add func(queue, key)) {
	queue := newQueue(nil)
	live, resident := heap(), status("VmRSS")
	for number := range *keys {
		add(queue, makeKey(number))
	}
	_ = queue.Len()
	result["resident_bytes_per_key"] = perKey(status("VmRSS") - resident)
	result["peak_bytes_per_key"] = perKey(status("VmHWM") - resident)
	result["live_bytes_per_key"] = perKey(heap() - live)
	runtime.KeepAlive(queue)
}

func refuse(reason string) {
	fmt.Fprintln(os.Stderr, reason)
	os.Exit(2)
}

func expect(held bool) {
	if !held {
		panic("the queue lost keys or kept too many")
	}
}

func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// status is a figure about the memory of this process, in bytes.
func status(field string) (size int64) {
	text, _ := os.ReadFile("/proc/self/status")
	for _, line := range strings.Split(string(text), "\n") {
		if rest, found := strings.CutPrefix(line, field+":"); found {
			_, _ = fmt.Sscan(rest, &size)
		}
	}
	return size * 1024
}

func processorTime() int64 {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return usage.Utime.Nano() + usage.Stime.Nano()
}
