// SPDX-License-Identifier: MIT OR Apache-2.0

// Makes known numbers of Go calls, for comparison with counted latencies:
//
//	calls [counted=N] [sleeps=N] [grows=N] [nested=N] [deeper=N] [panics=N] [catches=N] [exits=N] [open]
//
// Each of four goroutines calls `counted` N times, and `sleeps`, within which goroutines wait and continue in other
// threads. N goroutines call `grows`, within which their stacks grow and move. `nested` is called N times five deep in
// itself, `deeper` twelve deep. `panics` is unwound by every other call; `recovers` around it returns each time.
// `catches` calls itself three times: the last call panics, and the first recovers. N goroutines end within `exits`.
// With `open`, a goroutine is in `stays` at the end. At the end the program prints its counts, a line `NAME COUNT`
// each; for `sleeps` and `grows` also the time within and around the calls, ns, and the number of `sleeps` that ended
// in another thread.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const goroutines = 4

var (
	made           = map[string]*atomic.Int64{}
	within, around = map[string]*atomic.Int64{}, map[string]*atomic.Int64{}
	moved          atomic.Int64
	kept           atomic.Int64
)

//go:noinline
func counted(value int64) int64 { return value + 1 }

//go:noinline
func sleeps(ns time.Duration) {
	began, thread := time.Now(), syscall.Gettid()
	time.Sleep(ns)
	if syscall.Gettid() != thread {
		moved.Add(1)
	}
	within["sleeps"].Add(int64(time.Since(began)))
}

// Uses about a kilobyte of stack for each call.
//
//go:noinline
func deep(calls int) byte {
	var frame [1000]byte
	frame[calls%1000] = byte(calls)
	if calls > 0 {
		return frame[calls%1000] + deep(calls-1)
	}
	runtime.Gosched()
	return frame[0]
}

//go:noinline
func grows(calls int) {
	began := time.Now()
	kept.Add(int64(deep(calls)))
	within["grows"].Add(int64(time.Since(began)))
}

//go:noinline
func nested(depth int) int {
	if depth > 1 {
		return nested(depth-1) + 1
	}
	return 1
}

//go:noinline
func deeper(depth int) int {
	if depth > 1 {
		return deeper(depth-1) + 1
	}
	return 1
}

//go:noinline
func panics(value int64) int64 {
	if value%2 == 1 {
		panic("every other")
	}
	return value
}

//go:noinline
func recovers(value int64) {
	defer func() { _ = recover() }()
	kept.Add(panics(value))
}

//go:noinline
func catches(depth int) int {
	if depth == 3 {
		defer func() { _ = recover() }()
	}
	if depth == 0 {
		panic("the last")
	}
	return catches(depth-1) + 1
}

//go:noinline
func exits(value int64) int64 {
	runtime.Goexit()
	return value
}

//go:noinline
func stays(forever chan bool) bool { return <-forever }

// Calls a function `most` times, and notes the calls and their time.
func times(name string, most int64, at int, call func(int64)) {
	for value := int64(0); value < most; value++ {
		began := time.Now()
		call(value)
		around[name].Add(int64(time.Since(began)))
		made[name].Add(1)
	}
}

func main() {
	asked := map[string]int64{}
	open := false
	for _, argument := range os.Args[1:] {
		name, value, _ := strings.Cut(argument, "=")
		asked[name], _ = strconv.ParseInt(value, 10, 64)
		open = open || name == "open"
	}
	names := []string{"counted", "sleeps", "grows", "nested", "deeper", "panics", "catches", "exits"}
	for _, name := range names {
		made[name], within[name], around[name] = new(atomic.Int64), new(atomic.Int64), new(atomic.Int64)
	}
	var all sync.WaitGroup
	run := func(work func()) {
		all.Add(1)
		go func() {
			defer all.Done()
			work()
		}()
	}
	for i := range goroutines {
		run(func() {
			times("counted", asked["counted"], i, func(value int64) { kept.Add(counted(value)) })
			times("sleeps", asked["sleeps"], i, func(value int64) { sleeps(time.Millisecond) })
		})
	}
	all.Wait()
	for range asked["grows"] {
		run(func() { times("grows", 1, 0, func(int64) { grows(3000) }) })
		if made["grows"].Load()%8 == 0 {
			all.Wait()
		}
	}
	all.Wait()
	times("nested", asked["nested"], 0, func(int64) { kept.Add(int64(nested(5))) })
	times("deeper", asked["deeper"], 0, func(int64) { kept.Add(int64(deeper(12))) })
	times("panics", asked["panics"], 0, recovers)
	times("catches", asked["catches"], 0, func(int64) { kept.Add(int64(catches(3))) })
	for range asked["exits"] {
		made["exits"].Add(1)
		run(func() { kept.Add(exits(1)) })
		all.Wait()
	}
	if open {
		go stays(make(chan bool))
		time.Sleep(100 * time.Millisecond)
	}
	for _, name := range names {
		fmt.Println(name, made[name].Load())
	}
	for _, name := range []string{"sleeps", "grows"} {
		fmt.Println(name+"_within_ns", within[name].Load())
		fmt.Println(name+"_around_ns", around[name].Load())
	}
	fmt.Println("moved", moved.Load())
}
