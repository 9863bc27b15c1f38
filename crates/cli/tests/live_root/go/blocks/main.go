// Requests that block each other in known ways. It writes two files into its folder: `log` has the reasons and times of the
// waits, `spans.json` its spans (OTLP).
//
//	blocks ROUNDS [FIRST [ADDRESS]]
//
// The requests' ids count from FIRST on. At ADDRESS it serves its execution trace, and begins once that is read. A line of the log for each wait: the waiting request's trace id, the reason, the
// length by the program's own clock, and the trace id of the awaited request, or -.
package main

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/http"
	_ "net/http/pprof"
	"os"
	runtimetrace "runtime/trace"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/sdk/trace"
)

type request struct {
	context trace.SpanContext
	name    string
	from    time.Time
}

var (
	last  atomic.Uint64
	lines sync.Mutex
	spans []string
	log   []string
)

func begin(name string) request {
	var r request
	number := last.Add(1)
	r.context.TraceID[0], r.context.SpanID[0] = 1, 2
	binary.BigEndian.PutUint64(r.context.TraceID[8:], number)
	binary.BigEndian.PutUint64(r.context.SpanID[:], number)
	r.name, r.from = name, time.Now()
	var parent trace.SpanContext
	parent.TraceID[3] = 7
	trace.Begin(context.Background(), parent, r.context, name)
	return r
}

func (r request) trace() string { return hex.EncodeToString(r.context.TraceID[:]) }

func (r request) end() {
	to := time.Now()
	span := fmt.Sprintf(`{"traceId": %q, "spanId": %q, "name": %q, "startTimeUnixNano": "%d", "endTimeUnixNano": "%d"}`,
		r.trace(), hex.EncodeToString(r.context.SpanID[:]), r.name, r.from.UnixNano(), to.UnixNano())
	lines.Lock()
	spans = append(spans, span)
	lines.Unlock()
}

// Notes a wait that began at this time.
func (r request) waited(what string, began time.Time, other string) {
	line := fmt.Sprintf("waited %s %s %d %s", r.trace(), what, time.Since(began), other)
	lines.Lock()
	log = append(log, line)
	lines.Unlock()
}

func busy(length time.Duration) {
	for began := time.Now(); time.Since(began) < length; {
	}
}

// A recordable call.
//
//go:noinline
func acquire(lock *sync.Mutex) {
	lock.Lock()
}

// A request sleeps with the lock for which another waits.
func mutex() {
	var lock sync.Mutex
	var both sync.WaitGroup
	held := make(chan string)
	both.Add(2)
	go func() {
		defer both.Done()
		r := begin("holds")
		lock.Lock()
		held <- r.trace()
		time.Sleep(40 * time.Millisecond)
		lock.Unlock()
		r.end()
	}()
	go func() {
		defer both.Done()
		holder := <-held
		r := begin("mutex")
		began := time.Now()
		acquire(&lock)
		r.waited("sync.Mutex.Lock", began, holder)
		lock.Unlock()
		r.end()
	}()
	both.Wait()
}

// A request computes a value that another receives.
func channel() {
	var both sync.WaitGroup
	work, start := make(chan int), make(chan string)
	both.Add(2)
	go func() {
		defer both.Done()
		r := begin("sends")
		start <- r.trace()
		// The other request gets a thread, even the only one.
		time.Sleep(2 * time.Millisecond)
		busy(20 * time.Millisecond)
		work <- 1
		r.end()
	}()
	go func() {
		defer both.Done()
		sender := <-start
		r := begin("channel")
		began := time.Now()
		<-work
		r.waited("chan#receive", began, sender)
		r.end()
	}()
	both.Wait()
}

// A request waits for its own goroutines, which sleep.
func group() {
	r := begin("group")
	var parts sync.WaitGroup
	for part := 1; part <= 2; part++ {
		parts.Add(1)
		go func(part int) {
			defer parts.Done()
			time.Sleep(time.Duration(part) * 15 * time.Millisecond)
		}(part)
	}
	began := time.Now()
	parts.Wait()
	r.waited("sync.WaitGroup.Wait", began, "-")
	r.end()
}

func sleeps() {
	r := begin("sleeps")
	began := time.Now()
	time.Sleep(25 * time.Millisecond)
	r.waited("sleep", began, "-")
	r.end()
}

func main() {
	rounds, _ := strconv.Atoi(os.Args[1])
	if len(os.Args) > 2 {
		first, _ := strconv.Atoi(os.Args[2])
		last.Store(uint64(first))
	}
	if len(os.Args) > 3 {
		go func() { panic(http.ListenAndServe(os.Args[3], nil)) }()
		for !runtimetrace.IsEnabled() {
			time.Sleep(time.Millisecond)
		}
		// The trace begins before the recording.
		time.Sleep(3 * time.Second)
	}
	time.Sleep(50 * time.Millisecond)
	for round := 0; round < rounds; round++ {
		var all sync.WaitGroup
		for _, one := range []func(){mutex, group, sleeps} {
			all.Add(1)
			go func() {
				defer all.Done()
				one()
			}()
		}
		all.Wait()
		// Alone: it computes, and would keep the others from a thread.
		all.Add(1)
		go func() {
			defer all.Done()
			channel()
		}()
		all.Wait()
	}
	// Leaves time to read the clocks after the last span.
	time.Sleep(50 * time.Millisecond)
	// A program that ends takes the last second of its trace with it.
	defer func() {
		for runtimetrace.IsEnabled() {
			time.Sleep(time.Millisecond)
		}
	}()
	if err := os.WriteFile("log", []byte(strings.Join(log, "\n")), 0o644); err != nil {
		panic(err)
	}
	document := `{"resourceSpans": [{"resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "blocks"}}]},
"scopeSpans": [{"spans": [` + strings.Join(spans, ",\n") + `]}]}]}`
	if err := os.WriteFile("spans.json", []byte(document), 0o644); err != nil {
		panic(err)
	}
}
