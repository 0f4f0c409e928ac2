package main

import (
	"bufio"
	"log"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

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
