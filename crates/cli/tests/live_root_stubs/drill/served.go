// SPDX-License-Identifier: MIT OR Apache-2.0

// Served has one slow call in ten of serve, each in its own goroutine: the first argument names the reason. It prints its process
// number first, and ends with its input.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"
)

var (
	served  uint64
	culprit string
	lock    sync.Mutex
	ask     = make(chan chan bool)
)

//go:noinline
func compute(steps int) uint64 {
	x := uint64(steps)
	for i := 0; i < steps; i++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return x
}

// The stack of the calling goroutine has to grow, so it moves.
//
//go:noinline
func grow() uint64 {
	var room [64 << 10]byte
	room[compute(10)%uint64(len(room))] = 1
	return uint64(room[served%uint64(len(room))])
}

//go:noinline
func wait() {
	answer := make(chan bool)
	ask <- answer
	<-answer
}

type store interface{ fetch(slow bool) }

type disk struct{ blocks uint64 }

//go:noinline
func (d *disk) fetch(slow bool) {
	d.blocks++
	if !slow {
		return
	}
	switch culprit {
	case "compute":
		served += compute(4_000_000)
	case "moved":
		served += grow()
		runtime.Gosched()
		served += compute(4_000_000)
	case "sleep":
		time.Sleep(4 * time.Millisecond)
	case "lock":
		held := make(chan bool)
		go func() {
			lock.Lock()
			held <- true
			time.Sleep(4 * time.Millisecond)
			lock.Unlock()
		}()
		<-held
		lock.Lock()
		lock.Unlock()
	case "channel", "locked":
		wait()
	}
	d.blocks++
}

//go:noinline
func lookUp(s store, slow bool) {
	s.fetch(slow)
	served++
}

//go:noinline
func serve(s store, slow bool) {
	served += compute(100)
	lookUp(s, slow)
	served++
}

func main() {
	culprit = os.Args[1]
	fmt.Println(os.Getpid())
	go func() {
		for answer := range ask {
			time.Sleep(4 * time.Millisecond)
			answer <- true
		}
	}()
	go func() {
		done := make(chan bool)
		for i := 0; ; i++ {
			go func() {
				if culprit == "locked" {
					// The calls return in the thread where they began.
					runtime.LockOSThread()
					defer runtime.UnlockOSThread()
				}
				serve(&disk{}, i%10 == 9)
				done <- true
			}()
			<-done
			time.Sleep(300 * time.Microsecond)
		}
	}()
	bufio.NewReader(os.Stdin).ReadString(0)
}
