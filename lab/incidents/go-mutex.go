// cause: a goroutine with a thread of its own waits for a mutex, which another one holds while it sleeps
// size: 1.95 s
// ask: record -p $pid -d 2
// who: checkout
// says: undecided
// never: idle
// json: threads comm=checkout sum=undecided_ns
package main

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"
)

func main() {
	runtime.LockOSThread()
	os.WriteFile("/proc/thread-self/comm", []byte("checkout"), 0)
	var lock sync.Mutex
	go func() {
		for {
			lock.Lock()
			if os.Getenv("TWIN") == "" {
				time.Sleep(500 * time.Millisecond)
			}
			lock.Unlock()
			time.Sleep(10 * time.Millisecond)
		}
	}()
	planted, _ := os.OpenFile(os.Getenv("PLANTED"), os.O_APPEND|os.O_WRONLY, 0)
	fmt.Fprintf(planted, "pid %d\ntwin 0\nready\n", os.Getpid())
	for {
		lock.Lock()
		lock.Unlock()
	}
}
