// The part that all Go programs have: how a culprit takes its time, and the goroutines. Constants and functions follow.
package main

import (
	"bufio"
	"fmt"
	"os"
	"sync"
	"time"
)

type call struct {
	number int
	isSlow bool
	// At each level, the place at which a callee goes on: at random, then those that lead to culprits.
	ways [numberOfWays + 1][depth]int
	// The way of this call; 0: the one at random, to no culprit.
	way int
	sum uint64
}

var (
	stepsPerMs     uint64
	lock           sync.Mutex
	locked         uint64
	wanted         = make(chan bool)
	held           = make(chan bool)
	reader, writer *os.File
)

func work(steps uint64) uint64 {
	x := steps
	for ; steps > 0; steps-- {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return x
}

// Whether the callee at this place of f0 goes on, and which way.
func enters(c *call, place int) bool {
	way, end := 0, 1
	if c.isSlow {
		way, end = 1, numberOfWays+1
	}
	for ; way < end; way++ {
		if c.ways[way][0] == place {
			c.way = way
			return true
		}
	}
	return false
}

// Part of the function that is the culprit.
func takeTime() uint64 {
	switch culprit {
	case "computes":
		return work(stepsPerMs * ms)
	case "sleeps":
		time.Sleep(ms * time.Millisecond)
	case "locks":
		wanted <- true
		<-held
		lock.Lock()
		defer lock.Unlock()
		return locked
	case "reads":
		wanted <- true
		var one [1]byte
		reader.Read(one[:])
		return uint64(one[0])
	}
	return 0
}

// Holds the lock, or writes the byte, when a culprit wants it.
func serveCulprit() {
	for range wanted {
		if culprit == "reads" {
			time.Sleep(ms * time.Millisecond)
			writer.Write([]byte{1})
			continue
		}
		lock.Lock()
		held <- true
		time.Sleep(ms * time.Millisecond)
		locked++
		lock.Unlock()
	}
}

// The fastest of several: what else the machine does makes it slower.
func calibrate() {
	const steps = 1_000_000
	for range 20 {
		began := time.Now()
		locked += work(steps)
		stepsPerMs = max(stepsPerMs, steps*1_000_000/uint64(time.Since(began).Nanoseconds()))
	}
}

func workOn(seed uint64) {
	c := &call{}
	copy(c.ways[1:], ways[:])
	x := seed
	for {
		for level := range c.ways[0] {
			x = x*6364136223846793005 + 1442695040888963407
			c.ways[0][level] = int(x>>33) % fanOut
		}
		c.isSlow = c.number%8 == 7
		f0(c, true)
		time.Sleep(100 * time.Microsecond)
		c.number++
	}
}

func main() {
	calibrate()
	reader, writer, _ = os.Pipe()
	fmt.Println(os.Getpid())
	go serveCulprit()
	for seed := range threads {
		go workOn(uint64(seed + 1))
	}
	bufio.NewReader(os.Stdin).ReadString(0)
}
