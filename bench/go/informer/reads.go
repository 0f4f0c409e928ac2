package main

import (
	"log"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

const (
	// hot is how many objects are read over and over.
	hot = 500
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
	some := make([]string, min(hot, len(keys)))
	for number := range some {
		some[number] = keys[number*len(keys)/len(some)]
	}
	result.HotReads = perSecond(func(number int) int {
		object, found, err := store.GetByKey(some[number%len(some)])
		if err != nil || !found {
			log.Fatalf("%s is gone: %v", some[number%len(some)], err)
		}
		return len(object.(*corev1.Pod).Spec.NodeName)
	})

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
	result.IndexReads = perSecond(func(number int) int {
		objects, err := store.ByIndex("node", nodes[number%len(nodes)])
		if err != nil {
			log.Fatal(err)
		}
		return len(objects[0].(*corev1.Pod).Name)
	})
	return &result
}

// perSecond does something for a while and tells how often in a second.
func perSecond(work func(number int) int) float64 {
	begin, done := time.Now(), 0
	for time.Since(begin) < span {
		for range batch {
			sink += work(done)
			done++
		}
	}
	return float64(done) / time.Since(begin).Seconds()
}
