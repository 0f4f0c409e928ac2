package main

import (
	"log"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

const (
	// hot and warm are how many objects are read over and over.
	hot, warm = 50, 500
	// span is how long reads of one sort are made.
	span = time.Second
	// batch is how many reads are made between two looks at the clock.
	batch = 1000
)

type reads struct {
	// Objects are typed as soon as they are there: what other programs take for it belongs to syncing here.
	TypedWall  float64 `json:"typed_wall_s"`
	TypedCPU   float64 `json:"typed_cpu_s"`
	TypedKB    int     `json:"typed_rss_kb"`
	HotReads   float64 `json:"hot_reads_per_s"`
	WarmReads  float64 `json:"warm_reads_per_s"`
	IndexWall  float64 `json:"index_wall_s"`
	IndexReads float64 `json:"index_reads_per_s"`
	IndexFound float64 `json:"index_found"`
}

// sink keeps the compiler from leaving out what is read.
var sink int

// read reads pods: all of them once, a few over and over, and those of one node after the other.
func read(informer cache.SharedIndexInformer) *reads {
	var result reads
	store := informer.GetIndexer()
	begin := now()
	for _, object := range store.List() {
		sink += len(object.(*corev1.Pod).Spec.NodeName)
	}
	result.TypedWall, result.TypedCPU = now().since(begin)
	result.TypedKB = memory("VmRSS")

	keys := store.ListKeys()
	slices.Sort(keys)
	readSome := func(count int) float64 {
		some := make([]string, min(count, len(keys)))
		for number := range some {
			some[number] = keys[number*len(keys)/len(some)]
		}
		return perSecond(some, func(key string) int {
			object, found, err := store.GetByKey(key)
			if err != nil || !found {
				log.Fatalf("%s is gone: %v", key, err)
			}
			return len(object.(*corev1.Pod).Spec.NodeName)
		})
	}
	result.HotReads, result.WarmReads = readSome(hot), readSome(warm)

	begin = now()
	err := informer.AddIndexers(cache.Indexers{"node": func(object any) ([]string, error) {
		return []string{object.(*corev1.Pod).Spec.NodeName}, nil
	}})
	if err != nil {
		log.Fatal(err)
	}
	result.IndexWall, _ = now().since(begin)
	nodes := store.ListIndexFuncValues("node")
	slices.Sort(nodes)
	result.IndexFound = float64(len(keys)) / float64(len(nodes))
	result.IndexReads = perSecond(nodes, func(node string) int {
		objects, err := store.ByIndex("node", node)
		if err != nil {
			log.Fatal(err)
		}
		return len(objects[0].(*corev1.Pod).Name)
	})
	return &result
}

// perSecond does something to one or the other for a while and tells how often in a second.
func perSecond(all []string, work func(one string) int) float64 {
	begin, done, random := time.Now(), 0, uint64(88_172_645_463_325_252)
	for time.Since(begin) < span {
		for range batch {
			// In no order; the other programs take them in the same one.
			random ^= random << 13
			random ^= random >> 7
			random ^= random << 17
			sink += work(all[int(random>>33)%len(all)])
			done++
		}
	}
	return float64(done) / time.Since(begin).Seconds()
}
