// SPDX-License-Identifier: MIT OR Apache-2.0

// Asks a server again and again: ADDRESS CONNECTIONS DURATION. Prints the number of answers.
package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

func main() {
	connections, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	duration, err := time.ParseDuration(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}}
	end := time.Now().Add(duration)
	var answers atomic.Int64
	var all sync.WaitGroup
	for range connections {
		all.Go(func() {
			for time.Now().Before(end) {
				answer, err := client.Get("http://" + os.Args[1] + "/work")
				if err != nil {
					log.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, answer.Body); err != nil {
					log.Fatal(err)
				}
				answer.Body.Close()
				answers.Add(1)
			}
		})
	}
	all.Wait()
	fmt.Println(answers.Load())
}
