// What client-go's work queue and controller-runtime's priority queue cost: the other side of `evenkeel bench queue`.
//
// One case in one process, so that nothing of another case is in the way of its memory; one JSON object is printed.
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
	"time"

	"k8s.io/client-go/util/workqueue"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

type queue = workqueue.TypedRateLimitingInterface[string]

var (
	name    = flag.String("case", "add", "add, get-done, workers, delayed, delayed-memory or rate-limited")
	peer    = flag.String("queue", "client-go", "client-go or controller-runtime")
	keys    = flag.Int("keys", 1_000_000, "how many keys")
	workers = flag.Int("workers", 1, "how many take keys, in the case of that name")
)

// key is what MetaNamespaceKeyFunc makes of an object: a new text each time.
func key(number int) string { return fmt.Sprintf("team-%02d/web-5d9c8b7f6-%08d", number%50, number) }

func texts(count int) []string {
	all := make([]string, count)
	for number := range all {
		all[number] = key(number)
	}
	return all
}

// random is xorshift64*, as on the other side.
type random uint64

func (r *random) next() uint64 {
	x := uint64(*r)
	x ^= x >> 12
	x ^= x << 25
	x ^= x >> 27
	*r = random(x)
	return x * 0x2545f4914f6cdd1d
}

// delay is between one hour and two.
func (r *random) delay() time.Duration { return time.Hour + time.Duration(r.next()%uint64(time.Hour)) }

func limiter() workqueue.TypedRateLimiter[string] {
	return workqueue.DefaultTypedControllerRateLimiter[string]()
}

func newQueue(clock *testclock.FakeClock) queue {
	if *peer == "controller-runtime" {
		return priorityqueue.New("bench", func(options *priorityqueue.Opts[string]) {
			options.RateLimiter = limiter()
		})
	}
	config := workqueue.TypedRateLimitingQueueConfig[string]{Name: "bench"}
	if clock != nil {
		config.Clock = clock
	}
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter(), config)
}

func main() {
	flag.Parse()
	result := map[string]any{"case": *name, "queue": *peer, "keys": *keys}
	perKey := func(field string, begin time.Time) {
		result[field] = math.Round(float64(time.Since(begin).Nanoseconds())/float64(*keys)*10) / 10
	}
	switch *name {
	case "add":
		all, queue := texts(*keys), newQueue(nil)
		runtime.GC()
		begin := time.Now()
		for _, key := range all {
			queue.Add(key)
		}
		expect(queue.Len() == *keys)
		perKey("ns_per_key", begin)
	case "get-done":
		all, queue := texts(*keys), newQueue(nil)
		for _, key := range all {
			queue.Add(key)
		}
		expect(queue.Len() == *keys)
		runtime.GC()
		begin := time.Now()
		for range all {
			key, _ := queue.Get()
			queue.Done(key)
		}
		perKey("ns_per_key", begin)
	case "workers":
		all, queue := texts(*keys), newQueue(nil)
		runtime.GC()
		result["workers"] = *workers
		var taken atomic.Int64
		var group sync.WaitGroup
		begin := time.Now()
		for range *workers {
			group.Add(1)
			go func() {
				defer group.Done()
				for {
					key, shutdown := queue.Get()
					if shutdown {
						return
					}
					queue.Forget(key)
					queue.Done(key)
					if taken.Add(1) == int64(len(all)) {
						queue.ShutDown()
					}
				}
			}()
		}
		for _, key := range all {
			queue.Add(key)
		}
		group.Wait()
		expect(taken.Load() == int64(len(all)))
		perKey("ns_per_key", begin)
	case "delayed":
		clock := testclock.NewFakeClock(time.Now())
		queue, seed := newQueue(clock), random(88172645463325252)
		all := texts(*keys)
		runtime.GC()
		begin := time.Now()
		for _, key := range all {
			queue.AddAfter(key, seed.delay())
		}
		perKey("ns_per_key_in", begin)
		begin = time.Now()
		clock.Step(3 * time.Hour)
		for range all {
			key, _ := queue.Get()
			queue.Done(key)
		}
		perKey("ns_per_key_out", begin)
	case "waiting-memory", "rate-limited-memory":
		queue, seed := newQueue(nil), random(88172645463325252)
		before, residentBefore := heap(), resident()
		for number := range *keys {
			if *name == "waiting-memory" {
				queue.AddAfter(key(number), seed.delay())
			} else {
				queue.AddRateLimited(key(number))
			}
		}
		residentAfter := resident()
		result["resident_bytes_per_key"] = (residentAfter - residentBefore) / uint64(*keys)
		result["live_bytes_per_key"] = (heap() - before) / uint64(*keys)
		result["peak_bytes_per_key"] = peak() / uint64(*keys)
		runtime.KeepAlive(queue)
	case "rate-limited":
		all, queue := texts(*keys), newQueue(nil)
		runtime.GC()
		begin := time.Now()
		for _, key := range all {
			queue.AddRateLimited(key)
		}
		perKey("ns_per_key", begin)
	default:
		fmt.Fprintln(os.Stderr, "no such case:", *name)
		os.Exit(2)
	}
	line, _ := json.Marshal(result)
	fmt.Println(string(line))
}

func expect(held bool) {
	if !held {
		panic("the queue did not do what it was asked to")
	}
}

func heap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func status(field string) (kilobytes uint64) {
	text, _ := os.ReadFile("/proc/self/status")
	for _, line := range strings.Split(string(text), "\n") {
		if rest, found := strings.CutPrefix(line, field+":"); found {
			_, _ = fmt.Sscan(rest, &kilobytes)
		}
	}
	return kilobytes
}

func resident() uint64 { return status("VmRSS") * 1024 }
func peak() uint64     { return status("VmHWM") * 1024 }
