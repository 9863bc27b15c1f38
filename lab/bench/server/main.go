// SPDX-License-Identifier: MIT OR Apache-2.0

// A server of many small requests, with OpenTelemetry's SDK, of which one request in ten is sampled.
//
//	server ADDRESS
//
// GET /item/N answers with an item as JSON. A request is two spans: its own, and one for the look-up. It also has a part that waits for a lock,
// as any store of items. `tracer.go` says which variables choose what is traced.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	items   = 1000
	sampled = 0.1
)

type item struct {
	Number int      `json:"number"`
	Name   string   `json:"name"`
	Seen   int      `json:"seen"`
	Tags   []string `json:"tags"`
}

type store struct {
	lock  sync.Mutex
	items map[int]item
}

func filled() *store {
	filled := &store{items: map[int]item{}}
	for number := range items {
		name := fmt.Sprint("item ", number)
		filled.items[number] = item{Number: number, Name: name, Tags: []string{"small", "blue", "new"}}
	}
	return filled
}

// The item, which was asked for once more.
func (s *store) look(number int) (item, bool) {
	s.lock.Lock()
	defer s.lock.Unlock()
	found, is := s.items[number]
	if is {
		found.Seen++
		s.items[number] = found
	}
	return found, is
}

type server struct {
	store  *store
	tracer trace.Tracer
}

func (s *server) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	ctx, span := s.tracer.Start(request.Context(), "GET /item", trace.WithSpanKind(trace.SpanKindServer))
	defer span.End()
	text := request.PathValue("number")
	span.SetAttributes(attribute.String("http.request.method", "GET"), attribute.String("url.path", request.URL.Path))
	number, err := strconv.Atoi(text)
	if err != nil {
		http.Error(answer, "not a number", http.StatusBadRequest)
		return
	}
	_, part := s.tracer.Start(ctx, "look up")
	part.SetAttributes(attribute.Int("item", number))
	found, is := s.store.look(number)
	part.End()
	if !is {
		http.Error(answer, "no such item", http.StatusNotFound)
		return
	}
	body, err := json.Marshal(found)
	if err != nil {
		http.Error(answer, err.Error(), http.StatusInternalServerError)
		return
	}
	answer.Header().Set("Content-Type", "application/json")
	answer.Write(body)
}

func run(address string) error {
	exporter, err := otlptracehttp.New(context.Background())
	if err != nil {
		return err
	}
	about := resource.NewSchemaless(attribute.String("service.name", "items"), attribute.Int("process.pid", os.Getpid()))
	provider := newTracerProvider(
		sdktrace.WithBatcher(exporter),
		sdktrace.WithResource(about),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(sampled))),
	)
	served := &server{store: filled(), tracer: provider.Tracer("items")}
	mux := http.NewServeMux()
	mux.Handle("GET /item/{number}", served)
	return http.ListenAndServe(address, mux)
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: server ADDRESS")
		os.Exit(2)
	}
	fmt.Fprintln(os.Stderr, run(os.Args[1]))
	os.Exit(1)
}
