// SPDX-License-Identifier: MIT OR Apache-2.0

// A server with two goroutines, a mutex and a channel for each request: ADDRESS STEPS. A request computes for so many steps.
package main

import (
	"encoding/json"
	"log"
	"net/http"
	_ "net/http/pprof"
	"os"
	"strconv"
	"sync"
)

func main() {
	steps, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	var lock sync.Mutex
	served := 0
	http.HandleFunc("/work", func(answer http.ResponseWriter, _ *http.Request) {
		lock.Lock()
		served++
		number := served
		lock.Unlock()
		done := make(chan int)
		go func() {
			sum := number
			for i := 0; i < steps; i++ {
				sum = sum*31 + i
			}
			done <- sum
		}()
		json.NewEncoder(answer).Encode(map[string]int{"number": number, "sum": <-done})
	})
	log.Fatal(http.ListenAndServe(os.Args[1], nil))
}
