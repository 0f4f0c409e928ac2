// Runs client-go's shared informers on behalf of the conformance suite.
//
// It reads commands from standard input and writes responses and notifications to standard output, one JSON object per line.
// One process hosts any number of informers; every line names its informer. The program ends with its input.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"log"
	"os"
	"sync"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// command is one line of input. Only the fields that a command needs are set.
type command struct {
	Seq      uint64   `json:"seq"`
	Informer string   `json:"informer"`
	Do       string   `json:"do"`
	Options  *options `json:"options,omitempty"`
	Handler  string   `json:"handler,omitempty"`
	ResyncMS *int64   `json:"resync_ms,omitempty"`
	Filter   string   `json:"filter,omitempty"`
	PanicOn  string   `json:"panic_on,omitempty"`
	Index    string   `json:"index,omitempty"`
	Label    string   `json:"label,omitempty"`
	Value    string   `json:"value,omitempty"`
	Key      string   `json:"key,omitempty"`
}

// answer is the result of a command: its number, and either an error or a result.
type answer struct {
	Seq    uint64 `json:"seq"`
	Error  string `json:"error,omitempty"`
	Result any    `json:"result,omitempty"`
}

// output writes whole lines, from any goroutine.
type output struct {
	mutex sync.Mutex
	to    *bufio.Writer
}

func (o *output) write(line any) {
	text, err := json.Marshal(line)
	if err != nil {
		log.Fatalf("cannot encode a line: %v", err)
	}
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.to.Write(text)
	o.to.WriteByte('\n')
	if err := o.to.Flush(); err != nil {
		os.Exit(0) // The output is closed.
	}
}

func main() {
	verbose := flag.Bool("verbose", false, "let client-go log to standard error")
	flag.Parse()
	if !*verbose {
		klog.SetLogger(logr.Discard())
	}
	// A scenario lets a handler panic; the process must survive.
	utilruntime.ReallyCrash = false

	out := &output{to: bufio.NewWriter(os.Stdout)}
	informers := &registry{out: out, byName: map[string]*informer{}}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var cmd command
		if err := json.Unmarshal(in.Bytes(), &cmd); err != nil {
			log.Fatalf("cannot read %q: %v", in.Text(), err)
		}
		// Stopping takes as long as the slowest handler; commands of other informers do not wait for it. The commands of
		// one informer arrive one at a time, because its scenario waits for each response.
		go func() {
			result, err := informers.run(cmd)
			if err != nil {
				out.write(answer{Seq: cmd.Seq, Error: err.Error()})
				return
			}
			out.write(answer{Seq: cmd.Seq, Result: result})
		}()
	}
}
