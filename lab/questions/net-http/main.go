// service: go shop 8197 net-http 8197
// service: go far 8198 net-http 8198
// record: --goroutines=all
//
// question: mutex
// cause: a request waits for a sync.Mutex, held by another as it sleeps
// send: 0 /hold, 100 /item
// twin: 0 /hold?free=1, 100 /item
// size: body
// who: GET /hold
//
// question: channel
// cause: a request waits for what another request sends into a channel
// send: 0 /produce, 100 /consume
// twin: 0 /produce?free=1, 450 /consume
// size: body
// who: GET /produce
//
// question: call
// cause: a request calls another service, which sleeps for 350 ms
// send: 0 /proxy
// twin: 0 /proxy?ms=1
// size: 350 ms
// who: far GET /sleepy
// twin-never: sleeping
//
// question: spin
// cause: a request computes for 300 ms
// send: 0 /spin
// size: 300 ms
// says: running
//
// question: connection-pool
// cause: a request waits for a pool's only connection, which another request has
// send: 0 /connection, 100 /quick-connection
// twin: 0 /connection?free=1, 100 /quick-connection
// size: body
// who: GET /connection

// Net/http under OpenTelemetry.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
)

var lock sync.Mutex
var orders = make(chan int, 1)
var connections = make(chan int, 1)

// Answers with the time that the work took, in ms.
func handle(path string, work func(*http.Request)) {
	answer := func(response http.ResponseWriter, request *http.Request) {
		began := time.Now()
		work(request)
		fmt.Fprintf(response, "%.1f", float64(time.Since(began).Microseconds())/1000)
	}
	http.Handle(path, otelhttp.NewHandler(http.HandlerFunc(answer), "GET "+path))
}

func isFree(request *http.Request) bool { return request.URL.Query().Has("free") }

func main() {
	background := context.Background()
	exporter, err := otlptracehttp.New(background)
	if err != nil {
		panic(err)
	}
	name, _ := resource.New(background, resource.WithFromEnv(), resource.WithTelemetrySDK(), resource.WithProcessPID(), resource.WithHost())
	otel.SetTracerProvider(trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithResource(name)))
	otel.SetTextMapPropagator(propagation.TraceContext{})
	client := http.Client{Transport: otelhttp.NewTransport(http.DefaultTransport)}
	connections <- 1

	handle("/hold", func(request *http.Request) {
		if !isFree(request) {
			lock.Lock()
			defer lock.Unlock()
		}
		time.Sleep(400 * time.Millisecond)
	})
	handle("/item", func(*http.Request) {
		lock.Lock()
		defer lock.Unlock()
	})
	handle("/produce", func(request *http.Request) {
		if isFree(request) {
			orders <- 1
		}
		time.Sleep(400 * time.Millisecond)
		if !isFree(request) {
			orders <- 1
		}
	})
	handle("/consume", func(*http.Request) { <-orders })
	handle("/connection", func(request *http.Request) {
		if !isFree(request) {
			connection := <-connections
			defer func() { connections <- connection }()
		}
		time.Sleep(400 * time.Millisecond)
	})
	handle("/quick-connection", func(*http.Request) { connections <- <-connections })
	handle("/sleepy", func(request *http.Request) {
		ms, _ := time.ParseDuration(request.URL.Query().Get("ms") + "ms")
		time.Sleep(ms)
	})
	handle("/spin", func(*http.Request) {
		for began := time.Now(); time.Since(began) < 300*time.Millisecond; {
		}
	})
	handle("/proxy", func(request *http.Request) {
		ms := request.URL.Query().Get("ms")
		if ms == "" {
			ms = "350"
		}
		call, _ := http.NewRequestWithContext(request.Context(), "GET", "http://127.0.0.1:8198/sleepy?ms="+ms, nil)
		answer, err := client.Do(call)
		if err != nil {
			panic(err)
		}
		io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
	})
	panic(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
