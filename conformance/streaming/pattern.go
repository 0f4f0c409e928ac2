package main

import (
	"bytes"
	"fmt"
	"io"
)

// patternPeriod is prime, so that lost and repeated blocks of any usual size are noticed.
const patternPeriod = 65521

// pattern is one period of the bytes of all transfers, and 64 KiB of the next.
var pattern = makePattern()

func makePattern() []byte {
	bytes := make([]byte, patternPeriod+64*1024)
	state := uint32(2463534242)
	for i := range bytes[:patternPeriod] {
		state ^= state << 13
		state ^= state >> 17
		state ^= state << 5
		bytes[i] = byte(state >> 24)
	}
	for i := patternPeriod; i < len(bytes); i++ {
		bytes[i] = bytes[i-patternPeriod]
	}
	return bytes
}

// patternAt returns the bytes at a position, at most 64 KiB of them.
func patternAt(position, length int64) []byte {
	start := position % patternPeriod
	return pattern[start : start+min(length, 64*1024)]
}

func writePattern(w io.Writer, length int64) error {
	for position := int64(0); position < length; {
		written, err := w.Write(patternAt(position, length-position))
		if err != nil {
			return err
		}
		position += int64(written)
	}
	return nil
}

// checkPattern reads bytes of the pattern and says whether they are right.
func checkPattern(r io.Reader, length int64) string {
	buffer := make([]byte, 64*1024)
	for position := int64(0); position < length; {
		read, err := r.Read(buffer[:min(length-position, int64(len(buffer)))])
		if !bytes.Equal(buffer[:read], patternAt(position, int64(read))) {
			return fmt.Sprintf("wrong after %d bytes", position)
		}
		position += int64(read)
		if err != nil && position < length {
			return fmt.Sprintf("ended after %d bytes: %v", position, err)
		}
	}
	return fmt.Sprintf("right: %d bytes", length)
}
