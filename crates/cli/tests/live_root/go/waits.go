// SPDX-License-Identifier: MIT OR Apache-2.0

// Each call of serve waits some 4 ms for the answer from one goroutine, whose number is printed at the end.
package main

import (
	"bytes"
	"fmt"
	"runtime"
	"time"
)

var ask = make(chan chan bool)

//go:noinline
func serve() {
	answer := make(chan bool)
	ask <- answer
	<-answer
}

func number() string {
	var text [64]byte
	return string(bytes.Fields(text[:runtime.Stack(text[:], false)])[1])
}

func main() {
	worker := make(chan string, 1)
	go func() {
		worker <- number()
		for answer := range ask {
			time.Sleep(4 * time.Millisecond)
			answer <- true
		}
	}()
	for i := 0; i < 100; i++ {
		done := make(chan bool)
		go func() {
			serve()
			done <- true
		}()
		<-done
	}
	fmt.Println("answered by", <-worker)
}
