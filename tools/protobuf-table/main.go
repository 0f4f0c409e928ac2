// Command protobuf-table generates the schema table of protobuf messages for evenkeel-core.
//
// The generated.proto files of the Kubernetes modules define the wire format of a message, the tags of the Go types its JSON.
// This program reads both, of every supported minor version, and writes their union. It fails if a field number has different
// meanings in two versions.
//
//	go run . -o ../../crates/evenkeel-core/data/protobuf-messages.txt
//
// The modules are fetched with `go mod download`. The format of the table is described at its top.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
)

// The supported versions, oldest first, and the modules whose messages are in the table.
var (
	versions = []string{"v0.36.6", "v0.37.2"}
	modules  = []string{
		"k8s.io/api", "k8s.io/apimachinery", "k8s.io/apiextensions-apiserver", "k8s.io/kube-aggregator", "k8s.io/metrics",
	}
)

func main() {
	log.SetFlags(0)
	output := flag.String("o", "", "the file to write; standard output if empty")
	flag.Parse()

	table := newTable()
	for _, version := range versions {
		tree := newTree()
		for _, module := range modules {
			folder, err := download(module, version)
			if err != nil {
				log.Fatal(err)
			}
			if err := tree.add(module, folder); err != nil {
				log.Fatal(err)
			}
		}
		packages, err := tree.join()
		if err != nil {
			log.Fatalf("%s: %v", version, err)
		}
		if err := table.merge(version, packages); err != nil {
			log.Fatal(err)
		}
	}
	text, err := table.text()
	if err != nil {
		log.Fatal(err)
	}
	if *output == "" {
		fmt.Print(text)
		return
	}
	if err := os.WriteFile(*output, []byte(text), 0o644); err != nil {
		log.Fatal(err)
	}
}

// download fetches a module and returns the folder that holds it.
func download(module, version string) (string, error) {
	command := exec.Command("go", "mod", "download", "-json", module+"@"+version)
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("cannot fetch %s %s: %w", module, version, err)
	}
	var found struct{ Dir string }
	if err := json.Unmarshal(output, &found); err != nil {
		return "", fmt.Errorf("cannot fetch %s %s: %w", module, version, err)
	}
	return filepath.Clean(found.Dir), nil
}
