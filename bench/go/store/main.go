// Benchmarks of client-go's store, the counterpart of `cargo run --profile measured -p evenkeel-bench -- store`.
//
// The same objects, loops and number of threads; each case prints one JSON object.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

const (
	namespaces = 50
	nodes      = 500
	slices     = 5
)

func pod(number, revision int) *corev1.Pod {
	workload := number / 10
	yes := true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       namespace(number % namespaces),
			Name:            fmt.Sprintf("web-%d-5d9c8b7f6-%06d", workload, number),
			ResourceVersion: fmt.Sprint(revision),
			Labels:          map[string]string{"app": fmt.Sprintf("web-%d", workload), "tier": "frontend"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: fmt.Sprintf("web-%d-5d9c8b7f6", workload), Controller: &yes,
			}},
		},
		Spec: corev1.PodSpec{
			NodeName:   node(number % nodes),
			Containers: []corev1.Container{{Name: "web", Image: fmt.Sprintf("registry.example.com/team/web:1.%d", workload%40)}},
		},
	}
}

func namespace(number int) string { return fmt.Sprintf("team-%02d", number) }
func node(number int) string      { return fmt.Sprintf("node-%03d", number) }

func indexers() cache.Indexers {
	return cache.Indexers{
		cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
		"node": func(object interface{}) ([]string, error) {
			return []string{object.(*corev1.Pod).Spec.NodeName}, nil
		},
	}
}

// random is xorshift64*, as in the Rust program.
type random uint64

func (r *random) below(limit int) int {
	x := uint64(*r)
	x ^= x >> 12
	x ^= x << 25
	x ^= x >> 27
	*r = random(x)
	return int(((x * 0x2545f4914f6cdd1d) >> 33) % uint64(limit))
}

// measure runs the work on several threads, several times, and prints the medians of wall and processor time, without
// the collector's.
func measure(name string, threads, operations int, work func(thread int, random *random, operations int) int) {
	var wall, cpu []float64
	for slice := 0; slice < slices; slice++ {
		var group sync.WaitGroup
		var taken atomic.Uint64
		begin := time.Now()
		for thread := 0; thread < threads; thread++ {
			group.Add(1)
			go func() {
				defer group.Done()
				runtime.LockOSThread()
				seed := random(88172645463325252 + thread + slice*1000)
				before := processorTime()
				if work(thread, &seed, operations) == 0 {
					panic("nothing was found")
				}
				taken.Add(processorTime() - before)
			}()
		}
		group.Wait()
		all := float64(operations * threads)
		wall = append(wall, float64(time.Since(begin).Nanoseconds())/all)
		cpu = append(cpu, float64(taken.Load())/all)
	}
	sort.Float64s(wall)
	sort.Float64s(cpu)
	line, _ := json.Marshal(map[string]any{
		"case": name, "threads": threads, "ns_per_op": wall[slices/2], "cpu_ns_per_op": cpu[slices/2],
	})
	fmt.Println(string(line))
}

// processorTime returns the processor time of this thread, in nanoseconds.
func processorTime() (nanoseconds uint64) {
	statistics, _ := os.ReadFile("/proc/thread-self/schedstat")
	_, _ = fmt.Sscan(string(statistics), &nanoseconds)
	return nanoseconds
}

func report(name string, threads int, unit string, figure float64) {
	line, _ := json.Marshal(map[string]any{"case": name, "threads": threads, unit: figure})
	fmt.Println(string(line))
}

func heap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func main() {
	count := flag.Int("objects", 50_000, "how many pods")
	most := flag.Int("threads", 2, "how many threads")
	flag.Parse()
	if runtime.GOMAXPROCS(0) < *most {
		fmt.Fprintln(os.Stderr, "there are fewer processors than threads")
	}

	pods := make([]interface{}, *count)
	newer := make([]interface{}, *count)
	keys := make([]string, *count)
	for number := range pods {
		pods[number] = pod(number, number+1)
		newer[number] = pod(number, *count+number+1)
		keys[number], _ = cache.MetaNamespaceKeyFunc(pods[number])
	}
	before := heap()
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers())
	if err := store.Replace(pods, "1"); err != nil {
		panic(err)
	}
	report("memory", 1, "bytes_per_object", float64(heap()-before)/float64(*count))

	threads := []int{1}
	if *most > 1 {
		threads = append(threads, *most)
	}
	for _, threads := range threads {
		measure("get", threads, 1_000_000, func(_ int, random *random, operations int) (found int) {
			for range operations {
				if object, ok, _ := store.GetByKey(keys[random.below(*count)]); ok && object != nil {
					found++
				}
			}
			return found
		})
		measure("get_and_read", threads, 1_000_000, func(_ int, random *random, operations int) (found int) {
			for range operations {
				object, ok, _ := store.GetByKey(keys[random.below(*count)])
				if ok && object.(*corev1.Pod).ResourceVersion[0] != 0 {
					found++
				}
			}
			return found
		})
		values := make([]string, namespaces)
		for number := range values {
			values[number] = namespace(number)
		}
		byIndex := func(index string, values []string) func(int, *random, int) int {
			return func(_ int, random *random, operations int) (found int) {
				for range operations {
					objects, _ := store.ByIndex(index, values[random.below(len(values))])
					found += len(objects)
				}
				return found
			}
		}
		measure("by_index_1000", threads, 1_000, byIndex(cache.NamespaceIndex, values))
		values = make([]string, nodes)
		for number := range values {
			values[number] = node(number)
		}
		measure("by_index_100", threads, 10_000, byIndex("node", values))
		measure("by_index_visit", threads, 10_000, func(_ int, random *random, operations int) (found int) {
			for range operations {
				objects, _ := store.ByIndex("node", values[random.below(len(values))])
				for _, object := range objects {
					if object != nil {
						found++
					}
				}
			}
			return found
		})
		measure("list", threads, 50, func(_ int, _ *random, operations int) (found int) {
			for range operations {
				found += len(store.List())
			}
			return found
		})
		measure("visit_all", threads, 50, func(_ int, _ *random, operations int) (found int) {
			for range operations {
				for _, object := range store.List() {
					if object != nil {
						found++
					}
				}
			}
			return found
		})
		for _, share := range []int{1, 10} {
			measure(fmt.Sprintf("mixed_%d_percent_writes", share), threads, 500_000, func(_ int, random *random, operations int) (found int) {
				for range operations {
					number := random.below(*count)
					if random.below(100) < share {
						_ = store.Update(newer[number])
						found++
					} else if object, ok, _ := store.GetByKey(keys[number]); ok && object != nil {
						found++
					}
				}
				return found
			})
		}
	}
	sets := [][]interface{}{pods, newer}
	turn := 0
	measure("put", 1, 200_000, func(_ int, random *random, operations int) int {
		for range operations {
			turn++
			_ = store.Update(sets[turn%2][random.below(*count)])
		}
		return operations
	})
	measure("replace_all_new", 1, 4, func(_ int, _ *random, operations int) int {
		for range operations {
			turn++
			_ = store.Replace(sets[turn%2], "1")
		}
		return operations
	})
	measure("replace_all_known", 1, 4, func(_ int, _ *random, operations int) int {
		for range operations {
			_ = store.Replace(sets[turn%2], "1")
		}
		return operations
	})
	// Indexes that are added to the full store, each under a name of its own: by a label, and by a field.
	added := 0
	add := func(function cache.IndexFunc) int {
		added++
		if err := store.AddIndexers(cache.Indexers{fmt.Sprintf("added-%d", added): function}); err != nil {
			panic(err)
		}
		return 1
	}
	measure("add_index_label", 1, 2, func(_ int, _ *random, operations int) (found int) {
		for range operations {
			found += add(func(object interface{}) ([]string, error) {
				return []string{object.(*corev1.Pod).Labels["app"]}, nil
			})
		}
		return found
	})
	measure("add_index_field", 1, 2, func(_ int, _ *random, operations int) (found int) {
		for range operations {
			found += add(func(object interface{}) ([]string, error) {
				return []string{object.(*corev1.Pod).Spec.NodeName}, nil
			})
		}
		return found
	})
	runtime.KeepAlive(pods)
}
