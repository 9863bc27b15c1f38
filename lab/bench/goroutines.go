// Two goroutines hand each other a token. Waits for a line, then prints the time of a round trip in ns.
//
//	goroutines TRIPS
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

func main() {
	trips, _ := strconv.Atoi(os.Args[1])
	there, back := make(chan bool), make(chan bool)
	go func() {
		for range there {
			back <- true
		}
	}()
	os.Stdin.Read(make([]byte, 1))
	began := time.Now()
	for range trips {
		there <- true
		<-back
	}
	fmt.Printf("%.1f\n", float64(time.Since(began).Nanoseconds())/float64(trips))
}
