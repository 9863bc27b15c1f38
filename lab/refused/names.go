// SPDX-License-Identifier: MIT OR Apache-2.0

// Calls many functions of Go's library and its own, each some thousand times.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
)

type Name struct {
	First, Last string
	Age         int
	Tags        []string
}

type shower interface{ show() string }

//go:noinline
func (n *Name) show() string { return fmt.Sprintf("%s %s (%d)", n.First, n.Last, n.Age) }

//go:noinline
func made(n int) *Name {
	return &Name{"first" + strconv.Itoa(n%17), "last", n, []string{"a", strings.Repeat("b", n%5)}}
}

//go:noinline
func written(n *Name) ([]byte, error) {
	if n.Age%100 == 99 {
		return nil, errors.New("too old: " + strconv.Itoa(n.Age))
	}
	return json.Marshal(n)
}

//go:noinline
func read(text []byte) (name Name, err error) {
	err = json.Unmarshal(text, &name)
	return
}

//go:noinline
func recovered(n int) (said string) {
	defer func() {
		if r := recover(); r != nil {
			said = fmt.Sprint(r)
		}
	}()
	return strconv.Itoa([]int{1, 2, 3}[n%4])
}

func main() {
	var lock sync.Mutex
	var group sync.WaitGroup
	all := map[string]int{}
	work := make(chan int)
	for worker := 0; worker < 4; worker++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for n := range work {
				name := made(n)
				text, err := written(name)
				if err != nil {
					continue
				}
				back, _ := read(text)
				var show shower = &back
				words := strings.Fields(show.show())
				sort.Strings(words)
				lock.Lock()
				all[strings.Join(words, "-")+recovered(n)] += len(bytes.ToUpper(text))
				lock.Unlock()
			}
		}()
	}
	for n := 0; n < 2000; n++ {
		work <- n
	}
	close(work)
	group.Wait()
	fmt.Fprintln(os.Stderr, len(all))
}
