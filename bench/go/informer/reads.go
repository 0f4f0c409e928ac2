package main

import (
	"log"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

const (
	// hot and warm are the numbers of objects that are read repeatedly.
	hot, warm = 50, 500
	// span is the duration of each read benchmark.
	span = time.Second
	// batch is the number of reads between two clock readings.
	batch = 1000
)

type reads struct {
	// Objects are typed when they are synced: this cost is part of the sync here.
	TypedWall  float64 `json:"typed_wall_s"`
	TypedCPU   float64 `json:"typed_cpu_s"`
	TypedKB    int     `json:"typed_rss_kb"`
	HotReads   float64 `json:"hot_reads_per_s"`
	WarmReads  float64 `json:"warm_reads_per_s"`
	IndexWall  float64 `json:"index_wall_s"`
	IndexReads float64 `json:"index_reads_per_s"`
	IndexFound float64 `json:"index_found"`
}

// sink keeps the compiler from removing the reads.
var sink int

// read reads pods: all once, a few repeatedly, and by node.
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
				log.Fatalf("%s is missing: %v", key, err)
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

// perSecond runs work on pseudo-random elements for a while and returns the rate per second.
func perSecond(all []string, work func(one string) int) float64 {
	begin, done, random := time.Now(), 0, uint64(88_172_645_463_325_252)
	for time.Since(begin) < span {
		for range batch {
			// Pseudo-random order, the same as in the other programs.
			random ^= random << 13
			random ^= random >> 7
			random ^= random << 17
			sink += work(all[int(random>>33)%len(all)])
			done++
		}
	}
	return float64(done) / time.Since(begin).Seconds()
}
