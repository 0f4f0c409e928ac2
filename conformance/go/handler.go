package main

import (
	"sync"

	"k8s.io/client-go/tools/cache"
)

// handler reports every call to the suite.
type handler struct {
	informer     *informer
	name         string
	panicOn      string
	gate         *gate
	registration cache.ResourceEventHandlerRegistration
}

func (h *handler) OnAdd(value any, initial bool) {
	described := describe(value)
	h.report(notification{Event: "add", Initial: initial, Key: described.Key, New: described})
}

func (h *handler) OnUpdate(old, new any) {
	described := describe(new)
	h.report(notification{Event: "update", Key: described.Key, Old: describe(old), New: described})
}

func (h *handler) OnDelete(value any) {
	if tombstone, ok := value.(cache.DeletedFinalStateUnknown); ok {
		h.report(notification{Event: "delete", Unknown: true, Key: tombstone.Key, Old: describe(tombstone.Obj)})
		return
	}
	described := describe(value)
	h.report(notification{Event: "delete", Key: described.Key, Old: described})
}

// report reports the start of a call, waits while the handler is held, and panics if the scenario requests it.
func (h *handler) report(call notification) {
	call.Informer, call.Handler = h.informer.name, h.name
	h.informer.out.write(call)
	h.gate.wait()
	if call.Key == h.panicOn {
		panic("requested by the scenario")
	}
}

// gate blocks callers while it is closed.
type gate struct {
	mutex sync.Mutex
	moved *sync.Cond
	shut  bool
}

func newGate() *gate {
	made := &gate{}
	made.moved = sync.NewCond(&made.mutex)
	return made
}

func (g *gate) set(shut bool) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.shut = shut
	g.moved.Broadcast()
}

func (g *gate) wait() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	for g.shut {
		g.moved.Wait()
	}
}
