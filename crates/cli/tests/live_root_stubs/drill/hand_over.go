// SPDX-License-Identifier: MIT OR Apache-2.0

// A goroutine takes requests from a channel and calls work with each; main hands over orders and reports in turn. The first
// in each eight is slow: orders in parse, reports in render, for longer. It prints its process number first, and ends with
// its input.
package main

import (
	"fmt"
	"os"
	"sync"
)

type request struct {
	isReport, isSlow bool
	done             *sync.WaitGroup
}

var sum uint64

//go:noinline
func compute(steps int) uint64 {
	x := uint64(steps)
	for i := 0; i < steps; i++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return x
}

//go:noinline
func parse(isSlow bool) {
	if isSlow {
		sum += compute(2_000_000)
	}
}

//go:noinline
func render(isSlow bool) {
	if isSlow {
		sum += compute(16_000_000)
	}
}

//go:noinline
func work(taken *request) {
	parse(!taken.isReport && taken.isSlow)
	render(taken.isReport && taken.isSlow)
	sum++
}

//go:noinline
func submitOrder(queue chan *request, order *request) {
	queue <- order
}

//go:noinline
func submitReport(queue chan *request, report *request) {
	report.isReport = true
	queue <- report
}

func main() {
	fmt.Println(os.Getpid())
	ended := make(chan bool)
	go func() {
		os.Stdin.Read(make([]byte, 1))
		ended <- true
	}()
	queue := make(chan *request, 16)
	go func() {
		for taken := range queue {
			work(taken)
			taken.done.Done()
		}
	}()
	for {
		select {
		case <-ended:
			return
		default:
		}
		var done sync.WaitGroup
		done.Add(16)
		for i := 0; i < 8; i++ {
			submitOrder(queue, &request{isSlow: i == 0, done: &done})
			submitReport(queue, &request{isSlow: i == 0, done: &done})
		}
		done.Wait()
	}
}
